# Large payloads by reference. tests/host/test_pubsub.py runs the same on CPython.

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Pool


async def passes(n=3):
    for _ in range(n):
        await asyncio.sleep(0)


def filled(pool, text):
    lease = pool.lease()
    lease.buf[: len(text)] = text
    lease.used = len(text)
    return lease


async def test_every_subscriber_has_the_same_buffer_until_the_last_is_done():
    broker = Broker()
    pool = Pool(2, 16)
    seen = []
    broker.subscribe_call("a", lambda topic, payload: seen.append(bytes(payload)))
    subs = [broker.subscribe("a", policy=p) for p in ("drop_old", "drop_new", "block", "latest")]
    lease = filled(pool, b"hello")
    buf = lease.buf
    assert pool.leased() == 1
    assert broker.publish("a", lease) == 0.5  # the pool's pressure
    assert seen == [b"hello"]
    for sub in subs:
        assert pool.leased() == 1
        topic, payload = await sub.get()
        assert topic == "a" and payload == b"hello"
        buf[0] = buf[0] ^ 1
        assert payload[0] == buf[0]  # no copy
        buf[0] = buf[0] ^ 1
        sub.put("a", 1)
        assert sub.get_nowait()[1] == 1  # the task is done with the buffer
    assert pool.leased() == 0
    lease = pool.lease()
    assert lease.used == 16
    lease.release()
    lease.release()
    assert pool.leased() == 0


@needs("pc")
async def test_buffer_that_no_queue_takes_is_free_again_at_once():
    broker = Broker()
    pool = Pool(1, 4)
    for _ in range(3):
        assert broker.publish("a", pool.lease()) == 0.0
    sub = broker.subscribe("a", maxlen=0, policy="drop_new")
    assert broker.publish("a", pool.lease()) == 1.0
    broker.subscribe_call("a", lambda topic, payload: 1 // 0)
    loop = asyncio.get_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    assert broker.publish("a", pool.lease()) == 0.5
    loop.set_exception_handler(None)
    assert pool.leased() == 0 and sub.dropped == 2


async def test_dropped_messages_give_their_buffers_back():
    for policy, leased in (("drop_old", 2), ("drop_new", 2), ("block", 2), ("latest", 1)):
        broker = Broker()
        pool = Pool(4, 4)
        sub = broker.subscribe("a", maxlen=leased, policy=policy)
        for _ in range(10):
            broker.publish("a", pool.lease())
        assert pool.leased() == leased and sub.dropped == 10 - leased
        sub.get_nowait()
        assert pool.leased() == leased
        sub.release()
        assert pool.leased() == leased - 1
        sub.close()
        assert pool.leased() == 0 and pool.refused == 0


@needs("pc")
async def test_close_gives_back_what_the_task_has():
    broker = Broker()
    pool = Pool(1, 4)
    async with broker.subscribe("a") as sub:
        broker.publish("a", pool.lease())
        await sub.get()
        assert pool.leased() == 1
    assert pool.leased() == 0


@needs("pc")
async def test_waiting_for_the_next_message_gives_the_buffer_back():
    broker = Broker()
    pool = Pool(1, 4)
    sub = broker.subscribe("a")

    async def consume():
        async for _ in sub:
            pass

    task = asyncio.create_task(consume())
    for _ in range(3):
        assert broker.publish("a", pool.lease()) == 1.0
        await passes()
        assert pool.leased() == 0
    sub.close()
    await task


@needs("pc")
async def test_pressure_and_refusal():
    broker = Broker()
    pool = Pool(4, 4)
    sub = broker.subscribe("a", maxlen=10)
    assert pool.pressure() == 0.0
    assert [broker.publish("a", pool.lease()) for _ in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert pool.lease() is None and pool.lease() is None
    assert pool.refused == 2
    sub.get_nowait()
    sub.get_nowait()
    assert pool.pressure() == 0.75
    assert broker.publish("a", pool.lease()) == 1.0
    assert broker.publish("a", 1) == 0.0  # has no part in the pool


async def test_who_keeps_a_buffer_is_named():
    broker = Broker()
    pool = Pool(3, 4)
    good = broker.subscribe("a")
    bad = broker.subscribe("a")
    bad.name = "never takes"
    worse = broker.subscribe("a")
    worse.name = "never returns"
    broker.publish("a", pool.lease())
    good.get_nowait()
    good.release()
    worse.get_nowait()
    await asyncio.sleep(0.03)
    lease = pool.lease()
    assert sorted(name for name, ms in pool.holders(20)) == ["never returns", "never takes"]
    assert pool.holders(10000) == []
    assert pool.holders()[-1][0] == "publisher"
    assert all(ms >= 20 for name, ms in pool.holders() if name != "publisher")
    lease.release()
    bad.close()
    worse.close()
    assert pool.holders() == [] and pool.leased() == 0


@needs("pc")
async def test_publish_wait_with_a_lease():
    broker = Broker()
    pool = Pool(4, 4)
    sub = broker.subscribe("a", maxlen=1, policy="block")
    assert await broker.publish_wait("a", pool.lease()) == 0.25
    task = asyncio.create_task(broker.publish_wait("a", filled(pool, b"x")))
    gone = asyncio.create_task(broker.publish_wait("a", pool.lease()))
    await passes()
    assert pool.leased() == 3 and ("a", 0) in [(name, 0) for name, _ in pool.holders()]
    gone.cancel()
    await passes()
    assert pool.leased() == 2
    await sub.get()
    assert await task == 1.0
    assert (await sub.get())[1] == b"x"
    assert pool.leased() == 1
    sub.close()
    assert pool.leased() == 0


@needs("pc")
async def test_lease_is_published_once_and_kept_as_a_copy():
    broker = Broker()
    pool = Pool(1, 4)
    lease = filled(pool, b"ab")
    raises(ValueError, broker.publish, "a/#", lease, match="topic")
    broker.publish("a", lease, retain=True)
    assert pool.leased() == 0
    raises(ValueError, broker.publish, "a", lease, match="payload")
    pool.lease().buf[0] = 0
    assert broker.subscribe("a").get_nowait() == ("a", b"ab")


@needs("pc")
async def test_sinks_get_the_bytes():
    class Sink:
        def put(self, topic, payload, retain):
            got.append((topic, bytes(payload), retain))
            return 0

        def full(self):
            return False

    got = []
    broker = Broker()
    pool = Pool(1, 4)
    broker.attach("a", Sink())
    broker.publish("a", filled(pool, b"abc"))
    await broker.publish_wait("a", filled(pool, b""), retain=True)
    assert got == [("a", b"abc", False), ("a", b"", True)]
    assert pool.leased() == 0 and broker.retained() == []


@needs("pc")
async def test_bad_arguments_are_named():
    for count, nbytes, name in ((0, 4, "count"), ("1", 4, "count"), (1, 0, "nbytes")):
        raises(ValueError, Pool, count, nbytes, match=name)
