"""Child processes that do not outlive the process that started them."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

from tools import Problem

_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
_libc = ctypes.CDLL(None)
_running = set()
_over = False  # nothing is to be started any more


@contextlib.contextmanager
def running(command, **options):
    """Run a command with pipes for its input, output and errors; at the end kill it and what it
    has started. The options are subprocess.Popen's. Raises Problem if it cannot be started."""
    try:
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_detach,
            **options,
        )
    except OSError as error:
        raise Problem(f"cannot run {command[0]}: {error}") from None
    _running.add(process)
    with process:
        try:
            if _over:
                kill(process)
            yield process
        finally:
            _running.remove(process)
            kill(process)


def kill_all():
    """Kill the processes that run, whichever threads have started them, and those to come."""
    global _over
    _over = True
    for process in list(_running):
        kill(process)


def kill(process):
    """Kill a process that running() has started, and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _detach():
    # In a process group of its own Ctrl-C does not reach it: we end it in our own time. It stays
    # in the session, which on Linux is what niceness counts in.
    os.setpgid(0, 0)
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
