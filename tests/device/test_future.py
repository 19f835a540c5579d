# with: tasks
# Future, wait, as_completed, shield, ensure_future.

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


async def late(ms, value=None):
    await asyncio.sleep_ms(ms)
    if isinstance(value, Exception):
        raise value
    return value


async def test_all_that_wait_for_a_future_get_its_result():
    async def waiter():
        return await future

    for exc in (None, ValueError("v")):
        future = asyncio.Future()
        tasks = [asyncio.create_task(waiter()) for _ in range(3)]
        await passes(2)
        assert not future.done() and not tasks[0].done()
        if exc:
            future.set_exception(exc)
        else:
            future.set_result(7)
        for t in tasks:
            if exc:
                assert await araises(ValueError, t) is exc
            else:
                assert await t == 7
        assert future.done() and not future.cancelled()
        if exc:
            assert await araises(ValueError, future) is exc and future.exception() is exc
        else:
            assert await future == 7 == future.result() and future.exception() is None


async def test_a_result_is_set_once():
    for end in (
        lambda f: f.set_result(1),
        lambda f: f.set_exception(OSError),
        lambda f: f.cancel(),
    ):
        future = asyncio.Future()
        raises(asyncio.InvalidStateError, future.result)
        raises(asyncio.InvalidStateError, future.exception)
        end(future)
        raises(asyncio.InvalidStateError, future.set_result, 2)
        raises(asyncio.InvalidStateError, future.set_exception, OSError)
        assert future.cancel() is False


async def test_what_is_no_exception_is_refused():
    future = asyncio.Future()
    for wrong in (1, "x", StopIteration, StopIteration(1), int):
        raises(TypeError, future.set_exception, wrong, match="exception")
    assert not future.done()


async def test_a_cancelled_waiter_cancels_the_future():
    future = asyncio.Future()

    async def waiter():
        return await future

    tasks = [asyncio.create_task(waiter()) for _ in range(2)]
    await passes(1)
    tasks[0].cancel()
    for t in tasks:
        await araises(asyncio.CancelledError, t)
    assert future.cancelled()
    raises(asyncio.CancelledError, future.result)
    raises(asyncio.CancelledError, future.exception)


async def test_a_scheduled_callback_may_set_it():
    for _ in range(3):
        future = asyncio.Future()
        micropython.schedule(future.set_result, 5)
        assert await asyncio.wait_for(waiting(future), 1) == 5


async def waiting(future):
    return await future


async def test_callbacks_are_called_by_the_loop():
    called = []
    future = asyncio.Future()
    future.add_done_callback(called.append)
    future.add_done_callback(print)
    assert future.remove_done_callback(print) == 1 and future.remove_done_callback(print) == 0
    future.set_result(1)
    assert called == []
    await passes(1)
    assert called == [future]
    future.add_done_callback(called.append)  # it is done already
    await passes(1)
    assert called == [future, future]


async def test_a_callback_that_raises_is_reported():
    reports = []
    asyncio.Loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    future = asyncio.Future()
    future.add_done_callback(lambda future: 1 / 0)
    future.set_result(None)
    await passes(2)
    asyncio.Loop.set_exception_handler(None)
    assert [type(er) for er in reports] == [ZeroDivisionError]


async def test_wait_tells_those_that_have_ended():
    cases = (
        (asyncio.ALL_COMPLETED, 3, 0),
        (asyncio.FIRST_EXCEPTION, 2, 1),
        (asyncio.FIRST_COMPLETED, 1, 2),
    )
    for when, ended, going in cases:
        aws = [late(1), late(40, KeyError()), late(80)]
        tasks = [asyncio.create_task(aw) for aw in aws]
        done, pending = await asyncio.wait(tasks, return_when=when)
        assert (len(done), len(pending)) == (ended, going), (when, done)
        await asyncio.gather(*pending, return_exceptions=True)


async def test_wait_cancels_nothing_when_its_time_is_up():
    task = asyncio.create_task(late(10, "on"))
    done, pending = await asyncio.wait([task, task], timeout=0.001)
    assert (done, pending) == (set(), {task})
    assert await task == "on"
    assert await asyncio.wait({task}) == ({task}, set())


async def test_wait_may_be_cancelled():
    task = asyncio.create_task(late(10, "on"))
    waits = asyncio.create_task(asyncio.wait([task], timeout=5))
    await passes(2)
    waits.cancel()
    await araises(asyncio.CancelledError, waits)
    assert await task == "on"
    assert core._task_queue.peek() is None


async def test_wait_refuses_what_makes_no_sense():
    await araises(ValueError, asyncio.wait([]), match="aws")
    coro = late(1)
    await araises(TypeError, asyncio.wait([coro]), match="aws")
    task = asyncio.create_task(coro)
    await araises(TypeError, asyncio.wait(task), match="aws")
    await araises(ValueError, asyncio.wait([task], return_when=1), match="return_when")
    await araises(TypeError, asyncio.wait([task], timeout="1"), match="timeout")
    await task


async def test_futures_may_be_waited_for_too():
    future = asyncio.Future()
    task = asyncio.create_task(late(1))
    done, pending = await asyncio.wait([future, task], return_when=asyncio.FIRST_COMPLETED)
    assert done == {task} and pending == {future}
    future.set_result(1)
    assert await asyncio.wait([future]) == ({future}, set())


async def test_as_completed_gives_results_in_the_order_of_their_end():
    found = []
    for aw in asyncio.as_completed([late(6, 6), late(1, 1), late(3, 3)]):
        found.append(await aw)
    assert found == [1, 3, 6], found
    tasks = [asyncio.create_task(late(ms, ms)) for ms in (6, 1, 3)]
    found = []
    async for task in asyncio.as_completed(tasks):
        found.append(tasks.index(task))
    assert found == [1, 2, 0], found


async def test_as_completed_raises_what_they_raise_and_when_its_time_is_up():
    aws = list(asyncio.as_completed([late(1, KeyError()), late(100)], timeout=0.01))
    await araises(KeyError, aws[0])
    await araises(asyncio.TimeoutError, aws[1])
    raises(TypeError, asyncio.as_completed, 5)


async def test_several_tasks_may_share_one_as_completed():
    aws = list(asyncio.as_completed([late(1, 1), late(2, 2), late(3, 3)]))
    assert sorted(await asyncio.gather(*aws)) == [1, 2, 3]


async def test_a_shielded_task_goes_on():
    inner = asyncio.create_task(late(5, "in"))

    async def outer():
        return await asyncio.shield(inner)

    t = asyncio.create_task(outer())
    await passes(1)
    t.cancel()
    await araises(asyncio.CancelledError, t)
    assert await outer() == "in" and await outer() == "in"
    await araises(KeyError, asyncio.shield(late(1, KeyError())))


async def test_a_shield_is_cancelled_with_what_it_shields():
    inner = asyncio.create_task(late(100))

    async def outer():
        await asyncio.shield(inner)

    t = asyncio.create_task(outer())
    await passes(1)
    inner.cancel()
    await araises(asyncio.CancelledError, t)


async def test_ensure_future_takes_all_that_can_be_awaited():
    class Awaitable:
        def __iter__(self):
            yield from asyncio.sleep_ms(1)
            return 5

    future = asyncio.Future()
    task = asyncio.ensure_future(late(1, 2))
    assert asyncio.ensure_future(future) is future and asyncio.ensure_future(task) is task
    assert await task == 2 and await asyncio.ensure_future(Awaitable()) == 5
    raises(TypeError, asyncio.ensure_future, 5)
    assert asyncio.isfuture(future) and asyncio.isfuture(task) and not asyncio.isfuture(5)
    coro = late(0)
    assert asyncio.iscoroutine(coro) and not asyncio.iscoroutine(late)
    await coro


async def test_watched_tasks_forget_their_watchers():
    task = asyncio.create_task(late(30))
    for _ in range(5):
        await asyncio.wait([task], timeout=0.001)
    assert task.state is True
    await task
