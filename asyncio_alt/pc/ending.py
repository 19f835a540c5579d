"""How a command ends: with one line that tells the error, or silently if nobody reads.

Exit codes: 1 the command has failed, 2 an argument is wrong, 130 Ctrl-C, 141 nobody reads.
"""

import contextlib
import errno
import os
import select
import signal
import stat
import sys
import threading

from asyncio_alt.pc import Problem, WrongArgument
from asyncio_alt.pc.screen import escaped, without_password

try:
    import termios
except ImportError:  # Windows, where none of this has been tried
    termios = None

_POLL = hasattr(select, "poll")
_ALARM = getattr(signal, "SIGALRM", None)
_PATIENCE = 1  # seconds to wait for the reader, after Ctrl-C
_FILES = {  # errors that the user can put right
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST, errno.ENOTDIR),
    *(errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EIO, errno.EMFILE, errno.ENFILE, errno.ETXTBSY),
}


class Over(KeyboardInterrupt):
    """Its time is over while nobody reads its output: it ends with the code 0."""


class Writer:
    """Writes until the time is over and nobody reads. Then it breaks off the current write, and
    writes no more. While somebody reads, the time does not matter.

    seconds: that time, 0 for no limit. A signal ends it, as a write blocks the program; so on
    Windows it is not broken off.
    """

    shut = False

    def __init__(self, seconds=0):
        self._seconds = seconds
        self._count = 0
        self._writing = self._seen = None  # numbers of writes

    def __enter__(self):
        if _ALARM:
            self._before = signal.signal(_ALARM, self._alarm)
        if self._seconds:
            self.limit(self._seconds)
        return self

    def __exit__(self, *exc):
        if _ALARM:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(_ALARM, self._before)

    def limit(self, seconds):
        """Let the time be over in so many seconds."""
        if _ALARM:
            signal.setitimer(signal.ITIMER_REAL, seconds, _PATIENCE / 2)

    def write(self, function, *args):
        """Call function(*args), which writes, if there is time."""
        if self.shut:
            return
        self._count += 1
        self._writing = self._count
        try:
            function(*args)
        except BaseException as end:
            self.shut = True
            if not isinstance(end, Over):
                raise
        finally:
            self._writing = None

    def _alarm(self, signum, frame):
        # A write is stuck if it lasts from one alarm to the next.
        stuck = self._writing is not None and self._writing == self._seen
        self._seen = self._writing
        if stuck:
            raise Over


def run(main, argv) -> int:
    """Return the exit code of main(argv), which may raise Problem or KeyboardInterrupt."""
    _open_missing()
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is behind a shell's &
        signal.signal(signal.SIGINT, _interrupt)
    for fd in 1, 2:
        if _is_pipe(fd):
            threading.Thread(target=_watch, args=(fd,), daemon=True).start()
    patience = None
    try:
        code = main(argv)
    except WrongArgument as wrong:
        code = _say(wrong, 2)
    except Problem as problem:
        code = _say(problem, 1)
    except KeyboardInterrupt as end:
        code = 0 if isinstance(end, Over) else 141 if _closed() else 130
        patience = _PATIENCE
    except SystemExit as end:
        code = 141 if _closed() else end.code
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _closed():
            code = 141
        elif error.errno in _FILES:
            where = f"{error.filename}: " if error.filename else "cannot write: "
            code = _say(f"{where}{error.strerror}", 1)
        else:
            raise
    # From here on, Ctrl-C ends it at once.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    found = []
    _continue_terminal()
    flushed = threading.Thread(target=_flush, args=(found, patience), daemon=True)
    flushed.start()
    flushed.join(patience)
    if flushed.is_alive():  # nobody reads
        os._exit(code)
    if found:
        code = 141 if _closed() else _say(f"cannot write: {found[0].strerror}", 1)
    return code


def _interrupt(signum, frame):
    # This runs every `finally`, so that nothing it started is left running.
    raise KeyboardInterrupt


def _open_missing():
    # Else the next file to be opened would get the number of a closed one.
    for fd in 0, 1, 2:
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(errors="backslashreplace")  # not all encodings have all characters


def _is_pipe(fd):
    if not _POLL:
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _hung_up(fd, ms):
    poll = select.poll()
    poll.register(fd, select.POLLERR | select.POLLHUP)
    return bool(poll.poll(ms))


def _watch(fd):
    # Ends the command when nobody reads any more, even if it writes nothing.
    while not _hung_up(fd, None):
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)


def _closed():
    return any(_is_pipe(fd) and _hung_up(fd, 0) for fd in (1, 2))


def _say(problem, code):
    # Parts of it may come from others; only a Problem of the tools has more than one line.
    lines = [str(problem)] if isinstance(problem, WrongArgument) else str(problem).split("\n")
    text = "\n".join(escaped(without_password(line)) for line in lines)
    try:
        print(f"error: {text}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads it
    return code


def _continue_terminal():
    # The user may have stopped it with Ctrl-S.
    if not termios:
        return
    with contextlib.suppress(OSError, termios.error):
        if os.tcgetpgrp(1) == os.getpgrp():
            termios.tcflow(1, termios.TCOOFF)  # else TCOON undoes no Ctrl-S on Linux
            termios.tcflow(1, termios.TCOON)


def _show_cursor():
    # Ctrl-C may have come after the cursor was hidden and before it was shown again.
    if "rich.console" in sys.modules and sys.stdout.isatty():
        sys.modules["rich.console"].Console().show_cursor()


def _flush(found, patience):
    if patience:
        _show_cursor()
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except OSError as error:
            found.append(error)
            # Python would try to write the rest again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            stream.flush()
