# with: tasks, pubsub
# Those who wait: tasks that take, publish_wait(), and sinks. tests/host/test_pubsub.py runs the
# same on CPython.

import sys

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Closed

MICROPYTHON = sys.implementation.name == "micropython"


# A task that takes


async def test_get_and_iteration():
    broker = Broker()
    sub = broker.subscribe("a/+")
    got = []

    async def consume():
        async for topic, payload in sub:
            got.append((topic, payload))

    raises(asyncio.QueueEmpty, sub.get_nowait)
    task = asyncio.create_task(consume())
    await passes()
    broker.publish("a/b", 1)
    broker.publish("a/c", 2)
    await passes()
    broker.publish("a/d", 3)
    await passes()
    assert got == [("a/b", 1), ("a/c", 2), ("a/d", 3)]
    assert not task.done()
    sub.close()
    await task
    raises(Closed, sub.get_nowait)
    await araises(Closed, sub.get())


@needs("pc")
async def test_context_manager_closes():
    broker = Broker()
    async with broker.subscribe("a") as sub:
        broker.publish("a", 1)
        assert await sub.get() == ("a", 1)
        broker.publish("a", 2)
    assert broker.sinks() == [] and sub.dropped == 1 and sub.delivered == 1
    try:
        async with broker.subscribe("a"):
            raise KeyError
    except KeyError:
        pass
    assert broker.sinks() == []


async def test_second_task_that_waits_is_refused():
    sub = Broker().subscribe("a")
    task = asyncio.create_task(sub.get())
    await passes()
    await araises(RuntimeError, sub.get(), match="Subscription")
    sub.put("a", 1)
    assert await task == ("a", 1)


async def test_close_wakes_the_task_that_waits():
    for maxlen, policy in ((0, "drop_new"), (0, "block"), (3, "latest")):
        sub = Broker().subscribe("a", maxlen=maxlen, policy=policy)
        task = asyncio.create_task(sub.get())
        await passes()
        sub.close()
        await araises(Closed, task)


async def test_cancelled_get_loses_no_message():
    for maxlen in (0, 1, 3):
        for before in range(4):
            for after in range(4):
                broker = Broker()
                sub = broker.subscribe("a", maxlen=maxlen, policy="drop_new")
                task = asyncio.create_task(sub.get())
                await passes(before)
                rating = broker.publish("a", 7)
                await passes(after)
                got = [payload for _, payload in await cancel(task)] + taken(sub)
                assert got == ([7] if rating == 0.0 else []), (maxlen, before, after, got)
                assert sub.dropped == (rating == 1.0)
                assert sub.task is None
                assert sub.full() == (maxlen == 0)


async def test_wait_for_a_message_that_comes_too_late():
    broker = Broker()
    sub = broker.subscribe("a")
    await araises(asyncio.TimeoutError, asyncio.wait_for(sub.get(), 0.01))
    broker.publish("a", 1)
    assert await asyncio.wait_for(sub.get(), 1) == ("a", 1)


# publish_wait()


async def test_publish_wait_waits_for_room_and_loses_nothing():
    for maxlen in (0, 1, 2, 5):
        broker = Broker()
        sub = broker.subscribe("a", maxlen=maxlen, policy="block")
        got = []

        async def consume():
            async for _, payload in sub:
                assert sub.queued <= maxlen
                got.append(payload)
                if payload % 4 == 0:
                    await passes(2)

        task = asyncio.create_task(consume())
        for i in range(50):
            await broker.publish_wait("a", i)
            if i % 7 == 0:
                await passes(1)
        await passes(5)
        assert got == list(range(50)), got
        assert sub.dropped == 0 and sub.delivered == 50
        sub.close()
        await task


@needs("pc")
async def test_rating_of_publish_wait():
    broker = Broker()
    assert await broker.publish_wait("a", 1) == 0.0
    sub = broker.subscribe("a", maxlen=1, policy="block")
    assert await broker.publish_wait("a", 1) == 0.0
    task = asyncio.create_task(broker.publish_wait("a", 2))
    await passes()
    assert not task.done() and sub.full()
    assert sub.get_nowait() == ("a", 1)
    assert await task == 1.0
    broker.subscribe_call("a", lambda topic, payload: None)
    task = asyncio.create_task(broker.publish_wait("a", 3))
    await passes()
    assert taken(sub) == [2, 3]
    assert await task == 0.5


@needs("pc")
async def test_publish_wait_waits_for_none_but_block():
    broker = Broker()
    for policy in ("drop_old", "drop_new", "latest"):
        broker.subscribe("a", maxlen=1, policy=policy)
    assert await broker.publish_wait("a", 1) == 0.0
    assert await broker.publish_wait("a", 2) == 1.0
    assert drops(broker) == [1, 1, 1]


async def test_publish_wait_is_fair_and_publish_does_not_push_in():
    broker = Broker()
    sub = broker.subscribe("a", maxlen=1, policy="block")
    broker.publish("a", "first")

    async def publisher(name):
        for i in range(4):
            await broker.publish_wait("a", name + str(i))

    tasks = [asyncio.create_task(publisher(name)) for name in "xyz"]
    await passes()
    got = []
    for _ in range(13):
        got.append(sub.get_nowait()[1])
        assert broker.publish("a", "pushed in") == 1.0 or len(got) == 13
        await passes()
    assert got == ["first"] + [name + str(i) for i in range(4) for name in "xyz"], got
    for task in tasks:
        await task


@needs("pc")
async def test_slow_subscriber_keeps_the_message_from_no_other():
    broker = Broker()
    slow = broker.subscribe("a", maxlen=1, policy="block")
    fast = broker.subscribe("a", maxlen=1, policy="block")
    await broker.publish_wait("a", 1)
    assert taken(fast) == [1]
    task = asyncio.create_task(broker.publish_wait("a", 2))
    await passes()
    assert taken(fast) == [2] and not task.done()
    assert taken(slow) == [1, 2]
    assert await task == 0.5


async def test_cancelled_publish_wait_leaves_nothing():
    for before in range(4):
        for after in range(4):
            broker = Broker()
            sub = broker.subscribe("a", maxlen=1, policy="block")
            other = broker.subscribe("a", maxlen=5, policy="block")
            broker.publish("a", 0)
            tasks = [asyncio.create_task(broker.publish_wait("a", i)) for i in (1, 2)]
            await passes(before)
            got = [sub.get_nowait()[1]]
            await passes(after)
            published = await cancel(tasks[0])
            await passes(3)
            got += taken(sub)
            await passes(3)
            assert tasks[1].done()
            assert got[:1] == [0] and got[-1] == 2 and len(got) <= 3
            assert not published or 1 in got
            assert not sub._late
            assert taken(other)[-1] == 2


@needs("pc")
async def test_close_lets_publish_wait_go_on():
    broker = Broker()
    sub = broker.subscribe("a", maxlen=1, policy="block")
    broker.publish("a", 0)
    tasks = [asyncio.create_task(broker.publish_wait("a", i)) for i in (1, 2)]
    await passes()
    sub.close()
    for task in tasks:
        await task
    assert sub.dropped == 3 and broker.dropped == 3 and broker.published == 3


@needs("pc")
async def test_room_made_inside_the_same_delivery():
    # The subscriber after the full one makes room in it, or closes it.
    broker = Broker()
    sub = broker.subscribe("a", maxlen=1, policy="block")
    broker.publish("a", 0)
    got = []
    call = broker.subscribe_call("a", lambda topic, payload: got.append(sub.get_nowait()[1]))
    assert await broker.publish_wait("a", 1) == 0.5
    assert got == [0] and sub.queued == 1
    call.close()
    broker.subscribe_call("a", lambda topic, payload: sub.close())
    assert await broker.publish_wait("a", 2) == 0.5


# Sinks of links and bridges


class Sink:
    def __init__(self, rating=0):
        self.got = []
        self.rating = rating

    def put(self, topic, payload, retain):
        self.got.append((topic, payload, retain))
        return self.rating

    def full(self):
        return self.rating == 1


@needs("pc")
async def test_sinks():
    broker = Broker()
    sink = Sink()
    broker.publish("a/b", 0, retain=True)
    broker.attach("a/#", sink)
    broker.attach("+/b", sink)
    assert sink.got == [("a/b", 0, True)] * 2  # once an attach
    sink.got.clear()
    assert broker.publish("a/b", 1) == 0.0
    broker.publish("a/b", 2, retain=True)
    broker.publish("c/b", 3)
    assert sink.got == [("a/b", 1, False), ("a/b", 2, True), ("c/b", 3, False)]
    assert broker.publish("a/b", 4, skip=sink) == 0.0
    assert await broker.publish_wait("a/b", 4, skip=sink) == 0.0
    broker.detach("+/b", sink)
    broker.publish("c/b", 5)
    assert len(sink.got) == 3
    sink.rating = 1
    assert broker.publish("a/b", 6) == 1.0
    assert await broker.publish_wait("a/b", 6) == 1.0
    other = Sink(0.5)
    broker.attach("#", other)
    assert broker.publish("a/b", 7) == 0.75
    assert broker.publish("a/b", 7, skip=sink) == 0.5
    assert broker.publish("a/b", 7, skip=other) == 1.0
    sub = broker.subscribe("#")
    assert broker.publish("a/b", 7) == 0.5
    assert taken(sub)[-1] == 7
    broker.detach("a/#", sink)
    raises(ValueError, broker.detach, "a/#", sink, match="sink")


@needs("pc")
async def test_publish_wait_waits_for_a_sink_that_queues():
    class Queueing(Sink):
        def put_wait(self, topic, payload, retain, ticket):
            self.late = (payload, ticket)
            ticket.wait(self)
            return 1

        def unqueue(self, ticket):
            assert self.late[1] is ticket
            self.late = None

    broker = Broker()
    sink = Queueing(1)
    broker.attach("a", sink)
    task = asyncio.create_task(broker.publish_wait("a", 1))
    await passes()
    assert sink.late[0] == 1 and not task.done()
    sink.late[1].done(sink)
    assert await task == 1.0
    task = asyncio.create_task(broker.publish_wait("a", 2))
    await passes()
    await cancel(task)
    assert sink.late is None


@needs("pc")
async def test_sink_that_raises_is_not_waited_for():
    class Bad(Sink):
        def put_wait(self, topic, payload, retain, ticket):
            self.ticket = ticket
            ticket.wait(self)
            if payload == 1:
                raise ValueError("put_wait")
            return 1

        def unqueue(self, ticket):
            raise ValueError("unqueue")

    broker = Broker()
    sinks = [Bad(), Bad()]
    for sink in sinks:
        broker.attach("a", sink)
    with Reports() as reports:
        assert await broker.publish_wait("a", 1) == 0.0
        sinks[0].ticket.done(sinks[0])  # it does not matter any more
        task = asyncio.create_task(broker.publish_wait("a", 2))
        await passes()
        assert await cancel(task) == []
    assert [str(r["exception"]) for r in reports.got] == ["put_wait"] * 2 + ["unqueue"] * 2


@needs("pc")
def test_rating_is_a_float_up_to_1_whatever_a_sink_says():
    broker = Broker()
    broker.attach("a", Sink(2))
    broker.subscribe("a")
    broker.subscribe("a")
    assert broker.publish("a", 1) == 2 / 3
    broker.attach("a", Sink(200))
    assert broker.publish("a", 1) == 1.0


@needs("pc")
async def test_sink_that_ends_inside_a_delivery_of_publish_wait():
    # Each of the two is a sink without put_wait(); the first one detaches the second.
    class Ends(Sink):
        def put(self, *args):
            if broker.sinks()[1:]:
                broker.detach("a", second)
            return super().put(*args)

    broker = Broker()
    first = Ends()
    second = Sink()
    for sink in (first, second):
        broker.attach("a", sink)
    with Reports() as reports:
        await broker.publish_wait("a", 1)
        await broker.publish_wait("a", 2)
    assert not reports.got
    assert len(first.got) == 2 and len(second.got) == 1
