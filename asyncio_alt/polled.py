"""Waiting for whatever can be polled: readable() and writable(), and callbacks for it."""

from micropython import const

from . import core
from .ioqueue import opened

_POLLIN = const(1)
_POLLOUT = const(4)

_readers = {}  # id(stream) to its callback
_writers = {}


def readable(stream, priority=False):  # async
    """Waits until the stream (a socket, a UART, any object that can be polled) can be read, is at
    its end or has failed. priority: True to have the task woken with priority. RuntimeError if
    another task waits for that, OSError (EBADF) if the stream is closed, TypeError if it cannot be
    polled."""
    yield core._io_queue.queue_read(stream, priority)


def writable(stream):  # async
    """As readable(), until the stream can be written or has failed."""
    yield core._io_queue.queue_write(stream)


class _Callback:
    # Stands for the coroutine of a task that waits for one side of a stream, over and over.

    def __init__(self, all, stream, callback, args):
        self._all = all
        self._stream = stream
        self._callback = callback
        self._args = args
        self._over = False
        self._task = core.Task(self, core.__dict__)
        all[id(stream)] = self
        opened[self] = None
        try:
            self._wait()
        except BaseException:
            self._fail(None)
            raise

    def _wait(self):
        if self._all is _readers:
            core._io_queue.enqueue(self._stream, 0, _POLLIN, self._task)
        else:
            core._io_queue.enqueue(self._stream, 1, _POLLOUT, self._task)

    def _fail(self, exc):
        # Also called when run() ends.
        if not self._over:
            self._over = True
            self._all.pop(id(self._stream), None)
            opened.pop(self, None)
            core._io_queue.remove(self._task)

    def send(self, _):
        # Called by the loop. The callback is no task.
        core.cur_task = None
        if not self._over:
            try:
                self._callback(*self._args)
            except Exception as er:
                core.report("Exception in callback", er)
        if not self._over:
            try:
                return self._wait()
            except Exception as er:
                self._fail(er)
                if not (isinstance(er, OSError) and er.errno == 9):  # the callback has closed it
                    core.report("A callback is removed", er)
        raise StopIteration

    def throw(self, exc):
        # The poll raised because of the stream; or it was closed.
        self._fail(exc)
        if isinstance(exc, Exception):
            core.report("A callback is removed", exc)
            raise StopIteration
        raise exc


def add(writer, stream, callback, args):
    """As Loop.add_reader(), or Loop.add_writer() if writer (bool)."""
    if not callable(callback):
        raise TypeError("callback must be callable")
    all = _writers if writer else _readers
    c = all.get(id(stream))
    if c:
        c._callback = callback
        c._args = args
    else:
        _Callback(all, stream, callback, args)


def remove(writer, stream):
    """As Loop.remove_reader(), or Loop.remove_writer() if writer (bool)."""
    c = (_writers if writer else _readers).get(id(stream))
    if c:
        c._fail(None)
    return bool(c)
