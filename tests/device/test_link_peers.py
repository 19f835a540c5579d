# with: tasks, links, raw
# Peers of a link that are strangers or break the rules. tests/host/test_link.py runs the same on
# CPython.

import os
import struct

import asyncio_alt as asyncio
from asyncio_alt.pubsub import FramedProtocol, Listen, Tcp
from asyncio_alt.pubsub.link.handshake import call


@needs("sockets")
async def test_of_all_that_have_the_secret_one_stays():
    quiet()
    a = Side(Listen(HOST, free_port()))
    async with a.link:
        raws = []
        for _ in range(20):
            raws.append((await shaken(a.link.carrier.port))[0])
        last = raws.pop()
        await until(lambda: not a.link.door.strangers)
        for raw in raws:
            await until(raw.transport.is_closing)
        await connected(a)
        assert not last.transport.is_closing()
        last.data(b"1")
        await until(lambda: a.got == [("t", b"1")])
        # Nor do those that shake hands at the same time, and all end that at once.
        raws = []
        for _ in range(4):
            raw = Raw()
            raws.append(raw)
            await Tcp(HOST, a.link.carrier.port).open(lambda: raw)
        states = [struct.pack("<8s8sHHIHI", os.urandom(8), bytes(8), 0, 0, 99, 9, 999)] * 4
        shakes = [
            asyncio.create_task(call(raw, b"secret", lambda conn: states[0])) for raw in raws
        ]
        for shake in shakes:
            try:
                await asyncio.wait_for(shake, 3)
            except (EOFError, OSError):
                pass
        for raw in raws:
            raw.start_dispatch()
        await until(lambda: len([raw for raw in raws if not raw.transport.is_closing()]) == 1)
        await connected(a)
        for raw in raws:
            raw.transport.abort()


@needs("sockets")
async def test_peer_that_answers_nothing_is_hung_up_on():
    a = Side(Listen(HOST, free_port()))
    async with a.link:
        raw, _ = await shaken(a.link.carrier.port, keepalive=20)
        await connected(a)
        await until(raw.transport.is_closing)
        assert not a.link.connected and isinstance(a.link.error, asyncio.TimeoutError)


@needs("sockets")
async def test_strangers_do_not_keep_a_peer_out():
    # There are always more of them than places; some say hello.
    quiet()
    a, connect = await raw()
    a.link.GREETING = 60

    async def crowd():
        ends = []
        while True:
            ends.append(await connect())
            if len(ends) % 2:
                ends[-1][1].write(b"\x12\x01\x01" + bytes(16))
                await ends[-1][1].drain()
            if len(ends) > 8:
                await closed(ends.pop(0)[1])
            await asyncio.sleep(0.005)

    task = asyncio.create_task(crowd())
    await until(lambda: a.link.refused > 4)
    assert len(a.link.door.strangers) <= 4
    b = Side(Tcp(HOST, a.link.carrier.port))
    async with b.link:
        for _ in range(3):
            await connected(a, b)
            b.link.peer.conn.transport.abort()
            await until(lambda: not (a.link.connected or b.link.connected))
    task.cancel()
    await a.link.close()


@needs("sockets")
async def test_wrong_secret_learns_nothing():
    for wrong in (b"", b"Secret", b"secre", b"s" * 100):
        a, b = pair()
        b.link.peer.secret = wrong
        a.broker.publish("r", 1, retain=True)
        b.broker.publish("q", 1, retain=True)
        async with a.link, b.link:
            await until(lambda: a.link.refused >= 2)
            assert not (a.link.connected or b.link.connected)
            assert not [t for t, _ in a.got if t != "r"] and not [t for t, _ in b.got if t != "q"]
    # A peer that says hello and cannot prove it gets a challenge, and no more. A proof that was
    # heard before, or that is this side's own, is invalid.
    a, connect = await raw()
    heard = None
    for proof in (bytes(32), b"x" * 32, None):
        reader, writer = await connect()
        writer.write(b"\x12\x01\x01" + b"1" * 16)
        await writer.drain()
        challenge = await reader.readexactly(18)
        writer.write(b"\x21\x03" + (proof or challenge[2:] * 2))
        await writer.drain()
        assert await all_of(reader) == b""
        assert challenge[:2] == b"\x11\x02" and challenge[2:] != heard
        heard = challenge[2:]
        await closed(writer)
    assert a.link.refused == 3
    await a.link.close()


@needs("sockets")
async def test_caller_notices_that_the_other_has_no_secret():
    # It sends everything that it should, but for the proof.
    async def serve(reader, writer):
        await reader.readexactly(19)
        writer.write(b"\x11\x02" + bytes(16))
        await writer.drain()
        await reader.readexactly(34)
        writer.write(b"\x3f\x04" + bytes(32) + bytes(30))
        await writer.drain()
        heard.append(await all_of(reader))
        await closed(writer)

    heard = []
    port = free_port()
    server = await asyncio.start_server(serve, HOST, port)
    b = Side(Tcp(HOST, port))
    b.broker.publish("r", 1, retain=True)
    async with b.link:
        await until(lambda: len(heard) >= 2)
        assert heard[:2] == [b"", b""] and b.link.refused >= 2 and not b.link.connected
    server.close()


GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3,
    b"\xff" * 100,
    b"\xff\xff\xff\x7f" + bytes(1000),
    b"\x00" * 300,
    b"\x01\x08" * 10,
    b"\x12\x01\x02" + b"1" * 16,
    b"\x12\x01\x01" + b"1" * 16 + b"\x1f\x05" + bytes(30),
    b"\x1f\x05" + bytes(30),
]


@needs("sockets")
async def test_garbage_before_the_handshake_is_refused():
    a, connect = await raw()
    for i, data in enumerate(GARBAGE):
        reader, writer = await connect()
        writer.write(data)
        try:
            await writer.drain()
        except OSError:
            pass
        heard = await all_of(reader)
        assert len(heard) in (0, 18), heard
        await closed(writer)
        await until(lambda: not a.link.door.strangers)
    assert not a.got[1:] and a.link.refused >= len(GARBAGE) - 2
    await a.link.close()


@needs("sockets")
async def test_silence_and_floods_before_the_handshake():
    import gc

    a, connect = await raw()
    ends = []
    for _ in range(30):
        ends.append(await connect())
        assert len(a.link.door.strangers) <= 4  # no more are heard
    await until(lambda: a.link.refused)
    for reader, writer in ends:
        assert await all_of(reader) == b""  # after a time, those neither
        await closed(writer)
    await until(lambda: not a.link.door.strangers)

    def taken():
        gc.collect()
        return gc.mem_alloc() if MICROPYTHON else 0

    before = taken()
    for _ in range(20):
        ends = []
        for _ in range(10):
            ends.append(await connect())
        for _, writer in ends:
            await closed(writer)
    # The last ones may not even be accepted yet, and a task that waits may hold on to one that has
    # ended: of these connections each takes 11,000 bytes.
    await until(lambda: not a.link.door.strangers and taken() - before < 4 * 11000)
    # It serves peers that have the secret, as before.
    b = Side(Tcp(HOST, a.link.carrier.port))
    async with b.link:
        await connected(a, b)
        await drained(a)
        assert b.got == [("secret/topic", b"secret payload")]
    await a.link.close()


class Parks(FramedProtocol):
    # The work for a parked frame is done at once.
    async def note(self, frame):
        frames.append(frame)

    def frame_received(self, view):
        return self.note(bytes(view))


frames = []


@needs("sockets")
async def test_frame_that_is_parked_for_no_time():
    frames.clear()
    port = free_port()
    ends = Parks(), Parks()
    server = await Listen(HOST, port).open(lambda: ends[0])
    await Tcp(HOST, port).open(lambda: ends[1])
    await until(lambda: ends[0].transport)
    for end in ends:
        end.start_dispatch()
    sent = [bytes((i,)) for i in range(20)]
    for frame in sent:
        ends[1].send_frame(frame)
        if frame[0] % 3 == 0:
            await asyncio.sleep(0.001)
    await until(lambda: frames == sent)
    for end in ends:
        end.transport.abort()
    server.close()


class Rude(Side):
    # Breaks the rules, once hands are shaken.
    def say(self, data):
        self.link.peer.conn.send_frame(data)


@needs("sockets")
async def test_peer_that_breaks_the_rules_is_refused():
    quiet()
    port = free_port()
    a = Side(Listen(HOST, port))
    b = Rude(Tcp(HOST, port))
    async with a.link, b.link:
        for i, data in enumerate(
            (
                b"",
                b"\x08",
                b"\x08\0\0\0\0\0",
                b"\x08\0\0\0\0\0\xffshort",
                b"\x08\0\0\0\0\0\x01#x",
                b"\x08\0\0\0\0\0\x01\xffx",
                b"\x08\0\0\0\0\0\x03\xed\xa0\x80x",  # a surrogate
                b"\x08\0\0\0\0\0\x02\xc1\x81x",  # overlong forms
                b"\x08\0\0\0\0\0\x03\xe0\x9f\xbfx",
                b"\x08\0\0\0\0\0\x04\xf0\x8f\xbf\xbfx",
                b"\x08\0\0\0\0\0\x04\xf4\x90\x80\x80x",  # no character
                b"\x08\0\0\0\0\x01\x01t\xed\xbf\xbf",
                b'\x08\0\0\0\0\x02\x01t"\xed\xbf\xbf"',
                b"\x08\0\0\0\0\x01\x01t\xff",
                b"\x08\0\0\0\0\x02\x01t{",
                b"\x08\0\0\0\0\x03\x01tx",
                b"\x08\0\0\x12\0\0\x01tx",
                b"\x08\x7f\xff\0\0\0\x01tx",
                b"\x09\0\x05",
                b"\x0a\0\x05",
                b"\x09\0",
                b"\x0b\0",
                b"\x01\x01" + bytes(16),
                b"\x63",
            )
        ):
            await connected(a, b)
            b.say(data)
            await until(lambda: a.link.refused == i + 1, data)
            await until(lambda: not b.link.connected)
            # Both begin anew with their numbers.
            b.link.peer.session = os.urandom(8)
        await connected(a, b)
        assert a.got == []
        await b.send("t", 1)
        await drained(b)
        assert a.got == [("t", 1)]


@needs("sockets")
async def test_flood_from_a_peer_takes_no_memory():
    # It sends far more than it may, and the subscriber takes nothing.
    import gc

    port = free_port()
    a = Side(Listen(HOST, port), window=4)
    b = Rude(Tcp(HOST, port))
    sub = a.broker.subscribe("t", maxlen=2, policy="block")
    async with a.link, b.link:
        await connected(a, b)
        conn = b.link.peer.conn
        b.link.peer.window.got = lambda number: 0  # accepts any acknowledgement
        gc.collect()
        if MICROPYTHON:
            before = gc.mem_alloc()
        n = 0
        while not conn.full and n < 60000:
            conn.send_frame(b"\x08" + bytes((n >> 8, n & 255)) + b"\0\0\0\x01t" + bytes(500))
            n += 1
            if n % 10 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert conn.full and sub.queued == 2
        gc.collect()
        if MICROPYTHON:
            assert gc.mem_alloc() - before < 40000, gc.mem_alloc() - before
    sub.close()
    # Retained topics are kept up to a number.
    reports = quiet()
    c, d = pair()
    async with c.link, d.link:
        await connected(c, d)
        for i in range(300):
            while d.link.full():
                await asyncio.sleep(0)
            d.broker.publish("r/%d" % i, i, retain=True)
        await drained(d)
        assert len(c.broker.retained()) == 256 and len(c.got) == 300
        assert c.link.dropped == 44 and len(reports) == 1 and "256" in str(reports[0])
