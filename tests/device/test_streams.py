# with: tasks
# StreamReader and StreamWriter, on a stream in memory.

import io

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


class Pipe(io.IOBase):
    # read() gives `data`, `chunk` bytes at most; write() takes as many as there is room for.
    def __init__(self, data=b"", chunk=100, room=100):
        self.data = data
        self.chunk = chunk
        self.eof = False
        self.error = None
        self.room = room
        self.sent = b""
        self.nothing = 0  # how many reads and writes are to return None at first

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        ready = 4 if self.room else 0
        if self.data or self.eof or self.error:
            ready |= 1
        return ready & arg

    def read(self, n=-1):
        if self.error:
            raise self.error
        if self.nothing:
            self.nothing -= 1
            return None
        n = self.chunk if n < 0 else min(n, self.chunk)
        r = self.data[:n]
        self.data = self.data[n:]
        return r if r or self.eof else None

    def readinto(self, buf):
        r = self.read(len(buf))
        if r is None:
            return None
        buf[: len(r)] = r
        return len(r)

    def readline(self):
        return self.read(self.data.find(b"\n") + 1 or -1)

    def write(self, buf):
        if self.error:
            raise self.error
        if self.nothing:
            self.nothing -= 1
            return None
        n = min(len(buf), self.room)
        self.room -= n
        self.sent += bytes(memoryview(buf)[:n])
        return n or None

    def close(self):
        self.error = OSError(9)


class Uart(Pipe):
    def any(self):
        return len(self.data)


def buffer_read(stream):
    # readinto(), with the result of the other reads.
    buf = bytearray(4)
    n = yield from stream.readinto(buf)
    return bytes(buf[:n])


async def test_cancelled_reader_leaves_writer_waiting():
    """Stock 1.29: the writer is never woken."""
    s = Pipe(room=0)
    stream = asyncio.StreamReader(s)
    reader = asyncio.create_task(stream.read(1))
    stream.write(b"abc")
    writer = asyncio.create_task(stream.drain())
    await passes(2)
    await cancel(reader)
    s.room = 100
    await passes(4)
    assert writer.done() and s.sent == b"abc"


async def test_cancelled_writer_leaves_reader_waiting():
    """Stock 1.29: the reader is never woken."""
    s = Pipe(room=0)
    stream = asyncio.StreamReader(s)
    reader = asyncio.create_task(stream.read(1))
    stream.write(b"abc")
    writer = asyncio.create_task(stream.drain())
    await passes(2)
    await cancel(writer)
    s.data = b"x"
    await passes(4)
    assert reader.done() and await reader == b"x"
    assert not core.streams


async def test_read_all_of_an_endless_stream_returns_what_is_there():
    """Stock 1.29: never returns."""
    stream = asyncio.StreamReader(Uart(b"abc"))
    assert await asyncio.wait_for_ms(stream.read(), 500) == b"abc"


async def test_read_all_of_an_endless_stream_returns_kept_bytes():
    s = Uart(b"abc")
    stream = asyncio.StreamReader(s)
    await araises(asyncio.TimeoutError, asyncio.wait_for_ms(stream.readexactly(5), 20))
    assert await asyncio.wait_for_ms(stream.read(), 500) == b"abc"
    s.data = b"def"
    await araises(asyncio.TimeoutError, asyncio.wait_for_ms(stream.readline(), 20))
    s.data = b"ghi"
    assert await asyncio.wait_for_ms(stream.read(), 500) == b"defghi"


async def test_priority_reader_does_not_have_a_uart_wait():
    class Waits(Uart):
        # Would keep the loop until it has all that it is asked for.
        def read(self, n):
            assert 0 <= n <= max(1, len(self.data)), n
            return super().read(n)

        def readinto(self, buf):
            assert len(buf) <= max(1, len(self.data)), len(buf)
            return super().readinto(buf)

    s = Waits(b"abc")
    stream = asyncio.StreamReader(s, {}, True)
    assert await stream.read(100) == b"abc"
    s.data = b"defgh"
    assert await stream.read(2) == b"de"
    assert await stream.read() == b"fgh"
    s.data = b"ijk"
    buf = bytearray(100)
    assert await stream.readinto(buf) == 3 and buf[:3] == b"ijk"
    t = asyncio.create_task(stream.readexactly(5))
    for data in b"lm", b"no", b"pq":
        s.data += data
        await passes(3)
    assert await t == b"lmnop" and s.data == b"q"
    t = asyncio.create_task(stream.readline())
    for data in b"r", b"s\n", b"q":
        s.data += data
        await passes(3)
    assert await t == b"qrs\n" and s.data == b"q"
    s.any = lambda: 0  # as of a stream that does not know
    assert await stream.read(100) == b"q"
    s = Uart(b"abc")
    s.any = lambda: True  # as of pyb.USB_VCP
    assert await asyncio.StreamReader(s, {}, True).read(100) == b"abc"


async def test_second_waiter_on_a_side_is_refused():
    """Stock 1.29, frozen: the first one hangs for ever."""
    micropython.opt_level(3)  # for the modules that are loaded from here on
    s = Pipe(room=0)
    stream = asyncio.StreamReader(s)
    first = asyncio.create_task(stream.read(1))
    stream.write(b"x")
    writer = asyncio.create_task(stream.drain())
    await passes(2)
    await araises(RuntimeError, stream.read(1), match="read")
    await araises(RuntimeError, stream.readline(), match="read")
    await araises(RuntimeError, asyncio.StreamWriter(s).readexactly(1), match="read")
    other = asyncio.StreamWriter(s)
    other.write(b"y")
    await araises(RuntimeError, other.drain(), match="write")
    s.data = b"a"
    s.room = 1
    assert await asyncio.wait_for_ms(first, 500) == b"a"
    await asyncio.wait_for_ms(writer, 500)
    assert s.sent == b"x"


async def test_read_that_gives_none_waits_on():
    """Stock 1.29: readinto() returns None."""
    for read in (
        lambda r: r.read(4),
        lambda r: r.readexactly(4),
        lambda r: r.readline(),
        buffer_read,
        lambda r: r.read(),
    ):
        s = Uart(b"abc\n")
        s.nothing = 2
        assert await read(asyncio.StreamReader(s)) == b"abc\n"
    s.nothing = 2
    stream = asyncio.StreamWriter(s)
    stream.write(b"abc")
    await stream.drain()
    assert s.sent == b"abc"


async def test_cancelled_read_loses_no_byte():
    """Stock 1.29: the bytes that readexactly(), readline() and read(-1) had got are lost."""
    text = b"0123456789abcdef\n"
    reads = (
        lambda r: r.read(4),
        lambda r: r.readexactly(10),
        lambda r: r.readline(),
        buffer_read,
        lambda r: r.read(),
    )
    for read in reads:
        for then in reads:
            for k in range(0, 9, 2):
                s = Pipe(text, chunk=3)
                stream = asyncio.StreamReader(s)
                got = b""
                for r in read, then:
                    t = asyncio.create_task(r(stream))
                    await passes(k)
                    got += b"".join(await cancel(t))
                    assert not core.streams
                s.eof = True
                got += await stream.read()
                assert got == text, got


async def test_reads_byte_by_byte():
    s = Pipe(b"0123456789\nabcdef", chunk=1)
    s.eof = True
    stream = asyncio.StreamReader(s)
    assert await stream.readexactly(4) == b"0123"
    assert await stream.readline() == b"456789\n"
    assert await stream.read(4) == b"a"
    assert await buffer_read(stream) == b"b"
    assert await stream.readexactly(0) == b""
    assert await stream.read() == b"cdef"
    assert await stream.read() == await stream.read(1) == await stream.readline() == b""


async def test_end_in_the_middle_leaves_what_came():
    """Stock 1.29: the bytes before the end are lost."""
    for rest in (
        lambda r: r.read(10),
        lambda r: r.read(),
        lambda r: r.readline(),
        buffer_read,
        lambda r: r.readexactly(3),
    ):
        s = Pipe(b"abc", chunk=2)
        s.eof = True
        stream = asyncio.StreamReader(s)
        await araises(EOFError, stream.readexactly(10))
        await araises(EOFError, stream.readexactly(4))
        assert await rest(stream) == b"abc"


async def test_error_reaches_every_kind_of_wait():
    s = Pipe(room=0)
    stream = asyncio.StreamReader(s)
    for read in (
        lambda r: r.read(4),
        lambda r: r.readexactly(4),
        lambda r: r.readline(),
        buffer_read,
        lambda r: r.read(),
        lambda r: r.drain(),
    ):
        s.error = None
        s.room = 0
        if not stream.out_buf:
            stream.write(b"x")
        t = asyncio.create_task(read(stream))
        await passes(2)
        assert not t.done()
        s.error = OSError(5)
        s.room = 1
        assert (await araises(OSError, t)).errno == 5
        assert not core.streams
    s.error = None
    await stream.drain()
    assert s.sent == b"x"


async def test_closed_stream_ends_every_kind_of_wait():
    """Stock 1.29: all of them hang."""
    for read in (
        lambda r: r.read(4),
        lambda r: r.readexactly(4),
        lambda r: r.readline(),
        buffer_read,
        lambda r: r.read(),
        lambda r: r.drain(),
    ):
        stream = asyncio.StreamReader(Pipe(room=0))
        stream.write(b"x")
        t = asyncio.create_task(read(stream))
        await passes(2)
        await stream.wait_closed()
        assert (await araises(OSError, asyncio.wait_for_ms(t, 500))).errno == 9
        assert not core.streams


class Terminal(io.IOBase):
    # Text, as sys.stdin.
    def ioctl(self, req, arg):
        return 1 & arg if req == 3 else -1

    def read(self, n=-1):
        return "abc\n"[:n]

    def readline(self):
        return "abc\n"


async def test_text_streams_give_bytes():
    stream = asyncio.StreamReader(Terminal())
    for r in (await stream.readline(), await stream.readexactly(4)):
        assert r == b"abc\n" and isinstance(r, bytes), r
