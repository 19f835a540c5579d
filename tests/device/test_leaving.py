# With a full heap the end of an `async with` closes and leaves all the same.

import gc

import micropython

import asyncio_alt as asyncio
from asyncio_alt import sleep_ms, timeout_ms
from asyncio_alt.pubsub import Broker


async def leave(context, er=None):
    # Leaves it with the heap locked, after er; returns the exception.
    await sleep_ms(0)
    gc.collect()
    try:
        async with context:
            micropython.heap_lock()
            if er:
                raise er
    except BaseException as end:
        micropython.heap_unlock()
        return end
    micropython.heap_unlock()


async def test_a_deadline_is_left():
    for er in (None, ValueError()):
        late = timeout_ms(20)
        assert await leave(late, er) is er
        await sleep_ms(30)  # it does not come any more
        assert not late.expired()


async def test_a_deadline_that_has_passed_is_left():
    late = timeout_ms(1)
    end = None
    try:
        async with late:
            try:
                await sleep_ms(1000)
            finally:
                micropython.heap_lock()
    except BaseException as er:
        micropython.heap_unlock()
        end = er
    assert isinstance(end, (asyncio.TimeoutError, MemoryError)), end
    async with timeout_ms(100):  # a later one does not take that for its own
        await sleep_ms(1)
    assert late.expired()


async def test_a_subscription_is_closed():
    broker = Broker()
    for er in (None, ValueError()):
        sub = broker.subscribe("a/#", policy="block", maxlen=1)
        broker.publish("a/b", 1)
        assert await leave(sub, er) is er
        assert not broker.snapshot()["subscribers"]
        assert broker.publish("a/b", 2) == 0.0


@needs("sockets")
async def test_a_server_is_closed():
    port = free_port()
    for er in (None, ValueError()):
        server = await asyncio.start_server(print, "127.0.0.1", port)
        assert await leave(server, er) is er
        assert server.closed
        await server.wait_closed()


async def test_the_tasks_of_a_group_are_cancelled():
    ended = [False, False]

    async def child(n):
        try:
            await sleep_ms(1000)
        finally:
            ended[n] = True

    group = asyncio.TaskGroup()
    try:
        async with group:
            group.create_task(child(0))
            group.create_task(child(1))
            await sleep_ms(1)
            micropython.heap_lock()
    except MemoryError:
        micropython.heap_unlock()
    else:
        micropython.heap_unlock()
        raise AssertionError("there was memory")
    await sleep_ms(5)
    assert ended == [True, True]
    raises(RuntimeError, group.create_task, child(0))
