# with: tasks
# Large payloads by reference. tests/host/test_pubsub.py runs the same on CPython.

import random

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Pool, Publisher


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
    for bad in (0, -1, "1", 1.0, None, 1 << 24, 1 << 29, 1 << 60, 1 << 100):
        raises(ValueError, Pool, bad, 4, match="count")
        raises(ValueError, Pool, 1, bad, match="nbytes")
        raises(ValueError, Publisher, Broker(), "a", bad, match="size")
        if bad != 0:
            raises(ValueError, Publisher, Broker(), "a", 1, bad, match="nbytes")


def test_lease_that_cannot_be_published_is_still_the_callers():
    broker = Broker()
    pool = Pool(1, 4)
    sub = broker.subscribe("a")
    lease = pool.lease()
    for used, error in ((2.0, TypeError), (None, TypeError), (-1, ValueError), (5, ValueError)):
        lease.used = used
        raises(error, broker.publish, "a", lease, True, match="used")
        assert pool.leased() == 1 and broker.published == 0 and not broker.retained()
    lease.used = 4
    broker.publish("a", lease)
    assert sub.queued == 1
    sub.close()
    assert pool.leased() == 0


@needs("pc")
async def test_every_lease_comes_back_whatever_happens():
    loop = asyncio.get_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    for seed in range(30):
        random.seed(seed)
        await any_program(random.getrandbits)
    loop.set_exception_handler(None)


async def any_program(bits):
    # A program's operations with leases, in any order; at its end all buffers are free.
    class Bad:
        def put(self, topic, payload, retain):
            if not bits(2):
                raise ValueError
            return 0

        def put_wait(self, topic, payload, retain, ticket):
            if not bits(1):
                ticket.wait(self)
            return self.put(topic, payload, retain)

        def unqueue(self, ticket):
            if not bits(1):
                raise ValueError

        def full(self):
            return False

    def function(topic, payload):
        what = bits(4)
        if what == 0:
            raise ValueError
        elif what == 1:
            raise asyncio.CancelledError
        elif what == 2 and subs:
            subs[bits(4) % len(subs)].close()
        elif what == 3:
            publishers[bits(1)].close()
        elif what == 4 and len(subs) < 10:
            subs.append(broker.subscribe("a"))

    async def take(sub):
        async for _ in sub:
            await asyncio.sleep(0)
            if not bits(2):
                raise KeyError

    broker = Broker()
    pool = Pool(5, 8)
    subs = []
    tasks = []
    mine = []
    publishers = [Publisher(broker, "a", 3) for _ in range(2)]
    broker.subscribe_call("a", function)
    broker.attach("#", Bad())
    broker.attach("a", Bad())
    for _ in range(150):
        what = bits(4)
        lease = pool.lease() if what < 10 else None
        if lease:
            lease.used = bits(3) if bits(4) else 9.5
            if what < 3:
                mine.append(lease)
                try:
                    broker.publish("a" if bits(3) else "a/#", lease, bits(1))
                except (TypeError, ValueError):
                    pass
            elif what < 6:
                mine.append(lease)
                tasks.append(asyncio.create_task(broker.publish_wait("a", lease, bits(1))))
            elif what < 9:
                publisher = publishers[bits(1)]
                if not publisher.put(lease):
                    lease.release()
                elif not bits(2):
                    publisher.put(lease)  # which is an error, and reported
                elif not bits(3):
                    lease.release()
            else:
                lease.release()
        elif what == 10:
            policy = ("block", "drop_old", "drop_new", "latest")[bits(2)]
            subs.append(broker.subscribe("a", maxlen=1 + bits(1), policy=policy))
            if bits(1):
                broker.attach("+", subs[-1])
            if bits(1):
                tasks.append(asyncio.create_task(take(subs[-1])))
        elif what == 11 and subs:
            subs[bits(4) % len(subs)].close()
        elif what == 12 and subs:
            try:
                subs[bits(4) % len(subs)].get_nowait()
            except Exception:
                pass  # it is empty, or closed
        elif what == 13 and tasks:
            tasks[bits(4) % len(tasks)].cancel()
        elif what == 14:
            await passes(bits(2))
        elif what == 15 and not bits(2):
            i = bits(1)
            publishers[i].close()
            publishers[i] = Publisher(broker, "a", 3)
    for publisher in publishers:
        publisher.close()
    for task in tasks:
        task.cancel()
    for task in tasks:
        try:
            await task
        except (Exception, asyncio.CancelledError):
            pass
    for sub in subs:
        sub.close()
    for lease in mine:
        lease.release()
    await passes()
    assert pool.leased() == 0, pool.holders()
    free = set()
    while True:
        lease = pool.lease()
        if lease is None:
            break
        free.add(id(lease))
    assert len(free) == 5


async def test_publisher_goes_on_after_an_exception():
    broker = Broker()
    got = []
    broker.subscribe_call("a", lambda topic, payload: got.append(payload))
    publisher = Publisher(broker, "a", 8)
    pool = Pool(1, 4)
    lease = pool.lease()
    reports = []
    loop = asyncio.get_event_loop()
    loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    for value in (1, lease, lease, 2):
        assert publisher.put(value)
    await asyncio.sleep(0.02)
    loop.set_exception_handler(None)
    assert got[0] == 1 and got[2:] == [2] and [type(er) for er in reports] == [ValueError]
    assert publisher.put(3)
    await asyncio.sleep(0.02)
    assert got[-1] == 3 and pool.leased() == 0
    publisher.close()


async def test_function_closes_the_publisher_that_called_it():
    broker = Broker()
    got = []

    def fn(topic, payload):
        got.append(payload)
        publisher.close()

    broker.subscribe_call("a", fn)
    publisher = Publisher(broker, "a", 4)
    pool = Pool(2, 4)
    assert publisher.put(1) and publisher.put(pool.lease()) and publisher.put(pool.lease())
    await asyncio.sleep(0.02)
    assert got == [1] and pool.leased() == 0
    assert [publisher.put(n) for n in range(6)] == [False] * 6 and publisher.overruns == 6
    await asyncio.sleep(0.02)
    assert got == [1]


async def test_close_of_a_publisher_that_has_just_been_given_values():
    for before in range(3):
        broker = Broker()
        pool = Pool(2, 4)
        publisher = Publisher(broker, "a", 4, 2)
        await passes(before)
        for _ in range(2):
            publisher.put(pool.lease())
        publisher.put_from(b"ab")
        publisher.close()
        publisher.close()
        assert pool.leased() == 0
        assert not publisher.put(1) and not publisher.put_from(b"x") and publisher.overruns == 2
        await asyncio.sleep(0.01)
        assert broker.published == 0


async def test_copies_of_any_length_beside_values_keep_their_order():
    broker = Broker()
    got = []
    broker.subscribe_call("a", lambda topic, payload: got.append(payload))
    publisher = Publisher(broker, "a", 3, 4)
    expected = []
    for n in range(60):
        value = n if n % 3 == 0 else b"abcd"[: n % 5]
        if publisher.put(n) if n % 3 == 0 else publisher.put_from(memoryview(b"abcd"), n % 5):
            expected.append(value)
        if n % 4 == 3:
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.01)
    assert got == expected and publisher.overruns == 60 - len(got) > 5
    publisher.close()


async def test_count_that_is_invalid_is_named_at_the_call():
    broker = Broker()
    publisher = Publisher(broker, "a", 2, 4)
    for n, error in (
        (-1, ValueError),
        (-(1 << 70), ValueError),
        (5, ValueError),
        (1 << 70, ValueError),
    ):
        raises(error, publisher.put_from, b"ab", n, match="nbytes")
    for n in (2.0, "2", b"2"):
        raises(TypeError, publisher.put_from, b"ab", n, match="n must")
    raises(TypeError, publisher.put_from, 5)
    assert publisher.overruns == 0
    await asyncio.sleep(0.01)
    assert broker.published == 0
    publisher.close()
