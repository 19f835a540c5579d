"""Child processes that do not outlive the process that started them. Not for Windows."""

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from asyncio_alt.pc import Problem
from asyncio_alt.pc.targets import Lines, keep

_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
# Seconds that a wait may take: Ctrl-C that comes just before a wait is noticed after it.
SLICE = 0.2
_AHEAD = 100  # pieces of output that wait for told; at the limit the process has to wait, too
_libc = ctypes.CDLL(None)
_running = set()
_over = False  # no process may start any more


@contextlib.contextmanager
def running(command, **options):
    """Run a command with pipes for its input, output and errors; at the end kill it and all that
    it has started. The options are subprocess.Popen's. Raises Problem if it cannot be started."""
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


def converse(process, data, timeout, told):
    """Send data to a process of running(); call told(line) with each line (str) that it prints, to
    either output, as it comes. It is killed after `timeout` seconds.

    Returns its output and its errors (bytes, only the newest if there are many), and whether it
    was killed.
    """
    pieces = queue.Queue(_AHEAD)
    over = False

    def put(pipe, data):
        while not over:
            with contextlib.suppress(queue.Full):
                return pieces.put((pipe, data), timeout=SLICE)

    def read(pipe):
        while data := os.read(pipe.fileno(), 65536):
            put(pipe, data)
        put(pipe, None)

    texts = {process.stdout: bytearray(), process.stderr: bytearray()}
    lines = {pipe: Lines(told) for pipe in texts}
    threads = [threading.Thread(target=read, args=(pipe,), daemon=True) for pipe in texts]
    for thread in threads:
        thread.start()
    timed_out = False
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(data)
        end = time.monotonic() + timeout
        reading = len(texts)
        while reading:
            if not timed_out and time.monotonic() > end:
                timed_out = True
                kill(process)
            try:
                pipe, data = pieces.get(timeout=SLICE)
            except queue.Empty:
                continue
            if data is None:
                lines[pipe].end()
                reading -= 1
            else:
                keep(texts[pipe], data)
                lines[pipe].add(data)
    except BaseException:
        over = True
        kill(process)  # so that nothing reads on from pipes that the caller closes
        raise
    finally:
        for thread in threads:
            thread.join()
    process.wait()
    return *texts.values(), timed_out


def kill_all():
    """Kill the processes that run, whichever threads have started them, and those to come."""
    global _over
    _over = True
    for process in list(_running):
        kill(process)


def kill(process):
    """Kill a process that running() has started, and all that it has started itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _detach():
    # In a process group of its own, Ctrl-C does not reach it: we end it in our own time. It stays
    # in the session, as Linux counts niceness within a session.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored, if a shell has us in the background
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
