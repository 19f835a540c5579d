# Limits on publishing's use of the heap.

import gc

import micropython

import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms
from asyncio_alt.pubsub import Broker, Pool


def able(topic, payload):
    pass


class Full:
    # Leaves n bytes of the heap, in one piece.
    def __init__(self, n):
        self.hold = [None] * 3000
        self.rest = bytearray(n)

    def fill(self):
        i = 0
        size = gc.mem_free() // 2
        while size > 8:
            try:
                self.hold[i] = bytearray(size)
                i += 1
            except MemoryError:
                size //= 4
        self.rest = None

    def free(self):
        # Something may still point to the list.
        for i in range(3000):
            self.hold[i] = None


def test_publish_allocates_nothing():
    broker = Broker()
    called = [0, None]

    def function(topic, payload):
        called[0] += 1
        called[1] = payload

    broker.subscribe_call("a/b", function)
    broker.subscribe_call("a/+", function)
    for policy in ("drop_old", "drop_new", "block", "latest"):
        broker.subscribe("a/#", maxlen=2, policy=policy)
    broker.subscribe("#", maxlen=100)
    payloads = (7, b"prebuilt", "text", None)
    rates = (0.0, 1 / 7, 2 / 7, 3 / 7, 4 / 7, 5 / 7, 6 / 7, 1.0)
    seen = [0] * 8
    broker.publish("a/b", 0)
    gc.collect()
    micropython.heap_lock()
    try:
        for payload in payloads:
            for _ in range(5):
                seen[rates.index(broker.publish("a/b", payload))] += 1
            assert called[1] is payload
    finally:
        micropython.heap_unlock()
    assert called[0] == 42
    assert seen[0] == 1 and sum(seen) == 20 and seen[3] > 0 and seen[4] > 0, seen


async def test_publish_wakes_a_task_without_allocating():
    for priority in (False, True):
        broker = Broker()
        sub = broker.subscribe("a", maxlen=2, priority=priority)
        gets = [sub.get() for _ in range(20)]
        taken = bytearray(20)

        async def consume():
            for n, get in enumerate(gets):
                taken[n] = (await get)[1]

        task = create_task(consume())
        broker.subscribe_call("b", print)
        broker.publish("a", 0)
        await sleep_ms(1)
        gc.collect()
        micropython.heap_lock()
        try:
            broker.publish("a", 1)
        finally:
            micropython.heap_unlock()
        await sleep_ms(1)
        assert taken[0] == 0 and taken[1] == 1 and sub.delivered == 2
        task.cancel()
        await sleep_ms(0)


async def test_publish_wait_with_room_uses_up_no_heap():
    # It makes a generator, and nothing that stays.
    broker = Broker()
    sub = broker.subscribe("a", maxlen=2, policy="block")

    async def round():
        for n in range(100):
            await broker.publish_wait("a", n)
            sub.get_nowait()

    await round()
    gc.collect()
    before = gc.mem_alloc()
    await round()
    gc.collect()
    assert gc.mem_alloc() <= before


async def test_messages_of_a_day_leave_the_heap_as_it_was():
    """A sample of them; tools/bench/scripts/day.py sends all."""
    broker = Broker()
    subs = [
        broker.subscribe("room/+/temperature", maxlen=4),
        broker.subscribe("room/#", maxlen=2, policy="block"),
        broker.subscribe("#", policy="latest"),
    ]
    got = [0]

    def count(topic, payload):
        got[0] += 1

    async def consume(sub):
        async for topic, payload in sub:
            got[0] += 1

    broker.subscribe_call("#", count)
    tasks = [create_task(consume(sub)) for sub in subs]
    topics = ["room/%d/temperature" % n for n in range(8)] + ["room/door", "log"]

    async def messages(n):
        for i in range(n):
            topic = topics[i % len(topics)]
            payload = i if i % 3 else bytes(i * 7 % 200)
            if i % 5:
                broker.publish(topic, payload, retain=i % 11 == 0)
            else:
                await broker.publish_wait(topic, payload)
            if i % 4 == 0:
                await sleep_ms(0)

    await messages(300)
    gc.collect()
    before = gc.mem_alloc()
    await messages(1200)
    gc.collect()
    # Retained payloads differ in size.
    assert gc.mem_alloc() - before < 2500, gc.mem_alloc() - before
    assert got[0] > 3000
    for sub in subs:
        sub.close()
    for task in tasks:
        await task


def test_not_using_it_costs_nothing():
    import sys

    # This file has imported it: forget that, and import the rest again.
    for name in list(sys.modules):
        if name.startswith("asyncio"):
            del sys.modules[name]
    import asyncio_alt

    async def main():
        await asyncio_alt.sleep_ms(1)

    asyncio_alt.run(main())
    assert not [name for name in sys.modules if "pubsub" in name]


def test_opened_and_closed_subscriptions_leave_nothing():
    broker = Broker()

    def round():
        for i in range(60):
            subs = [broker.subscribe(f) for f in ("a/%d/#" % i, "+/%d" % i, "a/%d" % i)]
            broker.publish("a/%d" % (i % 5), i)
            for sub in subs:
                sub.close()

    round()
    gc.collect()
    before = gc.mem_alloc()
    round()
    gc.collect()
    assert gc.mem_alloc() - before < 500, gc.mem_alloc() - before


@needs("pc")
def test_subscription_for_which_there_is_no_memory_leaves_nothing():
    broker = Broker()
    broker.publish("a/b", 1, retain=True)
    broker.publish("a/c", 1, retain=True)
    there = broker.subscribe("a/b", maxlen=1, policy="drop_new")
    made = failed = 0
    for subscribe in (
        lambda: broker.subscribe("a/+/c/d"),
        lambda: broker.subscribe("a/+", priority=True),
        lambda: broker.subscribe_call("a/#", able),
        lambda: broker.subscribe_call("x/y/z", able),
    ):
        for n in range(0, 2200, 300):
            sub = None
            full = Full(n)
            full.fill()
            try:
                sub = subscribe()
            except MemoryError:
                failed += 1
            full.free()
            if sub:
                made += 1
                assert len(broker.sinks()) == 2
                full = Full(n % 500)
                full.fill()
                sub.close()  # never fails
                sub.close()
                full.free()
            assert [sink for _, sink in broker.sinks()] == [there]
            assert list(broker._root) == ["a"] and list(broker._root["a"]) == ["b"]
            assert not there.dropped
    assert made > 3 and failed > 3, (made, failed)


@needs("pc")
async def test_publishing_without_memory_reaches_all_or_none():
    asyncio.get_event_loop().set_exception_handler(lambda loop, context: None)
    pool = Pool(1, 64)
    for wait in (False, True):
        done = failed = 0
        for n in range(0, 3000, 500):
            broker = Broker()
            subs = [broker.subscribe("a", maxlen=1, policy="block") for _ in range(6)]
            lease = pool.lease()
            lease.used = 5
            full = Full(n)
            full.fill()
            try:
                if wait:
                    await broker.publish_wait("a", lease, True)
                else:
                    broker.publish("a", lease, True)
                done += 1
            except MemoryError:
                failed += 1
            full.free()
            queued = [sub.queued for sub in subs]
            assert queued == [broker.published] * 6, (n, queued)
            assert len(broker.retained()) == broker.published or wait
            for sub in subs:
                sub.close()
            lease.release()
            assert pool.leased() == 0 and not broker.sinks()
            assert broker.dropped == 6 * broker.published
        assert done and failed, (done, failed)
    asyncio.get_event_loop().set_exception_handler(None)


@needs("pc")
async def test_publish_wait_for_which_there_is_no_memory_is_forgotten():
    asyncio.get_event_loop().set_exception_handler(lambda loop, context: None)
    for n in range(0, 2200, 300):
        broker = Broker()
        sub = broker.subscribe("a", maxlen=1, policy="block")
        broker.publish("a", 0)
        wait = broker.publish_wait("a", 1)
        result = []

        async def publish():
            try:
                result.append(await wait)
            except MemoryError:
                result.append(None)

        task = create_task(publish())
        full = Full(n)
        full.fill()
        await sleep_ms(0)
        full.free()
        left = len(sub._late or ())
        assert left == (not result), (n, left, result)
        assert sub.get_nowait()[1] == 0 and sub.queued == left
        await task
        sub.close()
    asyncio.get_event_loop().set_exception_handler(None)
