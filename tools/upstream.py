"""Run MicroPython's own asyncio tests, unchanged, with asyncio_alt in place of asyncio."""

from tests import upstream
from tools import Problem, WrongArgument, targets
from tools.build import source


def add_arguments(parser):
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="part of a test's name (default: all)"
    )
    parser.add_argument("--target", choices=targets.NAMES, default="unix", help="(default: unix)")
    parser.add_argument(
        "--mode",
        choices=upstream.MODES,
        help="how asyncio is replaced (default: alias on unix, else install); "
        + "; ".join(f"{mode}: {text}" for mode, text in upstream.MODES.items()),
    )
    parser.add_argument("--task-py", action="store_true", help="hide the C module _asyncio")
    parser.add_argument(
        "--micropython-src",
        metavar="PATH",
        help="a MicroPython checkout (default: $MICROPYTHON_SRC, else a release from Debian)",
    )


def main(args):
    mode = args.mode or ("alias" if args.target == "unix" else "install")
    cases = [
        case
        for case in upstream.discover(source.tree(args.micropython_src))
        if not args.names or any(name in upstream.case_id(case) for name in args.names)
    ]
    if not cases:
        # Without names, the source has no tests at all.
        if not args.names:
            raise Problem("the source of MicroPython has no tests of asyncio")
        names = " or ".join(map(repr, args.names))
        raise WrongArgument(f"argument NAME: no test has a name with {names}")
    count = dict.fromkeys(("pass", "fail", "skip"), 0)
    with upstream.started(args.target, mode, args.task_py, args.micropython_src) as target:
        for case in cases:
            print(f"{upstream.case_id(case):58}", end="", flush=True)
            status, why = upstream.run_case(case, target, mode, args.task_py)
            count[status] += 1
            if status == "fail":
                print(f"fail\n{why.rstrip()}")
            else:
                print(status + (f" ({why})" if why else ""))
    print("{pass} passed, {fail} failed, {skip} skipped".format(**count))
    return 1 if count["fail"] else 0
