# with: tasks
# FramedProtocol, on a stream in memory and over TCP.

import io

import asyncio_alt as asyncio
from asyncio_alt import pubsub


class Line(io.IOBase):
    # One end reads the bytes that the other end writes: `chunk` bytes at most, and no more than
    # there is room for.
    def __init__(self, chunk=10000, room=1000000):
        self.data = b""
        self.chunk = chunk
        self.room = room

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        return arg & ((1 if self.data else 0) | (4 if self.room > len(self.data) else 0))

    def readinto(self, buf):
        n = min(self.chunk, len(buf), len(self.data))
        if not n:
            return None
        buf[:n] = self.data[:n]
        self.data = self.data[n:]
        return n

    def write(self, buf):
        n = min(self.room - len(self.data), len(buf))
        self.data += buf[:n]
        return n or None


class Frames(pubsub.FramedProtocol):
    # Notes the frames that come.
    def __init__(self, *args):
        super().__init__(*args)
        self.frames = []
        self.lost = asyncio.Event()

    def frame_received(self, view):
        self.frames.append(bytes(view))

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.lost.set()


def connected(line, cls=Frames, max_size=1024, lossy=False):
    p = cls(max_size, lossy)
    asyncio.connect_stream(p, line)
    return p


def encoded(frames, lossy, max_size=1024):
    # Returns the bytes that the carrier gets.
    line = Line()
    p = connected(line, Frames, max_size, lossy)
    for frame in frames:
        p.send_frame(frame)
    p.transport.abort()
    return line.data


SAMPLES = [
    b"",
    b"a",
    bytes(20),
    b"\xc0\xdb" * 40,
    b"\xdb\xdc\xdb\xdd\xc0",
    bytes(range(127)),
    bytes(range(128)),
    b"abcd" * 249,
    b"\xc0" * 1024,
]


async def test_frames_arrive_whole_however_they_are_cut():
    for lossy in (False, True):
        for chunk in (1, 3, 50, 257, 10000):
            p = connected(Line(chunk), lossy=lossy)
            p.start_dispatch()
            sent = SAMPLES if chunk > 3 else SAMPLES[:3]
            if lossy:
                sent = sent[1:]  # the empty one is no frame there
            for frame in sent:
                p.send_frame(frame)
            await until(lambda: len(p.frames) == len(sent))
            assert p.frames == sent and p.bad == 0
            p.transport.abort()


async def test_parts_are_joined_and_bad_ones_refused():
    p = connected(Line(), max_size=10)
    p.start_dispatch()
    p.send_frame(b"ab", memoryview(b"cde")[1:], bytearray(b"f"))
    p.send_frame()
    p.send_frame(b"0123456789")
    raises(ValueError, p.send_frame, b"0123456789", b"1", match="max_size is 10")
    for bad in (("abc",), (b"a", "b"), ([1, 2],), (b"", [1])):
        raises(TypeError, p.send_frame, *bad, match="parts")
    await until(lambda: len(p.frames) == 3)
    assert p.frames == [b"abdef", b"", b"0123456789"]
    for bad in (0, -1, 1 << 28):
        raises(ValueError, Frames, bad, match="max_size")


async def test_handshake_then_dispatch():
    for lossy in (False, True):
        line = Line()
        p = connected(line, lossy=lossy)
        for i in range(6):
            p.send_frame(b"%d" % i)
        assert await p.read_frame() == b"0"
        waiting = p.read_frame()
        assert await asyncio.wait_for(waiting, 1) == b"1"
        await asyncio.sleep_ms(1)
        assert p.frames == []
        p.start_dispatch()
        raises(RuntimeError, p.start_dispatch)
        await araises(RuntimeError, p.read_frame())
        p.send_frame(b"6")
        await until(lambda: len(p.frames) == 5)
        assert p.frames == [b"2", b"3", b"4", b"5", b"6"]
        p.transport.abort()


async def test_nothing_is_read_ahead_of_the_handshake():
    line = Line(chunk=10)
    p = connected(line)
    line.data = encoded([b"x" * 20] * 50, False)
    for i in range(3):
        await asyncio.sleep_ms(2)
        assert len(line.data) >= 50 * 21 - (i + 1) * 30
        assert await p.read_frame() == b"x" * 20


async def test_cancelled_read_frame_loses_nothing():
    p = connected(Line())
    await araises(asyncio.TimeoutError, asyncio.wait_for_ms(p.read_frame(), 1))
    p.send_frame(b"late")
    assert await p.read_frame() == b"late"
    task = asyncio.create_task(p.read_frame())
    await asyncio.sleep_ms(0)
    p.transport.abort()
    await araises(EOFError, task)


class Parking(Frames):
    # Parks each frame that begins with a digit for so many ms, 9 for `gate`; "f" fails, and "x"
    # when parked.
    gate = None
    parked = False

    def frame_received(self, view):
        kind = chr(view[0])
        if kind == "f":
            raise ValueError("inline")
        if kind.isdigit():
            return self.park(int(kind), view)
        super().frame_received(view)

    async def park(self, ms, view):
        assert not self.parked
        self.parked = True
        try:
            if ms == 9:
                await self.gate.wait()
            await asyncio.sleep_ms(ms)
            if view[1:2] == b"x":
                raise ValueError("parked")
            self.frames.append(bytes(view))
        finally:
            self.parked = False


async def test_parked_frames_keep_their_place():
    for lossy in (False, True):
        for chunk in (3, 11, 10000):
            p = connected(Line(chunk), Parking, lossy=lossy)
            p.start_dispatch()
            sent = []
            for i in range(40):
                # Some park, some not, some park for no time at all.
                sent.append((b"2", b"a", b"0", b"b", b"c", b"1")[i * 7 % 11 % 6] + b"-%d" % i)
                p.send_frame(sent[-1])
            await asyncio.sleep_ms(1)
            p.send_frame(b"end")
            await until(lambda: p.frames and p.frames[-1] == b"end")
            assert p.frames == sent + [b"end"] and p.bad == 0
            p.transport.abort()


async def test_reading_pauses_while_a_frame_is_parked():
    line = Line(chunk=20)
    p = connected(line, Parking)
    p.gate = asyncio.Event()
    p.start_dispatch()
    line.data = encoded([b"9----", b"a" * 50, b"b" * 50], False)
    await until(lambda: p.parked)
    await asyncio.sleep_ms(3)
    assert p.parked and len(line.data) == 108 - 20
    p.gate.set()
    await until(lambda: len(p.frames) == 3)


async def test_parked_frame_that_fails_is_dropped():
    reports = quiet()
    p = connected(Line(), Parking)
    p.start_dispatch()
    for frame in (b"a", b"1x", b"0x", b"b"):
        p.send_frame(frame)
    await until(lambda: len(p.frames) == 2)
    assert p.frames == [b"a", b"b"]
    assert [str(e) for e in reports] == ["parked"] * 2


async def test_frame_received_that_raises_ends_the_connection():
    reports = quiet()
    for first in (b"a", b"0"):  # where it is called from the poll, and where from a task
        p = connected(Line(), Parking)
        for frame in (first, b"f", b"b"):
            p.send_frame(frame)
        p.start_dispatch()
        await asyncio.wait_for(p.lost.wait(), 1)
        assert p.frames == [first]
    assert [str(e) for e in reports] == ["inline"] * 2


async def test_no_frame_comes_after_close():
    class Closing(Frames):
        def frame_received(self, view):
            super().frame_received(view)
            if view == b"close":
                self.transport.close()

    p = connected(Line(), Closing)
    for frame in (b"a", b"close", b"b"):
        p.send_frame(frame)
    p.start_dispatch()
    await asyncio.wait_for(p.lost.wait(), 1)
    assert p.frames == [b"a", b"close"]


async def test_no_memory_is_taken_for_a_frame_that_is_too_large():
    import gc

    for announced in (
        encoded([b"x" * 101], False),
        b"\xff\xff\xff\x7f",
        b"\xff\xff\xff\xff\x7f",
        b"\x80\x80\x80\x80\x80",
    ):
        for live in (False, True):
            line = Line()
            p = connected(line, max_size=100)
            line.data = encoded([b"ok"], False) + announced
            gc.collect()
            free = gc.mem_alloc()
            if live:
                p.start_dispatch()
                await asyncio.wait_for(p.lost.wait(), 1)
                assert p.frames == [b"ok"]
            else:
                assert await p.read_frame() == b"ok"
                await araises(EOFError, p.read_frame())
            gc.collect()
            assert gc.mem_alloc() - free < 1000 and p.bad == 1
    # One that never ends, on a carrier without lengths.
    line = Line()
    p = connected(line, max_size=100, lossy=True)
    p.start_dispatch()
    gc.collect()
    free = gc.mem_alloc()
    for _ in range(30):
        line.data = b"garbage!" * 10
        await until(lambda: not line.data)
    p.send_frame(b"after")
    await until(lambda: p.frames)
    gc.collect()
    assert p.frames == [b"after"] and p.bad == 1
    assert gc.mem_alloc() - free < 1000


async def test_large_frames_make_the_buffer_grow():
    block = bytes(range(250)) * 4
    for lossy in (False, True):
        p = connected(Line(100), lossy=lossy)
        assert len(p.get_buffer(-1)) <= 8192
        p.start_dispatch()
        for _ in range(3):
            p.send_frame(block)
        await until(lambda: len(p.frames) == 3)
        assert p.frames == [block] * 3


async def test_a_damaged_byte_costs_the_frame_it_is_in_and_no_other():
    frames = [b"1\xc0", b"2", b"\xdb3"]
    ends = [0]  # where each ends
    for i in range(1, 4):
        ends.append(len(encoded(frames[:i], True)))
    good = encoded(frames, True)
    for at in range(len(good)):
        hit = [i for i in range(3) if ends[i] <= at < ends[i + 1]][0]
        keep = frames[:hit] + frames[hit + 1 :]
        b = good[at]
        for change in (
            b"",  # lost
            bytes((b ^ 1,)),
            bytes((b ^ 0x80,)),
            b"\xc0",
            b"\xdb",
            bytes((b, b)),
            bytes((b, 0xC0)),
            bytes((0x55, b)),
        ):
            line = Line()
            p = connected(line, lossy=True)
            p.start_dispatch()
            line.data = good[:at] + change + good[at + 1 :]
            await until(lambda: not line.data)
            assert p.frames in (keep, frames), (at, change, p.frames)
            p.transport.abort()


async def test_zeros_of_a_broken_line_are_no_frame():
    # 4 of them have the right CRC, that of nothing.
    line = Line()
    p = connected(line, lossy=True)
    p.start_dispatch()
    raises(ValueError, p.send_frame, b"", match="empty")
    for n in range(12):
        line.data = b"\xc0" + bytes(n) + b"\xc0" + encoded([b"good"], True)
        await until(lambda: len(p.frames) == n + 1)
    assert p.frames == [b"good"] * 12


async def test_drain_waits_while_it_is_full():
    line = Line(room=10)
    p = connected(line)
    p.transport.pause_reading()
    p.transport.set_write_buffer_limits(100)
    p.start_dispatch()
    p.transport.pause_reading()
    n = 0
    while not p.full:
        p.send_frame(b"x" * 20)
        n += 1
    task = asyncio.create_task(p.drain())
    await asyncio.sleep_ms(2)
    assert n == 6 and not task.done()
    p.transport.resume_reading()
    await task
    assert not p.full
    await until(lambda: len(p.frames) == n)
    p.transport.pause_reading()
    while not p.full:
        p.send_frame(b"x" * 20)
    task = asyncio.create_task(p.drain())
    await asyncio.sleep_ms(0)
    p.transport.abort()
    await araises(OSError, task)


@needs("sockets")
async def test_over_tcp():
    class Echo(Frames):
        def connection_made(self, transport):
            super().connection_made(transport)
            self.start_dispatch()

        def frame_received(self, view):
            if view == b"later":
                return self.later(view)
            self.send_frame(view)

        async def later(self, view):
            await asyncio.sleep_ms(2)
            self.send_frame(view)

    port = free_port()
    server = await asyncio.create_server(Echo, "127.0.0.1", port)
    _, p = await asyncio.create_connection(Frames, "127.0.0.1", port)
    sent = SAMPLES + [b"later"] + SAMPLES + [b"later"]
    for frame in sent:
        p.send_frame(frame)
    assert await p.read_frame() == sent[0]
    p.start_dispatch()
    await until(lambda: len(p.frames) == len(sent) - 1)
    assert p.frames == sent[1:]
    p.transport.close()
    await p.lost.wait()
    await araises(OSError, p.drain())
    server.close()
