"""Run the tests: those of the device package on real MicroPython, those of the tools on this PC.

Without arguments it runs what takes three minutes at most: the device tests on the unix port, and
the quick ones of the tools. The last lines say how to run the rest.

Options that are not listed here are pytest's own, for example -k EXPR to choose tests by name,
-x to stop at the first failure, tests/device/test_harness.py to run one file.
"""

import pytest

from tools import targets


def add_arguments(parser):
    parser.add_argument(
        "--target",
        type=targets.wanted,
        metavar="TARGET",
        help=f"where tests/device runs: {targets.WANTED} (default: unix)",
    )
    parser.add_argument(
        "--task-py",
        action="store_true",
        help="only with asyncio_alt/task.py in place of the C module (default: also with that)",
    )
    parser.add_argument(
        "--long",
        action="store_true",
        help="also tests that take very long; with --target all, each test on all of QEMU's chips",
    )
    parser.set_defaults(rest=[])  # the arguments for pytest


def main(args):
    quick = not (args.target or args.task_py or args.long or args.rest)
    options = ["--target", args.target or "unix", "-o", "console_output_style=count"]
    options += ["--task-py"] * args.task_py + ["--long"] * args.long + ["--quick"] * quick
    ended = _Ended()
    code = pytest.main([*options, *args.rest], [ended])
    if quick:
        print(_REST)
    return 130 if ended.by_ctrl_c else code


_REST = """\
These were the quick tests. The rest:
    python3 -m tools test --target unix         all tests of the unix port and of the tools
    python3 -m tools test --target all          those of emulated chips too, each on one chip
    python3 -m tools test --target all --long   all tests on all chips, as for a release"""


class _Ended:
    # A pytest plugin that notices Ctrl-C: pytest's exit code for it is also the one for tests that
    # cannot be collected.
    by_ctrl_c = False

    def pytest_keyboard_interrupt(self, excinfo):
        self.by_ctrl_c = isinstance(excinfo.value, KeyboardInterrupt)
