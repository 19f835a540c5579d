# with: tasks, links
# Link over a serial line, which may lose bytes: one in memory.

import io
import random

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Serial


def wires(rate=0):
    # The two ends of a line; in about one of `rate` bytes there is a fault.
    class Wire(io.IOBase):
        cut = False
        lose = ()  # which of the next writes are lost: 0 is the first
        twice = False  # each write arrives again

        def __init__(self):
            self.data = b""

        def ioctl(self, req, arg):
            if req != 3:
                return -1
            return arg & (5 if self.data else 4)

        def readinto(self, buf):
            n = min(len(buf), len(self.data), 64)
            buf[:n] = self.data[:n]
            self.data = self.data[n:]
            return n or None

        def write(self, buf):
            n = len(buf)
            lost = 0 in self.lose
            self.lose = [i - 1 for i in self.lose]
            if not (self.cut or lost):
                data = bytes(buf)
                if rate and random.randrange(rate) < n:
                    i = random.randrange(n)
                    some = (b"", b"\0", b"\xc0", data[i : i + 1] * 2)[random.randrange(4)]
                    data = data[:i] + some + data[i + 1 :]
                self.other.data += data * 2 if self.twice else data
            return n

    random.seed(1)
    one, other = Wire(), Wire()
    one.other, other.other = other, one
    return one, other


def lined(ends, **options):
    one, other = ends
    return Side(Serial(one, True), **options), Side(Serial(other, False), **options)


@needs("urandom")
async def test_line():
    ends = wires()
    a, b = lined(ends)
    a.link.RESEND = b.link.RESEND = 60000  # a board that is slow acknowledges late
    async with a.link, b.link:
        await connected(a, b)
        for i in range(20):
            await a.broker.publish_wait("a", i)
            await b.broker.publish_wait("b", i)
        await drained(a, b)
        assert by_topic(b.got)["a"] == by_topic(a.got)["b"] == list(range(20))
        assert a.link.resent == b.link.resent == 0


@needs("urandom")
async def test_line_that_loses_bytes_loses_and_repeats_no_message():
    ends = wires(300)
    a, b = lined(ends, window=8)
    async with a.link, b.link:
        await connected(a, b)

        async def talk(side, name):
            for i in range(100):
                await side.send(name, i)

        talks = asyncio.create_task(talk(a, "a")), asyncio.create_task(talk(b, "b"))
        for task in talks:
            await task
        await drained(a, b)
        assert b.got == a.taken and a.got == b.taken
        assert a.link.resent and b.link.resent


@needs("urandom")
async def test_either_end_of_a_line_may_start_anew():
    ends = wires()
    a, b = lined(ends, keepalive=0.2)
    a.broker.publish("r", 1, retain=True)
    async with a.link:
        for _ in range(2):
            # The one that is called goes without a word, and comes back as another.
            again = Side(b.link.carrier)
            again.link.start()
            await connected(again)
            await until(lambda: again.got == [("r", 1)])
            await a.send("t", 5)
            await until(lambda: len(again.got) == 2)
            ends[1].cut = True
            await again.link.close()
            ends[1].cut = False
            ends[1].data = b""
    # The one that calls does so.
    async with b.link:
        for _ in range(2):
            caller = Side(a.link.carrier)
            caller.link.start()
            await connected(caller)
            await caller.send("u", 6)
            await drained(caller)
            ends[0].cut = True
            await caller.link.close()
            ends[0].cut = False
    assert by_topic(b.got)["u"] == [6, 6]


@needs("urandom")
async def test_line_that_is_unplugged():
    ends = wires()
    a, b = lined(ends, keepalive=0.1)
    async with a.link, b.link:
        await connected(a, b)
        for i in range(3):
            await a.send("t", i)
            ends[0].cut = ends[1].cut = True
            await a.send("t", -i)
            await until(lambda: not (a.link.connected or b.link.connected))
            ends[0].cut = ends[1].cut = False
            await connected(a, b)
        await drained(a)
        assert b.got == a.taken


@needs("urandom")
async def test_any_frame_of_the_handshake_may_be_lost():
    for end, lost in ((0, [0]), (0, [0, 1]), (0, [1]), (0, [2]), (1, [0]), (1, [1]), (1, [0, 1])):
        ends = wires()
        a, b = lined(ends, keepalive=1)
        a.link.GREETING = 60  # it does not begin anew
        ends[end].lose = lost
        async with b.link, a.link:
            await connected(a, b)
            await a.send("t", 1)
            await drained(a)
            assert b.got == [("t", 1)]


@needs("urandom")
async def test_frames_of_the_handshake_that_come_again_end_no_connection():
    # As they do from a peer that is slow: it is asked again, and answers again.
    for end in 0, 1:
        ends = wires()
        a, b = lined(ends)
        ends[end].twice = True
        async with b.link, a.link:
            await connected(a, b)
            conn = a.link.peer.conn, b.link.peer.conn
            await asyncio.sleep(0.05)
            ends[end].twice = False
            await a.send("t", 1)
            await drained(a)
            assert b.got == [("t", 1)] and (a.link.peer.conn, b.link.peer.conn) == conn


@needs("urandom")
async def test_lost_message_is_asked_for():
    ends = wires()
    a, b = lined(ends)
    async with a.link, b.link:
        await connected(a, b)
        await a.send("t", 0)
        await drained(a)
        a.link.RESEND = b.link.RESEND = 60000
        ends[0].lose = [1]
        for i in range(1, 5):
            await a.send("t", i)
        await drained(a)
        assert b.got == a.taken and 1 <= a.link.resent <= 4


@needs("urandom")
async def test_lost_acknowledgement_is_sent_again():
    ends = wires()
    a, b = lined(ends)
    async with a.link, b.link:
        await connected(a, b)
        await asyncio.sleep(0.01)
        ends[1].lose = [0]
        await a.send("t", 0)
        await drained(a)
        assert b.got == a.taken and 1 <= a.link.resent <= 3


@needs("emu")
def test_payload_is_encoded_without_a_look_at_the_file_system():
    import json
    from time import ticks_diff, ticks_us

    from asyncio_alt.pubsub.link import codec

    def us(fn, *args):
        start = ticks_us()
        for _ in range(10):
            fn(*args)
        return ticks_diff(ticks_us(), start)

    json_us = us(json.dumps, 5) + us(json.loads, "5")
    assert us(codec.encode, 5) + us(codec.decode, 2, b"5") < 5 * json_us


def hub_at_line(ends, **options):
    # A link with a name at one end of a line, a hub at the other.
    from asyncio_alt.pubsub.link.hub import Hub

    one, other = ends
    a = Side(Serial(one, True), name="a", **options)
    center = Side(Serial(other, False))
    center.hub = Hub(
        center.broker, Serial(other, False), {"a": b"secret"}, ["#"], ["#"], window=8, **options
    )
    center.hub.RESEND = 20
    center.hub.BACKOFF = Quick.BACKOFF
    return a, center


@needs("urandom")
async def test_sealed_line_to_a_hub_that_loses_bytes_loses_and_repeats_no_message():
    ends = wires(300)
    a, center = hub_at_line(ends, integrity=True)
    async with a.link, center.hub:
        await connected(a)
        for i in range(30):
            await a.send("a", i)
        await drained(a)
        assert center.got[-30:] == a.taken and a.link.resent


@needs("urandom")
async def test_any_frame_of_the_handshake_with_a_name_may_be_lost():
    for end, lost in ((0, [0]), (0, [1]), (0, [2]), (1, [0]), (1, [1])):
        ends = wires()
        a, center = hub_at_line(ends, keepalive=1, integrity=end == 0)
        ends[end].lose = lost
        async with center.hub, a.link:
            await connected(a)
            await a.send("t", 1)
            await drained(a)
            assert center.got[-1] == ("t", 1)


@needs("urandom")
async def test_either_end_of_a_sealed_line_may_start_anew():
    ends = wires()
    a, center = hub_at_line(ends, keepalive=0.2, integrity=True)
    async with center.hub:
        for i in range(2):
            again = Side(a.link.carrier, name="a", integrity=True)
            again.link.start()
            await connected(again)
            await again.send("t", i)
            await drained(again)
            ends[0].cut = True
            await again.link.close()
            ends[0].cut = False
        assert [p for t, p in center.got if t == "t"] == [0, 1]
