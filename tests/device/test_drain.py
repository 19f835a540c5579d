# with: tasks
# StreamWriter: write() and drain(), on a stream in memory.

import io

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


class Pipe(io.IOBase):
    # Takes as many bytes as there is room for.
    def __init__(self, room):
        self.room = room
        self.sent = b""

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        return 4 & arg if self.room else 0

    def read(self, n):
        return None

    def write(self, buf):
        n = min(len(buf), self.room)
        self.room -= n
        self.sent += bytes(memoryview(buf)[:n])
        return n or None


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
    assert not core.streams and not stream.lock.locked()


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
        assert not core.streams and not (stream.lock and stream.lock.locked())
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
    assert not core.streams and not stream.lock.locked() and not stream.lock.waiting.peek()


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
    buf[3] = 52  # by reference: this changes the bytes to send
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


class Records(Pipe):
    # As TLS: sends records of 16 bytes at most; one that there was no room for must come again.
    rest = 0

    def write(self, buf):
        done = 0
        while done < len(buf):
            n = min(len(buf) - done, 16)
            assert self.rest in (0, n), (self.rest, n)
            if not self.room:
                self.rest = n
                break
            self.room -= 1
            self.rest = 0
            self.sent += bytes(memoryview(buf)[done : done + n])
            done += n
        return done or None


async def test_refused_bytes_are_offered_again_as_they_were():
    """Stock 1.29: bytes are lost and sent twice."""
    import random

    for seed in range(30):
        random.seed(seed)
        s = Records(room=0)
        stream = asyncio.StreamWriter(s)
        s2 = Records(room=0)
        transport = asyncio.connect_stream(asyncio.Protocol(), s2)
        drain = None
        sent = b""
        while len(sent) < 2000:
            piece = bytes(random.getrandbits(8) for _ in range(random.choice((1, 5, 16, 40, 600))))
            if random.getrandbits(1):
                piece = bytearray(piece)
            stream.write(piece)
            transport.write(piece)
            sent += piece
            s.room = random.getrandbits(2)
            s2.room = random.getrandbits(2)
            if drain is None or drain.done():
                drain = asyncio.create_task(stream.drain())
            elif random.getrandbits(1):
                drain.cancel()
            await passes(random.getrandbits(2))
        s.room = s2.room = 1000
        await stream.drain()
        await passes(3)
        assert s.sent == s2.sent == sent
        transport.abort()
        await passes(2)


async def test_copy_false_offers_the_same_bytes_again():
    s = Records(room=1)
    stream = asyncio.StreamWriter(s)
    data = bytes(range(50))
    for buf in (data, bytearray(data), memoryview(data)):
        s.sent = b""
        s.room = 1
        stream.write(buf, copy=False)
        drain = asyncio.create_task(stream.drain())
        while not drain.done():
            s.room = 1
            await passes(1)
        assert s.sent == data


async def test_buffer_that_shrinks_before_drain_ends_the_drain():
    for n in (0, 5, 20):
        s = Pipe(room=10)
        stream = asyncio.StreamWriter(s)
        buf = bytearray(30)
        stream.write(buf, copy=False)
        buf[n:] = b""
        s.room = 100
        await asyncio.wait_for_ms(stream.drain(), 500)
        assert len(s.sent) == max(10, n)
        stream.write(b"x")
        await stream.drain()
        assert s.sent[-1:] == b"x"


async def test_sizes_are_bytes_whatever_the_items_are():
    """Stock 1.29: most bytes of an array are lost."""
    from array import array

    data = bytes(range(64))
    for code in "bBhHiIqQfd":
        for view in (False, True):
            for copy in (False, True):
                items = array(code, data)
                if view:
                    items = memoryview(items)
                s = Pipe(room=5)
                stream = asyncio.StreamWriter(s)
                stream.write(items, copy)
                drain = asyncio.create_task(stream.drain())
                while not drain.done():
                    s.room = 7
                    await passes(1)
                assert s.sent == data, (code, view, copy)
                s = Pipe(room=5)
                t = asyncio.connect_stream(asyncio.Protocol(), s)
                t.write(items)
                assert t.get_write_buffer_size() == 59
                t.writelines([items, b"x", items])
                assert t.get_write_buffer_size() == 59 + 129
                s.room = 1000
                await passes(2)
                assert s.sent == data * 2 + b"x" + data
                t.abort()
                await passes(2)


async def test_what_is_no_buffer_is_refused_at_the_call():
    stream = asyncio.StreamWriter(Pipe(room=5))
    t = asyncio.connect_stream(asyncio.Protocol(), Pipe(room=5))
    for bad in (None, 5, [1], [], {}, object()):
        raises(TypeError, stream.write, bad, match="write: buf")
        raises(TypeError, t.write, bad, match="write: data")
    raises(TypeError, t.write, "text", match="write: data")
    t.abort()
    await passes(2)


class Source(Pipe):
    data = bytes(range(64))

    def ioctl(self, req, arg):
        return 1 & arg if req == 3 else -1

    def read(self, n=-1):
        r = self.data if n < 0 else self.data[:n]
        self.data = self.data[len(r) :]
        return r

    def readinto(self, buf):
        view = memoryview(buf)
        r = self.read(len(view))
        view[: len(r)] = r
        return len(r)


async def test_readinto_fills_an_array_with_what_another_read_has_left():
    from array import array

    for code in "hiq":
        reader = asyncio.StreamReader(Source(room=0))
        try:
            await asyncio.wait_for_ms(reader.readexactly(65), 50)
        except (EOFError, asyncio.TimeoutError):
            pass
        items = array(code, bytes(64))
        assert await reader.readinto(items) == 64
        assert bytes(items) == bytes(range(64))
