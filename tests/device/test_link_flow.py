# with: tasks, links, proxy
# The retained state of a link, and its flow control. tests/host/test_link.py runs the same on
# CPython.

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Tcp


async def cut(proxy, side):
    # Cuts the side's connection, and waits for the next one.
    conn = side.link.peer.conn
    proxy.cut()
    await until(lambda: side.link.peer.conn not in (conn, None))


# Retained state


@needs("sockets")
async def test_retained_state_is_brought_up_to_date():
    a, b = pair()
    a.broker.publish("r/1", 1, retain=True)
    a.broker.publish("r/2", 2, retain=True)
    a.broker.publish("r/3", 3, retain=True)
    async with a.link:
        async with b.link:
            await connected(a, b)
            await drained(a)
            assert sorted(b.broker.retained()) == [("r/1", 1), ("r/2", 2), ("r/3", 3)]
            assert len(b.got) == 3
            a.broker.publish("r/1", 11, retain=True)
            await drained(a)
        await until(lambda: not a.link.connected)
        # Changes while there is no connection are sent once there is one, and only these.
        assert a.broker.publish("r/2", 20, retain=True) > 0
        a.broker.publish("r/2", 22, retain=True)
        a.broker.publish("r/3", b"", retain=True)
        a.broker.publish("lost", 1)
        b.got.clear()
        async with b.link:
            await connected(a, b)
            await drained(a)
            assert sorted(b.broker.retained()) == [("r/1", 11), ("r/2", 22)]
            assert sorted(b.got, key=lambda m: m[0]) == [("r/2", 22), ("r/3", b"")]
        # A peer that has just started gets all; its own messages do not come back to it.
        await until(lambda: not a.link.connected)
        c = Side(b.link.carrier)
        c.broker.publish("mine", 1, retain=True)
        async with c.link:
            await connected(a, c)
            await drained(a, c)
            assert sorted(c.broker.retained()) == [("mine", 1), ("r/1", 11), ("r/2", 22)]
        await until(lambda: not a.link.connected)
        d = Side(b.link.carrier)
        d.broker.publish("mine", 2, retain=True)
        async with d.link:
            await connected(a, d)
            await drained(a, d)
            assert sorted(a.broker.retained()) == sorted(d.broker.retained())
            assert dict(d.broker.retained())["mine"] == 2


@needs("sockets")
async def test_topic_of_the_peer_that_is_published_while_the_link_is_closed():
    a, b = pair()
    async with b.link:
        async with a.link:
            await connected(a, b)
            for topic in ("r/1", "r/2", "r/3"):
                b.broker.publish(topic, b"theirs", retain=True)
            await drained(b)
        a.broker.publish("r/1", b"ours", retain=True)
        a.broker.publish("r/2", b"", retain=True)
        b.got.clear()
        async with a.link:
            await connected(a, b)
            await drained(a, b)
            assert sorted(b.broker.retained()) == [("r/1", b"ours"), ("r/3", b"theirs")]
            assert sorted(b.got) == [("r/1", b"ours"), ("r/2", b"")] and a.got[-1] == ("r/2", b"")


# Flow control


@needs("sockets")
async def test_publisher_that_is_faster_than_the_link():
    a, b = pair(window=4)
    async with a.link, b.link:
        await connected(a, b)
        taken = []
        full = 0
        for i in range(2000):
            if a.broker.publish("t", i):
                full += 1
            else:
                taken.append(i)
            if i % 3 == 0:
                await asyncio.sleep(0)
        await drained(a)
        assert [p for _, p in b.got] == taken
        assert len(taken) + full == 2000 and full and len(taken) > 100
        assert a.link.dropped == full and a.link.delivered == len(taken)
        # publish_wait() loses no message.
        b.got.clear()
        for i in range(200):
            await a.broker.publish_wait("t", i)
        await drained(a)
        assert [p for _, p in b.got] == list(range(200))


@needs("sockets")
async def test_slow_far_end_raises_the_near_rating():
    a, b = pair(window=4, keepalive=0.1)
    sub = b.broker.subscribe("t", maxlen=2, policy="block")
    async with a.link, b.link:
        await connected(a, b)
        n = 0
        while n < 100 and not a.broker.publish("t", n):
            n += 1
            await asyncio.sleep(0.005)
        # Two are queued, one waits for room; messages under way are not acknowledged.
        assert n == 2 + 4, n
        await asyncio.sleep(0.5)  # longer than the peers' patience with silence
        assert a.link.connected and b.link.connected and a.broker.publish("t", n) == 0.5
        for i in range(n):
            assert await asyncio.wait_for(sub.get(), 3) == ("t", i)
        await drained(a)
        assert a.broker.publish("t", n) == 0.0
        assert await asyncio.wait_for(sub.get(), 3) == ("t", n)
        sub.close()


@needs("sockets")
async def test_message_that_waits_survives_its_connection():
    a, b = pair(window=4, keepalive=0.05)
    port = a.link.carrier.port
    sub = b.broker.subscribe("t", maxlen=1, policy="block")
    async with Proxy(port) as proxy:
        b.link.carrier.port = proxy.listens
        async with a.link, b.link:
            await connected(a, b)
            for i in range(4):
                await a.send("t", i)
            for n in range(3):
                await cut(proxy, b)
                await connected(a, b)
                await b.send("back", n)
            for i in range(4):
                assert await asyncio.wait_for(sub.get(), 3) == ("t", i)
            await connected(a, b)
            await a.send("t", 4)
            assert await asyncio.wait_for(sub.get(), 3) == ("t", 4)
            await drained(a)
            assert not sub.queued and [p for _, p in b.got] == list(range(5))
            assert a.got == b.taken and a.link.refused == b.link.refused == 0
            sub.close()


@needs("sockets")
async def test_cuts_acknowledge_nothing_that_nobody_took():
    a, b = pair(window=4, keepalive=0.05)
    port = a.link.carrier.port
    sub = b.broker.subscribe("t", maxlen=1, policy="block")
    async with Proxy(port) as proxy:
        b.link.carrier.port = proxy.listens
        async with a.link, b.link:
            n = 0
            for _ in range(12):
                await connected(a, b)
                while not a.broker.publish("t", n):
                    n += 1
                    await asyncio.sleep(0.002)
                await asyncio.sleep(0.005)
                await cut(proxy, b)
            # One is queued, four are under way, also if the connection was another each time.
            await connected(a, b)
            assert n == 5 and a.link.delivered == 1 and a.broker.publish("t", n) == 0.5
            for i in range(n):
                assert await asyncio.wait_for(sub.get(), 3) == ("t", i)
            await drained(a)
            await a.send("t", n)
            assert await asyncio.wait_for(sub.get(), 3) == ("t", n)
            assert not a.link.refused and not b.link.refused
    sub.close()


@needs("sockets")
async def test_message_that_waits_ends_with_its_link():
    a, b = pair(window=2)
    sub = b.broker.subscribe("t", maxlen=1, policy="block")
    async with a.link:
        async with b.link:
            await connected(a, b)
            for i in range(3):
                await a.send("t", i)
            await until(lambda: b.link.peer.held)
            b.link.peer.conn.transport.abort()
            await until(lambda: not b.link.connected)
        await until(lambda: not b.link.peer.held and sub.dropped == 1)
        # The next connection goes on behind it.
        async with b.link:
            await connected(a, b)
            for i in (0, 2):
                assert await asyncio.wait_for(sub.get(), 3) == ("t", i)
            await drained(a)
    sub.close()


@needs("sockets")
async def test_link_that_another_has_used_agrees_with_its_peer_again():
    reports = quiet()
    a, b = pair()
    port = a.link.carrier.port
    async with a.link, b.link:
        for lost in (0, 3):
            await connected(a, b)
            for i in range(5):
                await a.send("a", i)
                await b.send("b", i)
            await drained(a, b)
            b.link.carrier.port = free_port()
            b.link.peer.conn.transport.abort()
            await until(lambda: not (a.link.connected or b.link.connected))
            c = Side(Tcp(HOST, port))
            async with c.link:
                await connected(a, c)
                for i in range(lost):
                    await a.send("c", i)
                    await c.send("c", i)
                await drained(a, c)
            await until(lambda: not a.link.connected)
            b.link.carrier.port = port
            refused = a.link.refused + b.link.refused
            await connected(a, b)
            await a.send("a", "again")
            await b.send("b", "again")
            await drained(a, b)
            assert b.got[-1] == ("a", "again") and a.got[-1] == ("b", "again")
            assert a.link.refused + b.link.refused == refused
            # The messages that the other peer has got are lost to this one.
            assert a.link.dropped == lost and not b.link.dropped
            assert len(reports) == (1 if lost else 0)
            b.got.clear()
        assert "3" in str(reports[0])
