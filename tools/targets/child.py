"""Child processes that do not outlive the process that started them."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
_libc = ctypes.CDLL(None)
_running = set()


@contextlib.contextmanager
def running(command):
    """Run a command with pipes for its input, output and errors; kill it at the end."""
    # In a session of its own, so that Ctrl-C reaches us alone and we end it in our own time.
    process = subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )
    _running.add(process)
    with process:
        try:
            yield process
        finally:
            _running.remove(process)
            _kill(process)


def kill_all():
    """Kill the processes that run, whichever threads have started them."""
    for process in list(_running):
        _kill(process)


def _kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
