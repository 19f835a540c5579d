"""Publisher: what publishes from an interrupt handler, another thread or the other core."""

import struct
import sys

from .broker import _topic

_COPIED = object()  # stands for a value that put_from() has copied

if sys.implementation.name == "micropython":
    from .. import core
    from ..event import ThreadSafeFlag

    # The flag of its own task, which publishes.
    class _Drain(ThreadSafeFlag):
        def _start(self):
            ThreadSafeFlag.__init__(self)
            self._ring = core._ring
            self._task = core.create_task(self._run())

        async def _run(self):
            while True:
                await self.wait(True)
                while self._publish():
                    await core.sleep_ms(0)  # it goes on and on: let the others run

        def close(self):
            """Ends it; stop what calls put() before. From a task or callback only."""
            self._task.cancel()

else:
    import asyncio

    class _Drain:
        state = 0  # 1: there are values; read by nobody here
        _called = False  # the loop will call _run()

        def _start(self):
            self._loop = asyncio.get_running_loop()

        def _ring(self, _):
            if not self._called:
                self._called = True
                self._loop.call_soon_threadsafe(self._run)

        def _run(self):
            self._called = False
            if self._publish():
                self._ring(None)

        def close(self):
            self._called = True


class Publisher(_Drain):
    """Publishes what one interrupt handler, hard or not, or one other thread puts in, in that
    order, by a task of its own that runs next, ahead of the ready tasks. It ends with the run() of
    the loop; on CPython it is to be made in the loop.

    broker: the Broker; topic: str; size: how many values wait at most for the loop (int);
    nbytes: the longest buffer for put_from() (int).
    overruns: how many values found no room and were lost."""

    def __init__(self, broker, topic, size, nbytes=0):
        _topic(topic)
        if not isinstance(size, int) or size < 1:
            raise ValueError("size must be an int of 1 or more")
        if not isinstance(nbytes, int) or nbytes < 0:
            raise ValueError("nbytes must be an int of 0 or more")
        self._start()
        self.overruns = 0
        self._broker = broker
        self._topic = topic
        # A ring with one place more, which stays free.
        self._values = [None] * (size + 1)
        self._end = size + 1
        self._in = 0  # where the next value goes; changed by put() only
        self._out = 0  # where the oldest is; changed by the loop only
        # For put_from(): a buffer for each place, and how much of it is used.
        self._nbytes = nbytes
        self._lengths = [0] * self._end
        self._format = "%ds" % nbytes
        self._buf = memoryview(bytearray(nbytes * self._end))

    def put(self, value):
        """Has value published: an int or any object that is there already, a pool's Lease too.
        Returns whether there was room. May be called from a hard interrupt; never allocates."""
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
        return True

    def put_from(self, buf, n=None):
        """Has a copy of the first n bytes of buf published, as bytes. buf: bytes, bytearray, array
        or memoryview; n: int, default len(buf), which for an array counts items, not bytes. As
        put(); ValueError if it is more than nbytes."""
        if n is None:
            n = len(buf)
        if n > self._nbytes:
            raise ValueError("buf is longer than nbytes")
        i = self._in
        # pack_into, unlike a slice, allocates nothing. The place at _in is always free.
        struct.pack_into(self._format, self._buf, i * self._nbytes, buf)
        self._lengths[i] = n
        return self.put(_COPIED)

    def _publish(self):
        # Publish what is there, at most as much as there is room for; returns whether that was
        # not all.
        values = self._values
        for _ in values:
            i = self._out
            if i == self._in:
                return False
            value = values[i]
            values[i] = None
            if value is _COPIED:
                at = i * self._nbytes
                value = bytes(self._buf[at : at + self._lengths[i]])
            i += 1
            self._out = 0 if i == self._end else i
            self._broker.publish(self._topic, value)
        return True
