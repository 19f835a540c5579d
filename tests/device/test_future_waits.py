# gather() and wait_for() take a Future where they take a Task.

import asyncio_alt as asyncio
from asyncio_alt import Future, create_task, gather, shield, sleep_ms, wait_for, wait_for_ms


async def later(future, ms, value):
    await sleep_ms(ms)
    future.set_result(value)


async def test_wait_for_takes_a_future():
    future = Future()
    create_task(later(future, 5, "set"))
    assert await wait_for(future, 1) == "set"
    assert await wait_for(future, 0) == "set"
    future = Future()
    await araises(asyncio.TimeoutError, wait_for_ms(future, 5))
    assert future.cancelled()
    await araises(asyncio.CancelledError, wait_for_ms(future, 5))


async def test_a_shield_holds_in_wait_for():
    for ms in (5, 0):
        inner = create_task(later(Future(), 20, None))
        outer = shield(inner)
        await araises(asyncio.TimeoutError, wait_for_ms(outer, ms))
        assert outer.cancelled() and not inner.done()
        await inner


async def test_gather_takes_futures():
    a, b = Future(), Future()
    create_task(later(a, 5, 1))
    create_task(later(b, 2, 2))
    assert await gather(a, b, a) == [1, 2, 1]
    b = Future()
    t = create_task(wait_for(gather(shield(b)), 1))
    await sleep_ms(2)
    t.cancel()
    await araises(asyncio.CancelledError, t)
    assert not b.done()


async def test_sleep_is_no_task():
    for call in (asyncio.ensure_future, create_task, shield):
        raises(TypeError, call, asyncio.sleep(0))
    group = asyncio.TaskGroup()
    raises(RuntimeError, group.create_task, asyncio.sleep(0))


async def test_callbacks_of_a_done_future_are_called_all_the_same():
    called = []

    def note(future):
        called.append(future)

    future = Future()
    future.add_done_callback(note)
    future.set_result(1)
    assert future.remove_done_callback(note) == 0
    future.add_done_callback(note)
    assert future.remove_done_callback(note) == 0
    await sleep_ms(1)
    assert called == [future, future]


async def test_a_group_names_its_tasks_and_refuses_what_is_no_coroutine():
    async with asyncio.TaskGroup() as group:
        raises(TypeError, group.create_task, 5)
        a = group.create_task(sleeper(), name="a")
        b = group.create_task(sleeper())
        assert [asyncio.get_name(t) for t in (a, b)] == ["a", None]
        asyncio.set_name(a, "c")
        asyncio.set_name(b, 7)
        assert [asyncio.get_name(t) for t in (a, b)] == ["c", "7"]
    assert [asyncio.get_name(t) for t in (a, b)] == [None, None]
    assert not group.names


async def sleeper():
    await sleep_ms(1)


async def test_a_group_takes_no_more_memory_for_tasks_that_have_ended():
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(sleeper())
            await sleep_ms(2)
        assert len(group._ended) <= 2 and not group._tasks or len(group._tasks) == 1
