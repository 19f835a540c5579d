"""MicroPython's unix port, one process a script."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools import Problem
from tools.targets import PROBE, Result, Target
from tools.targets.child import converse, kill, running

_ROOT = Path(__file__).resolve().parents[2]


class Unix(Target):
    """The binary `binary` (default: $MICROPYTHON, else the installed one), started with `args`.

    `path` lists the folders that imports are looked for in, ahead of the frozen modules
    (default: the repository's root).
    """

    name = "unix"

    def __init__(self, binary=None, args=(), path=(_ROOT,)):
        self.binary = str(binary or micropython())
        self.args = list(args)
        self.path = [str(p) for p in path]

    def start(self):
        # Scripts start in an empty folder: imports look there first, and tests may write there.
        self._folder = tempfile.TemporaryDirectory()
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


def micropython() -> str:
    """Return the path of the unix port's binary: $MICROPYTHON, else the one in .venv."""
    # The installed one is a Python script that turns its own process into MicroPython, in 10 ms.
    return os.environ.get("MICROPYTHON") or str(Path(sys.executable).with_name("micropython"))
