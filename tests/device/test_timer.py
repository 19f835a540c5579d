# with: tasks
# Loop.time(), call_soon(), call_later(), call_at(); all_tasks, get_running_loop.

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core

Loop = asyncio.Loop


async def test_callbacks_come_in_the_order_of_their_moments():
    order = []
    Loop.call_soon(len, "")  # loads the modules it needs
    now = Loop.time()
    Loop.call_later(0.2, order.append, 4)
    Loop.call_at(now + 0.1, order.append, 2)
    Loop.call_later(-1, order.append, 0)
    Loop.call_soon(order.append, "soon")
    await passes(1)
    assert order == [0, "soon"], order
    await asyncio.sleep_ms(250)
    assert order == [0, "soon", 2, 4], order


async def test_a_cancelled_callback_is_not_called():
    order = []
    handles = [Loop.call_soon(order.append, 1), Loop.call_later(0.001, order.append, 2)]
    for handle in handles:
        assert not handle.cancelled()
        handle.cancel()
        handle.cancel()
        assert handle.cancelled()
    late = Loop.call_soon(order.append, 3)
    await asyncio.sleep_ms(3)
    late.cancel()  # it has been called
    assert order == [3] and core._task_queue.peek() is None


async def test_one_that_raises_is_reported_and_the_others_are_called():
    reports = []
    Loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    order = []
    Loop.call_soon(lambda: 1 / 0)
    Loop.call_soon(order.append, 1)
    await passes(2)
    Loop.set_exception_handler(None)
    assert [type(er) for er in reports] == [ZeroDivisionError] and order == [1]


async def test_a_callback_is_no_task_and_may_start_one():
    seen = []

    async def task():
        seen.append("task")

    def callback():
        raises(RuntimeError, asyncio.current_task)
        assert asyncio.get_running_loop() is Loop
        seen.append(asyncio.create_task(task()))

    Loop.call_soon(callback)
    await passes(2)
    assert seen[1] == "task" and seen[0].done()


async def test_a_scheduled_callback_may_call_soon():
    event = asyncio.Event()
    micropython.schedule(lambda _: Loop.call_soon(event.set), 0)
    await asyncio.wait_for(event.wait(), 1)


async def test_when_is_the_moment():
    when = Loop.time() + 5
    handle = Loop.call_at(when, print)
    assert handle.when() == when
    handle.cancel()


def test_what_makes_no_sense_is_refused():
    raises(TypeError, Loop.call_soon, 5, match="callback")
    raises(TypeError, Loop.call_later, "1", print, match="call_later: delay")
    raises(ValueError, Loop.call_later, 1e9, print, match="call_later: delay")
    raises(TypeError, Loop.call_at, 5.0, print, match="call_at: when")
    raises(RuntimeError, asyncio.get_running_loop, match="no running")


def test_before_the_loop_runs_a_callback_waits_for_it():
    order = []
    Loop.call_soon(order.append, 1)
    asyncio.run(passes(1))
    assert order == [1]


async def test_all_tasks_are_those_that_have_not_ended():
    me = asyncio.current_task()
    before = asyncio.all_tasks()
    assert me in before
    task = asyncio.create_task(passes(2))
    assert asyncio.all_tasks() - before == {task}
    await task
    assert asyncio.all_tasks() == before
    future = Loop.create_future()
    Loop.call_soon(future.set_result, 5)
    assert await future == 5
