# with: tasks, links, proxy, raw
# A link whose connection, peer or own code fails. tests/host/test_link.py runs the same on
# CPython.

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Listen, Tcp
from asyncio_alt.pubsub.link.connection import Connection


def held():
    # A number that grows with the held messages.
    if not MICROPYTHON:
        return 20000 * len(asyncio.all_tasks())
    import gc

    gc.collect()
    return gc.mem_alloc()


@needs("sockets")
async def test_peer_that_reconnects_has_one_message_held():
    quiet()
    a = Side(Listen(HOST, free_port()), window=4)
    sub = a.broker.subscribe("t", maxlen=1, policy="block")
    async with a.link:
        before = None
        for i in range(60):
            raw, theirs = await shaken(a.link.carrier.port, number=int(i > 0))
            assert theirs[2] == int(i > 0)  # the second one is not acknowledged
            for _ in range(3):
                raw.data(bytes(1000))
            await asyncio.sleep(0.002)
            raw.transport.abort()
            if i == 10:
                before = held()
        await until(lambda: held() - before < 60000, "%d" % (held() - before))
        assert sub.queued == 1 and a.link.received == 2
        sub.close()


@needs("sockets")
async def test_peer_that_does_not_read_gets_no_more_to_read():
    a = Side(Listen(HOST, free_port()), max_size=20000, keepalive=0.02)
    async with a.link:
        raw, _ = await shaken(a.link.carrier.port)
        await connected(a)
        transport = a.link.peer.conn.transport
        for side in (transport, raw.transport):
            side.get_extra_info("socket").setsockopt(1, 7 if side is transport else 8, 4096)
        raw.transport.pause_reading()
        transport.set_write_buffer_limits(5000)
        conn = a.link.peer.conn
        written = 0  # while it takes no more

        def count(*frame):
            nonlocal written
            written += conn.full
            send(*frame)

        send = conn.send
        conn.send = count
        for _ in range(300):
            while not conn.full:
                send(bytes(10000))  # whatever it is, the peer does not see it
            raw.data(b"1")
            if raw.number == 200:
                raw.number -= 100
            await asyncio.sleep(0.001)
        assert not written and a.link.received == 200
        raw.transport.abort()


async def conversation(proxy_cuts, counts):
    # Some messages both ways, through a proxy that cuts; returns the bytes it carried.
    port = free_port()
    a = Side(Listen(HOST, port), window=3)
    async with Proxy(port, proxy_cuts) as proxy:
        b = Side(Tcp(HOST, proxy.listens), window=3)
        async with a.link, b.link:

            async def talk(side, name, n):
                for i in range(n):
                    await side.send(name, i)

            talks = [
                asyncio.create_task(talk(side, name, n))
                for side, name, n in ((a, "a", counts[0]), (b, "b", counts[1]))
            ]
            for task in talks:
                await asyncio.wait_for(task, 5)
            await drained(a, b)
            # put() has told only the other side of it.
            assert b.got == a.taken and a.got == b.taken, (proxy_cuts, a.got, b.got)
            assert a.link.refused == b.link.refused == 0
            return proxy.carried


@needs("sockets")
async def test_cut_at_every_byte_loses_and_repeats_nothing():
    whole = await conversation([], (4, 2))
    assert whole > 200
    for at in range(0, whole, 1 if not MICROPYTHON else 3):
        await conversation([at], (4, 2))
    for at in range(160, whole, 7):
        await conversation([at, at + 3, at // 2, at + 20], (4, 2))


@needs("sockets")
async def test_silent_peer_is_given_up():
    a, b = pair(keepalive=0.05)
    port = a.link.carrier.port
    async with Proxy(port) as proxy:
        b.link.carrier.port = proxy.listens
        async with a.link, b.link:
            await connected(a, b)
            await asyncio.sleep(0.3)
            assert a.link.connected and b.link.connected  # signs of life have been sent
            await a.send("t", 1)
            proxy.mute = True
            await a.send("t", 2)
            await until(lambda: not (a.link.connected or b.link.connected))
            proxy.mute = False
            await connected(a, b)
            await drained(a)
            assert [p for _, p in b.got] == [1, 2]


@needs("sockets")
async def test_link_goes_on_after_every_exception_of_its_carrier():
    class Odd(Tcp):
        left = []

        async def open(self, factory):
            if self.left:
                raise self.left.pop(0)
            await super().open(factory)

    reports = quiet()
    port = free_port()
    a = Side(Listen(HOST, port))
    b = Side(Odd(HOST, port))
    async with a.link:
        for er in (
            OSError(5),
            MemoryError(),
            ValueError(),
            RuntimeError(),
            UnicodeError(),
            KeyError(),
        ):
            for n in (1, 3):
                b.link.carrier.left = [er] * n
                reports.clear()
                async with b.link:
                    await until(lambda: b.link.error is er or b.link.connected)
                    await connected(a, b)
                    assert reports == ([] if isinstance(er, OSError) else [er])
                await until(lambda: not a.link.connected)


@needs("sockets")
async def test_exception_at_any_step_costs_that_connection_only():
    # Each of these fails at its first to sixth call, at one end or both.
    steps = {
        "door": "_met _meet",
        "conn": "begin attend _frames",
        "peer": "state up take _message _learn acknowledge pump _got",
        "window": "meet next got came",
        "mirror": "anew",
    }
    quiet()
    for part in steps:
        for name in steps[part].split():
            for first in range(0, 6, 1 if not MICROPYTHON else 2):
                await failing(part, name, first)


async def failing(part, name, first):
    a, b = pair(window=3)
    method = getattr(Connection, name, None)
    for side, n in ((a, first), (b, first + 2)):
        at = {"door": side.link.door, "peer": side.link.peer, "conn": Connection}.get(part)
        fail(at or getattr(side.link.peer, part), name, n)
    try:
        async with a.link, b.link:
            await connected(a, b)
            for i in range(5):
                await a.send("a", i)
                await b.send("b", i)
            await drained(a, b)
            # The message at which it failed is lost, and no other.
            assert len(b.got) >= 4 and len(a.got) >= 4, (name, first, a.got, b.got)
            for side in a, b:
                for letter, found in by_topic(side.got).items():
                    assert found == sorted(found), (name, first, found)
            await until(lambda: not a.link.door.strangers)
    finally:
        if part == "conn":
            setattr(Connection, name, method)


def fail(link, name, n):
    def fails(*args):
        nonlocal n
        n -= 1
        if n == -1:
            raise MemoryError
        return method(*args)

    method = getattr(link, name)
    setattr(link, name, fails)
