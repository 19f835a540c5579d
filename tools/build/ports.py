"""Build firmware of every kind from MicroPython sources, run it, and print a table of the results.

In the table "starts" means that a script ran on it: tasks, timers, and a flag that an interrupt or
a callback sets. With --tests all device tests run. The table in docs/porting.md is from here.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tools import Problem, Unavailable, targets
from tools.bootstrap import ROOT
from tools.build import firmware, source

_NOT_RUN = "rp2350"  # no emulator has it

_SCRIPT = """
import asyncio_alt as asyncio
from asyncio_alt import irq
def emitter():
    bytecode = type(lambda: 0)
    return "bytecode" if type(irq.Interrupt.__call__) is bytecode else "machine code"
def set(x):
    flag.set()
async def wait():
    await flag.wait()
    return 1
async def main():
    for _ in range(9):
        t = asyncio.create_task(wait())
        await asyncio.sleep_ms(1)
        pend()
        assert await asyncio.wait_for(t, 1) == 1
flag = asyncio.ThreadSafeFlag()
try:
    import hwirq
    hwirq.irq(1, set, hard=True)
    pend = lambda: hwirq.pend(1)
except ImportError:
    import micropython
    pend = lambda: micropython.schedule(set, 0)
asyncio.run(main())
print(emitter())
"""


def add_arguments(parser):
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="MicroPython sources (default: the one that `firmware` takes)",
    )
    parser.add_argument(
        "--kind",
        choices=firmware.KINDS,
        action="append",
        metavar="KIND",
        help="only this kind of firmware; may be given again",
    )
    parser.add_argument("--tests", action="store_true", help="run all device tests, too")


def main(args):
    trees = [source.tree(path) for path in args.sources or [None]]
    kinds = args.kind or list(firmware.KINDS)
    print("| |", " | ".join(_version(tree) for tree in trees), "|")
    print("| --- |" + " --- |" * len(trees))
    failed = 0
    for kind in kinds:
        cells = []
        for tree in trees:
            try:
                cells.append(_try(kind, str(tree), args.tests))
            except Unavailable as reason:
                cells.append(f"not tried: {reason}")
            except Problem as problem:
                print(f"{kind}: {problem}", file=sys.stderr)
                cells.append("fails")
                failed = 1
        print(f"| `{kind}` |", " | ".join(cells), "|", flush=True)
    return failed


def _try(kind, tree, tests):
    """Build one kind and run it; return what is to be said. Raises Problem if it fails."""
    built = firmware.build(kind, micropython_src=tree)
    if kind == _NOT_RUN:
        return f"builds, {round(built.stat().st_size, -3) // 1000} KB; not run"
    own = {"binary": built, "path": []} if kind == "unix" else {"micropython_src": tree}
    with targets.get(kind, **own) as target:
        result = target.run(_SCRIPT)
    if not result.ok:
        raise Problem(result.err or "it does not end")
    said = f"starts, {result.out.strip()}"
    if tests and kind != "unix":
        said += f"; {_tests(kind, tree)}"
    return said


def _tests(kind, tree):
    command = [sys.executable, "-m", "tools", "test", "--target", kind, "tests/device", "-q"]
    environment = {**os.environ, "MICROPYTHON_SRC": tree}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Problem(done.stdout)
    return re.findall(r"\d+ passed", done.stdout)[-1]


def _version(tree):
    text = Path(tree, "py", "mpconfig.h").read_text()
    return ".".join(
        re.search(rf"#define MICROPY_VERSION_{part} (\d+)", text)[1]
        for part in ("MAJOR", "MINOR", "MICRO")
    )
