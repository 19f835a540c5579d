"""Publisher: publishing from an interrupt handler, another thread or the other core."""

import struct
import sys

from . import broker as _broker
from .compat import FAULTS, bounded, report

_INVALID = (TypeError, ValueError)
_COPIED = object()  # stands for a value that put_from() has copied

if sys.implementation.name == "micropython":
    from .. import core
    from ..event import ThreadSafeFlag

    _pack = struct.pack_into

    # The flag of its own task, which publishes.
    class _Drain(ThreadSafeFlag):
        def _start(self):
            ThreadSafeFlag.__init__(self)
            self._ring = core.ring
            run = self._run()
            run.send(None)  # so that its `finally` runs even if the task never does
            core.create_task(run)

        def _run(self):  # async
            try:
                yield
                while self._open:
                    yield from self.wait(True)
                    while self._publish():
                        yield from core.sleep_ms(0)  # it goes on and on: let the others run
            finally:
                self._shut()

        def close(self):
            """Ends it, now: values that are not published yet are lost, leases come back. From a
            task or callback only, also from a function that it calls; stop the calls of put()
            before."""
            self._shut()
            self.set()

else:
    import asyncio
    import os

    def _pack(format, to, at, buf):
        struct.pack_into(format, to, at, memoryview(buf).tobytes())

    class _Drain:
        state = 0  # 1: there are values; read by nobody here
        _called = False  # the loop will call _run()

        def _start(self):
            self._loop = asyncio.get_running_loop()
            self._pid = os.getpid()

        def _ring(self, _):
            # In a forked process nobody runs the loop, and its socket is the parent's.
            if not self._open or self._loop.is_closed() or self._pid != os.getpid():
                self.overruns += 1
                self._shut()
            elif not self._called:
                self._called = True
                try:
                    self._loop.call_soon_threadsafe(self._run)
                except RuntimeError:  # it has been closed just now
                    self._ring(None)

        def _run(self):
            self._called = False
            try:
                again = self._publish()
            except BaseException:
                again = True
                raise
            finally:
                if again:
                    self._ring(None)

        def close(self):
            self._shut()


class Publisher(_Drain):
    """Publishes the values that one interrupt handler, hard or not, or one other thread puts in,
    in that order, by a task of its own that runs next, ahead of the ready tasks. It ends with the
    run() of the loop, or with close(); on CPython it is to be made in the loop. An exception of
    publish() is reported, and it goes on.

    broker: the Broker; topic: str; size: how many values wait at most for the loop (int);
    nbytes: the longest buffer for put_from() (int); both up to 16777215.
    overruns: how many values were refused: there was no room, or the Publisher has ended."""

    def __init__(self, broker, topic, size, nbytes=0):
        _broker._topic(topic)
        bounded("size", size, 1)
        bounded("nbytes", nbytes, 0)
        self.overruns = 0
        self._open = True
        self._broker = broker
        self._topic = topic
        # A ring with one place more, which stays free.
        self._values = [None] * (size + 1)
        self._end = size + 1
        self._in = 0  # where the next value goes; changed by put() only
        self._out = 0  # where the oldest is; changed by the loop only
        # For put_from(): as many buffers, and how much of each is used; -1: it is free.
        self._nbytes = nbytes
        self._lengths = [-1] * size
        self._filled = 0  # the next one to be filled; changed by put_from() only
        self._copied = 0  # the next one to be published; changed by the loop only
        self._format = "%ds" % nbytes
        self._buf = memoryview(bytearray(nbytes * size))
        self._start()

    def put(self, value):
        """Has value published: an int or any object that is there already, a pool's Lease too.
        Returns whether there was room; False after its end, and in a forked process. May be
        called from a hard interrupt; never allocates."""
        i = self._in
        following = i + 1
        if following == self._end:
            following = 0
        if following == self._out:
            self.overruns += 1
            return False
        self._values[i] = value
        self._in = following
        self.state = 1
        self._ring(b"\0")
        return self._open

    def put_from(self, buf, n=None):
        """Has a copy of the first n bytes of buf published, as bytes. buf: bytes, bytearray, array
        or memoryview; n: int, default len(buf), which for an array counts items, not bytes. As
        put(). If buf is shorter, zeros follow. TypeError if buf or n is of another type,
        ValueError if n is less than 0 or more than nbytes; in a hard interrupt it returns False
        instead, and overruns counts it."""
        try:
            if n is None:
                n = len(buf)
            elif not isinstance(n, int):
                raise TypeError("n must be an int")
            if not 0 <= n <= self._nbytes:
                raise ValueError("n, or the length of buf, must be 0 to nbytes")
            i = self._filled
            lengths = self._lengths
            if lengths[i] < 0:
                # Unlike a slice it allocates nothing.
                _pack(self._format, self._buf, i * self._nbytes, buf)
                lengths[i] = n
                if self.put(_COPIED):
                    i += 1
                    self._filled = 0 if i == len(lengths) else i
                    return True
                lengths[i] = -1
                return False
        except _INVALID:
            try:
                [n]  # a hard interrupt has no memory
                raise
            except MemoryError:
                pass
        self.overruns += 1
        return False

    def _publish(self):
        # Publish the values that are there, at most as many as there is room for; returns whether
        # that was not all.
        values = self._values
        for _ in values:
            i = self._out
            if i == self._in or not self._open:
                return False
            value = values[i]
            values[i] = None
            try:
                try:
                    if value is _COPIED:
                        value = self._copy()
                finally:
                    i += 1
                    self._out = 0 if i == self._end else i
                self._broker.publish(self._topic, value)
            except FAULTS as er:
                self._release(value)
                report("Exception in a Publisher", er)
        return True

    def _copy(self):
        i = self._copied
        at = i * self._nbytes
        try:
            return bytes(self._buf[at : at + self._lengths[i]])
        finally:
            self._lengths[i] = -1
            self._copied = 0 if i + 1 == len(self._lengths) else i + 1

    def _release(self, value):
        if _broker._Lease and isinstance(value, _broker._Lease):
            value.release()

    def _shut(self):
        # Have put() find no room any more, also an interrupt that comes in between; then empty it.
        self._open = False
        i = None
        while i != self._in:
            i = self._in
            self._out = 0 if i + 1 == self._end else i + 1
        values = self._values
        for i in range(self._end):
            value = values[i]
            values[i] = None
            self._release(value)
