"""FramedProtocol on CPython: on its transports, with uvloop too, and fuzzed.

FUZZ_FRAMES=1000000 in the environment fuzzes with so many frames on each carrier.
"""

import asyncio
import contextlib
import os
import random
import socket

import pytest

from asyncio_alt.pubsub import FramedProtocol
from tools import targets

COUNT = int(os.environ.get("FUZZ_FRAMES", 5000))
MAX = 300  # bytes in a frame


class Frames(FramedProtocol):
    """Notes the frames that come."""

    def __init__(self, *args):
        super().__init__(*args)
        self.frames = []
        self.lost = asyncio.Event()

    def frame_received(self, view):
        self.frames.append(bytes(view))

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.lost.set()


# Fuzzing: the test does a transport's work by hand, so that it chooses every cut


class Feed:
    """A transport that records the bytes sent; the test feeds it by hand."""

    def __init__(self):
        self.sent = bytearray()
        self.closing = False

    def write(self, data):
        self.sent += data

    def is_closing(self):
        return self.closing

    def abort(self):
        self.closing = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def connected(lossy, max_size=MAX):
    p = Frames(max_size, lossy)
    p.connection_made(Feed())
    p.start_dispatch()
    return p


def feed(p, data, rnd):
    """Have p receive data, cut at random."""
    limit = rnd.choice((1, 3, 20, 500, 100000))
    at = 0
    while at < len(data) and not p.transport.closing:
        buf = p.get_buffer(-1)
        n = min(rnd.randint(1, limit), len(buf), len(data) - at)
        buf[:n] = data[at : at + n]
        p.buffer_updated(n)
        at += n
    assert len(p._buf) <= 8192


def random_frame(rnd, number):
    size = rnd.choice((0, 1, 5, 30, 123, 250, MAX - 4))
    alphabet = rnd.choice((bytes(range(256)), b"\xc0\xdb\xdc\xdd", b"\0", b"abc"))
    return number.to_bytes(4, "big") + bytes(rnd.choices(alphabet, k=rnd.randint(0, size)))


def damaged(data, rnd):
    """Return data with random faults, and the places where they are."""
    out = bytearray()
    places = []
    done = 0
    for at in sorted(rnd.randrange(len(data)) for _ in range(rnd.randint(0, 8))):
        if at < done:
            continue
        out += data[done:at]
        kind = rnd.randrange(4)
        done = at
        if kind == 0:  # lost, perhaps some
            done = min(at + rnd.choice((1, 1, 1, 2, 50, 400)), len(data))
        elif kind == 1:  # flipped
            out.append(data[at] ^ 1 << rnd.randrange(8))
            done = at + 1
        elif kind == 2:  # inserted
            out += rnd.randbytes(rnd.choice((1, 1, 2, 1000)))
        else:
            out += rnd.choice((b"\xc0", b"\xdb", b"\xc0\xc0", b"\xdb\xdc"))
        # An insertion is between two bytes: it is in a frame if both are.
        places.append((at - 1, at) if done == at else (at, done - 1))
    return bytes(out + data[done:]), places


def test_fuzz_lossy():
    rnd = random.Random(1)
    p = connected(True)
    sender = connected(True)
    number = bad = 0
    while number < COUNT:
        batch = []
        ends = []
        sender.transport.sent.clear()
        for _ in range(100):
            batch.append(random_frame(rnd, number))
            sender.send_frame(batch[-1])
            ends.append(len(sender.transport.sent))
            number += 1
        data, places = damaged(bytes(sender.transport.sent), rnd)
        # The last fault may have left a frame without its end: the next one's beginning is it.
        feed(p, data + b"\xc0", rnd)
        got = p.frames[:]
        p.frames.clear()
        begin = 0
        for frame, end in zip(batch, ends):
            if not any(last >= begin and first < end for first, last in places):
                assert frame in got, "a frame that no fault was in is lost"
            begin = end
        order = [batch.index(frame) for frame in got]  # ValueError: it was never sent
        assert order == sorted(set(order))
        if len(got) < len(batch):
            bad += 1
    assert bad > COUNT / 1000


def test_fuzz_lossy_garbage():
    rnd = random.Random(2)
    p = connected(True)
    for i in range(COUNT // 50):
        feed(p, rnd.randbytes(rnd.randrange(5000)), rnd)
        p.send_frame(b"%d" % i)
        feed(p, bytes(p.transport.sent), rnd)
        p.transport.sent.clear()
    assert p.frames == [b"%d" % i for i in range(COUNT // 50)]


def test_fuzz_reliable():
    rnd = random.Random(3)
    p = connected(False)
    sent = []
    for i in range(COUNT):
        sent.append(random_frame(rnd, i))
        p.send_frame(sent[-1])
        if len(p.transport.sent) > 10000 or i == COUNT - 1:
            feed(p, bytes(p.transport.sent), rnd)
            p.transport.sent.clear()
            assert p.frames == sent
            sent.clear()
            p.frames.clear()
    assert p.bad == 0


def test_fuzz_reliable_garbage():
    rnd = random.Random(4)
    closed = 0
    for _ in range(COUNT // 50):
        p = connected(False)
        feed(p, rnd.randbytes(rnd.randrange(1000)), rnd)
        assert all(len(frame) <= MAX for frame in p.frames)
        assert p.bad == p.transport.closing
        closed += p.bad
    assert closed > COUNT // 100


def test_fuzz_parked():
    class Parking(Frames):
        parked = False

        def frame_received(self, view):
            assert not self.parked
            kind = rnd.randrange(5)
            if kind == 0:
                self.parked = True
                return self.park(view, rnd.randrange(4))
            super().frame_received(view)

        async def park(self, view, passes):
            for _ in range(passes):
                await asyncio.sleep(0)
            self.frames.append(bytes(view))
            self.parked = False

    async def main(lossy):
        for _ in range(COUNT // 500):
            p = Parking(MAX, lossy)
            p.connection_made(Feed())
            p.start_dispatch()
            sent = [random_frame(rnd, i) for i in range(30)]
            for frame in sent:
                p.send_frame(frame)
            data = bytes(p.transport.sent)
            at = 0
            while at < len(data):
                if p.parked:
                    await asyncio.sleep(0)
                    continue
                buf = p.get_buffer(-1)
                n = min(rnd.randint(1, 300), len(buf), len(data) - at)
                buf[:n] = data[at : at + n]
                p.buffer_updated(n)
                at += n
            while len(p.frames) < len(sent):
                await asyncio.sleep(0)
            assert p.frames == sent

    rnd = random.Random(5)
    for lossy in (False, True):
        asyncio.run(main(lossy))


# On real transports


def run_stock(coro):
    return asyncio.run(coro)


def run_uvloop(coro):
    return pytest.importorskip("uvloop").run(coro)


@pytest.fixture(params=[run_stock, run_uvloop], ids=["stock", "uvloop"])
def run(request):
    return request.param


class Peer(Frames):
    """Shakes hands, then echoes; parks frames that begin with "p"."""

    def connection_made(self, transport):
        super().connection_made(transport)
        self.task = asyncio.ensure_future(self.begin())

    async def begin(self):
        with contextlib.suppress(EOFError):
            self.send_frame(b"hello " + await self.read_frame())
            self.start_dispatch()

    def frame_received(self, view):
        super().frame_received(view)
        if view[:1] == b"p":
            return self.park(view)
        if view[:1] == b"c":
            self.transport.close()
        else:
            self.send_frame(view)

    async def park(self, view):
        await asyncio.sleep(0.01)
        self.send_frame(view)
        await self.drain()


@contextlib.asynccontextmanager
async def over_tcp():
    loop = asyncio.get_running_loop()
    peers = []

    def peer():
        peers.append(Peer())
        return peers[-1]

    server = await loop.create_server(peer, "127.0.0.1", 0)
    _, p = await loop.create_connection(Frames, *server.sockets[0].getsockname())
    yield p, peers
    p.transport.abort()
    await p.lost.wait()
    server.close()
    await server.wait_closed()


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it does not come")


def test_over_tcp(run):
    async def main():
        async with over_tcp() as (p, peers):
            sent = [b"a", b"p1", b"b" * 1000, b"p2", b"p3", b"", bytes(1024)]
            for frame in [b"you", *sent]:
                p.send_frame(frame)
            assert await p.read_frame() == b"hello you"
            p.start_dispatch()
            await until(lambda: len(p.frames) == len(sent))
            assert p.frames == sent == peers[0].frames
            for frame in (b"p5", b"e"):  # the second one comes while the first is parked
                p.send_frame(frame)
                await asyncio.sleep(0.003)
                sent.append(frame)
            await until(lambda: len(p.frames) == len(sent))
            assert p.frames == sent
            for frame in (b"d", b"p4", b"close", b"after"):
                p.send_frame(frame)
            await asyncio.wait_for(p.lost.wait(), 5)
            assert p.frames == [*sent, b"d", b"p4"]
            assert peers[0].frames[-1] == b"close"
            with pytest.raises(OSError):
                await p.drain()

    run(main())


def test_too_large_and_early_end(run):
    async def main():
        async with over_tcp() as (p, peers):
            p.send_frame(b"you")
            assert await p.read_frame() == b"hello you"
            p.transport.write(b"\x01a\xff\xff\xff\x7fx")
            assert await p.read_frame() == b"a"
            with pytest.raises(EOFError):
                await p.read_frame()
            await until(lambda: peers[0].bad == 1)

    run(main())


def test_full_and_drain(run):
    async def main():
        async with over_tcp() as (p, peers):
            p.send_frame(b"you")
            assert await p.read_frame() == b"hello you"
            peers[0].transport.pause_reading()
            n = 0
            while not p.full:
                p.send_frame(bytes(1000))
                n += 1
            task = asyncio.ensure_future(p.drain())
            await asyncio.sleep(0.01)
            assert not task.done()
            peers[0].transport.resume_reading()
            p.start_dispatch()
            await asyncio.wait_for(task, 5)
            await until(lambda: len(p.frames) == n)

    run(main())


def test_exceptions_in_frame_received(run):
    class Failing(Peer):
        def frame_received(self, view):
            if view[:1] == b"p":
                return self.fail()
            if view[:1] == b"f":
                raise ValueError("inline")
            super().frame_received(view)

        async def fail(self):
            raise ValueError("parked")

    async def main():
        loop = asyncio.get_running_loop()
        reports = []
        loop.set_exception_handler(lambda loop, context: reports.append(str(context["exception"])))
        server = await loop.create_server(Failing, "127.0.0.1", 0)
        _, p = await loop.create_connection(Frames, *server.sockets[0].getsockname())
        for frame in (b"you", b"a", b"p", b"b", b"f", b"c"):
            p.send_frame(frame)
        p.start_dispatch()
        await asyncio.wait_for(p.lost.wait(), 5)
        assert p.frames[:3] == [b"hello you", b"a", b"b"]
        assert reports == ["parked", "inline"]
        server.close()

    run(main())


class Both:
    """One transport that reads by one of CPython's, and writes by another."""

    def __init__(self, reader, writer):
        self._reader = reader
        self.write = writer.write
        self.writer = writer

    def __getattr__(self, name):
        return getattr(self._reader, name)


def test_over_pipes(run):
    """Their transports know no buffers, as those of serial lines that there are for CPython."""

    async def connect(reading, writing, cls):
        loop = asyncio.get_running_loop()
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, open(writing, "wb", 0))

        class End(cls):
            def connection_made(self, transport):
                super().connection_made(Both(transport, writer))

        reading = open(reading, "rb", 0)
        return (await loop.connect_read_pipe(lambda: End(1024, True), reading))[1]

    async def main():
        there, back = os.pipe(), os.pipe()
        p = await connect(back[0], there[1], Frames)
        peer = await connect(there[0], back[1], Peer)
        p.send_frame(b"you")
        assert await asyncio.wait_for(p.read_frame(), 5) == b"hello you"
        p.start_dispatch()
        p.transport.write(b"noise")
        sent = [b"a\xc0b", b"p1", bytes(1000), b"z"]
        for frame in sent:
            p.send_frame(frame)
        await until(lambda: len(p.frames) == len(sent))
        assert p.frames == sent and peer.bad == 1
        for end in (p, peer):
            end.transport.close()
            end.transport.writer.abort()
        await asyncio.sleep(0.01)

    run(main())


# With MicroPython at the other end

DEVICE = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import FramedProtocol

class P(FramedProtocol):
    n = 0

    def connection_made(self, transport):
        super().connection_made(transport)
        self.ended = asyncio.Event()

    def frame_received(self, view):
        if self.n % 7 == 0:
            return self.later(view)
        self.send_frame(view)
        self.n += 1

    async def later(self, view):
        await asyncio.sleep_ms(1)
        self.send_frame(view)
        self.n += 1

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.ended.set()

async def main():
    _, p = await asyncio.create_connection(P, "127.0.0.1", PORT)
    p.send_frame(b"hello")
    assert await p.read_frame() == b"you"
    p.start_dispatch()
    await p.ended.wait()
    print(p.n)

asyncio.run(main())
"""


def test_with_micropython():
    async def main(unix):
        loop = asyncio.get_running_loop()
        made = []

        def factory():
            made.append(Frames())
            return made[-1]

        server = await loop.create_server(factory, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        device = asyncio.ensure_future(
            asyncio.to_thread(unix.run, DEVICE.replace("PORT", str(port)), 20)
        )
        await until(lambda: made and made[0].transport)
        p = made[0]
        p.transport.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, True
        )
        assert await p.read_frame() == b"hello"
        p.send_frame(b"you")
        p.start_dispatch()
        rnd = random.Random(6)
        sent = [random_frame(rnd, i) for i in range(300)]
        for frame in sent:
            p.send_frame(frame)
        await until(lambda: len(p.frames) == len(sent))
        assert p.frames == sent
        p.transport.close()
        result = await device
        assert result.out == "300\n", result.err
        server.close()

    with targets.get("unix") as unix:
        asyncio.run(main(unix))
