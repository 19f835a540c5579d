# StreamWriter: write() and drain(), on a stream in memory.

import io

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


class Pipe(io.IOBase):
    # Takes what there is room for.
    def __init__(self, room):
        self.room = room
        self.sent = b""

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        return 4 & arg if self.room else 0

    def write(self, buf):
        n = min(len(buf), self.room)
        self.room -= n
        self.sent += bytes(memoryview(buf)[:n])
        return n or None


async def passes(n):
    for _ in range(n):
        await asyncio.sleep_ms(0)


async def cancel(task):
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


async def test_tasks_that_write_and_drain_send_all_once_in_order():
    """Stock 1.29: hangs."""
    s = Pipe(room=1)
    stream = asyncio.StreamWriter(s)

    async def task(i):
        for _ in range(3):
            stream.write("%d%d%d" % (i, i, i))
            await stream.drain()

    tasks = [asyncio.create_task(task(i)) for i in range(3)]
    while not all(t.done() for t in tasks):
        await passes(1)
        s.room = 1
    for t in tasks:
        await t
    assert sorted(s.sent) == sorted(b"000111222" * 3)
    # Nobody's three bytes are cut by another's.
    assert all(s.sent[i] == s.sent[i + 2] for i in range(0, 27, 3)), s.sent
    assert not core._streams and not stream.lock.locked()


async def test_written_while_another_task_drains_is_sent():
    """Stock 1.29: 4 of 10 bytes lost."""
    s = Pipe(room=2)
    stream = asyncio.StreamWriter(s)
    stream.write(b"012345")
    drain = asyncio.create_task(stream.drain())
    await passes(2)
    stream.write(b"6789")
    while not drain.done():
        s.room = 2
        await passes(1)
    assert s.sent == b"0123456789", s.sent


async def test_cancelled_drain_goes_on_where_it_was():
    """Stock 1.29: 1 byte of 10 sent twice."""
    for k in range(8):
        s = Pipe(room=1)
        stream = asyncio.StreamWriter(s)
        stream.write(b"0123456789")
        drain = asyncio.create_task(stream.drain())
        for _ in range(k):
            await passes(1)
            s.room = 1
        await cancel(drain)
        assert not core._streams and not (stream.lock and stream.lock.locked())
        s.room = 100
        await stream.drain()
        assert s.sent == b"0123456789", (k, s.sent)


async def test_drain_cancelled_in_its_turn_leaves_the_others():
    s = Pipe(room=1)
    stream = asyncio.StreamWriter(s)
    stream.write(b"0123456789")
    tasks = [asyncio.create_task(stream.drain()) for _ in range(4)]
    await passes(3)
    await cancel(tasks[2])
    await cancel(tasks[0])
    s.room = 100
    await passes(6)
    assert all(t.done() for t in tasks) and s.sent == b"0123456789"
    assert not core._streams and not stream.lock.locked() and not stream.lock.waiting.peek()


async def test_drain_always_yields():
    ran = []

    async def other():
        ran.append(1)

    for data, room in (b"", 100), (b"abc", 100), (b"abc", 0):
        s = Pipe(room=room)
        stream = asyncio.StreamWriter(s)
        stream.write(data)
        s.room = 100
        ran.clear()
        t = asyncio.create_task(other())
        await stream.drain()
        assert ran, (data, room)
        await t


async def test_write_takes_text_and_buffers():
    for data in ("0123456789", b"0123456789", bytearray(b"0123456789")):
        for view in (data, data if isinstance(data, str) else memoryview(data)):
            for copy in (True, False):
                for room in (0, 4, 10):
                    s = Pipe(room=room)
                    stream = asyncio.StreamWriter(s)
                    stream.write(view, copy)
                    s.room = 3
                    t = asyncio.create_task(stream.drain())
                    while not t.done():
                        await passes(1)
                        s.room = 3
                    assert s.sent == b"0123456789", (view, copy, room, s.sent)


async def test_more_writes_before_drain_are_appended():
    s = Pipe(room=1)
    stream = asyncio.StreamWriter(s)
    for part in (memoryview(b"012"), bytearray(b"345"), "67", b"", memoryview(b"89")):
        stream.write(part)
    s.room = 100
    await stream.drain()
    assert s.sent == b"0123456789", s.sent


async def test_written_bytearray_may_change():
    s = Pipe(room=1)
    stream = asyncio.StreamWriter(s)
    for buf in (bytearray(b"012"), bytearray(b"345")):
        stream.write(buf)
        buf[:] = b"xxx"
    s.room = 100
    await stream.drain()
    assert s.sent == b"012345"


class Sink(io.IOBase):
    # A device that takes a byte at a time, and allocates nothing.
    def __init__(self):
        self.got = 0

    def ioctl(self, req, arg):
        return arg if req == 3 else -1

    def write(self, buf):
        self.got += 1
        return 1


async def test_write_by_reference_allocates_nothing():
    s = Sink()
    stream = asyncio.StreamWriter(s)
    for buf in (b"0123", bytearray(b"0123"), memoryview(b"0123")):
        s.got = 0
        micropython.heap_lock()
        stream.write(buf, False)
        micropython.heap_unlock()
        assert stream.out_buf is buf
        await stream.drain()
        assert s.got == 4


async def test_write_by_reference_refuses_a_second_one():
    s = Pipe(room=2)
    stream = asyncio.StreamWriter(s)
    buf = bytearray(b"0123")
    stream.write(buf, copy=False)
    assert raises(OSError, stream.write, b"x").errno == 16
    assert raises(OSError, stream.write, b"x", False).errno == 16
    buf[3] = 52  # by reference: what is sent changes
    s.room = 100
    await stream.drain()
    stream.write(b"56", copy=False)
    assert s.sent == b"012456"
    s.room = 0
    stream.write(b"78")
    raises(OSError, stream.write, b"x", False)
    s.room = 100
    await stream.drain()
    assert s.sent == b"01245678"
