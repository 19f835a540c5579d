# with: tasks
# TaskGroup, ExceptionGroup, BaseExceptionGroup.

import gc

import asyncio_alt as asyncio
from asyncio_alt import core


async def late(ms, value=None, log=None):
    try:
        await asyncio.sleep_ms(ms)
        return value
    except asyncio.CancelledError:
        if log is not None:
            log.append(value)
        raise


async def fail(turns, exc):
    # Those of one number fail in one turn of the loop.
    await passes(turns)
    raise exc


async def fail_when_cancelled(exc):
    try:
        await asyncio.sleep(100)
    finally:
        raise exc


async def caught(coro):
    # Returns the exception that coro raises.
    try:
        await coro
    except (Exception, asyncio.CancelledError) as er:
        return er
    raise AssertionError("nothing raised")


async def test_it_ends_when_all_of_its_tasks_have():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(late(3 - i, i)) for i in range(3)]
        assert await tasks[1] == 1  # a task may be awaited inside
    assert all([t.done() for t in tasks])
    assert await tasks[0] == 0 and await tasks[2] == 2


async def test_a_group_without_tasks_ends_at_once():
    async with asyncio.TaskGroup():
        pass


async def test_one_that_fails_cancels_the_others_and_the_body():
    log = []

    async def body():
        async with asyncio.TaskGroup() as group:
            group.create_task(late(1000, 1, log))
            group.create_task(fail(1, KeyError("k")))
            group.create_task(late(1000, 2, log))
            await late(1000, "body", log)

    er = await caught(body())
    assert isinstance(er, asyncio.ExceptionGroup), er
    assert [type(e) for e in er.exceptions] == [KeyError]
    assert sorted([str(x) for x in log]) == ["1", "2", "body"], log
    await passes(3)  # the task of this test is not cancelled any more


async def test_a_body_that_raises_cancels_the_tasks():
    log = []

    async def body():
        async with asyncio.TaskGroup() as group:
            group.create_task(late(1000, 1, log))
            group.create_task(fail_when_cancelled(OSError(5)))
            await passes(1)
            raise ValueError

    er = await caught(body())
    assert [type(e) for e in er.exceptions] == [OSError, ValueError], er
    assert log == [1]


async def test_all_errors_are_told():
    async def body():
        async with asyncio.TaskGroup() as group:
            for i in range(3):
                group.create_task(fail(1, ValueError(i)))
            group.create_task(fail_when_cancelled(KeyError()))

    er = await caught(body())
    assert sorted([repr(e) for e in er.exceptions]) == sorted(
        [repr(e) for e in (ValueError(0), ValueError(1), ValueError(2), KeyError())]
    )


async def test_a_cancellation_of_the_parent_reaches_the_tasks_and_goes_on():
    for in_body in (False, True):
        log = []

        async def parent():
            async with asyncio.TaskGroup() as group:
                group.create_task(late(1000, 1, log))
                if in_body:
                    await asyncio.sleep(100)

        t = asyncio.create_task(parent())
        await passes(3)
        t.cancel()
        assert isinstance(await caught(t), asyncio.CancelledError)
        assert log == [1]


async def test_errors_come_before_a_cancellation_which_comes_at_the_next_await():
    seen = []

    async def parent():
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_when_cancelled(ValueError()))
                await passes(1)
        except asyncio.ExceptionGroup as er:
            seen.append(len(er.exceptions))
        await asyncio.sleep(100)

    t = asyncio.create_task(parent())
    await passes(4)
    t.cancel()
    assert isinstance(await caught(asyncio.wait_for(t, 5)), asyncio.CancelledError)
    assert seen == [1]


async def test_a_cancellation_of_a_task_of_the_group_is_no_error():
    async with asyncio.TaskGroup() as group:
        t = group.create_task(late(1000))
        group.create_task(late(1))
        await passes(1)
        t.cancel()


async def test_a_task_may_be_made_while_the_group_ends():
    order = []

    async def first(group):
        await asyncio.sleep_ms(1)
        group.create_task(second())

    async def second():
        order.append("second")

    async with asyncio.TaskGroup() as group:
        group.create_task(first(group))
    assert order == ["second"]


async def test_no_task_is_made_before_and_after_and_while_it_cancels():
    refused = []

    async def nothing():
        pass

    def attempt(group):
        refused.append(raises(RuntimeError, group.create_task, nothing()))

    group = asyncio.TaskGroup()
    attempt(group)

    async def at_the_end(group):
        try:
            await asyncio.sleep(100)
        finally:
            attempt(group)

    async def body():
        async with group:
            group.create_task(at_the_end(group))
            await passes(1)
            raise KeyError

    await caught(body())
    attempt(group)
    assert [str(er).split(": ")[1] for er in refused] == [
        "not entered",
        "cancelling its tasks",
        "over",
    ]
    await araises(RuntimeError, group.__aenter__(), match="twice")


async def test_groups_nest():
    async def inner():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(1, OSError(1)))
            group.create_task(late(1000))

    async def outer():
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())
            group.create_task(fail_when_cancelled(KeyError("outer")))

    er = await caught(outer())
    assert [type(e) for e in er.exceptions] == [asyncio.ExceptionGroup, KeyError], er
    assert isinstance(er.exceptions[0].exceptions[0], OSError)


async def test_both_of_two_nested_groups_may_fail_in_one_tick():
    async def body():
        async with asyncio.TaskGroup() as outer:
            outer.create_task(fail(1, ValueError()))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fail(1, KeyError()))
                await asyncio.sleep(100)

    er = await caught(body())
    assert [type(e) for e in er.exceptions] == [ValueError, asyncio.ExceptionGroup], er
    await passes(2)


async def test_a_deadline_around_a_group_ends_its_tasks():
    log = []

    async def body():
        async with asyncio.timeout(0.005):
            async with asyncio.TaskGroup() as group:
                group.create_task(late(1000, 1, log))

    assert isinstance(await caught(body()), asyncio.TimeoutError)
    assert log == [1]


async def test_a_deadline_inside_a_group_is_no_error_of_it():
    async with asyncio.TaskGroup() as group:
        group.create_task(late(5))
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(100)
        except asyncio.TimeoutError:
            pass


async def test_an_error_of_an_outer_group_passes_an_inner_deadline():
    async def body():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(1, ValueError()))
            async with asyncio.timeout(100):
                await asyncio.sleep(100)

    er = await caught(body())
    assert [type(e) for e in er.exceptions] == [ValueError], er


async def test_a_task_that_outlives_its_cancellation_is_waited_for():
    order = []

    async def stubborn():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep_ms(5)
            order.append("stubborn")

    async def body():
        async with asyncio.TaskGroup() as group:
            group.create_task(stubborn())
            group.create_task(fail(1, ValueError()))

    await caught(body())
    assert order == ["stubborn"]


async def test_nothing_is_left_of_a_group():
    before = len(core.tasks)
    for _ in range(3):
        async with asyncio.TaskGroup() as group:
            group.create_task(late(1))
    assert len(core.tasks) == before
    assert core._task_queue.peek() is None


def test_a_keyboard_interrupt_passes():
    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(late(1000))
            raise KeyboardInterrupt

    raises(KeyboardInterrupt, asyncio.run, main())

    async def interrupted():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(1, KeyboardInterrupt()))
            await asyncio.sleep(100)

    raises(KeyboardInterrupt, asyncio.run, interrupted())


def test_groups_of_exceptions_keep_what_they_are_made_of():
    parts = [ValueError(1), KeyError(2)]
    for cls in (asyncio.ExceptionGroup, asyncio.BaseExceptionGroup):
        er = cls("why", parts)
        assert er.message == "why" and er.exceptions == tuple(parts)
        assert er.args == ("why", tuple(parts)) and str(er) == "why (2 sub-exceptions)"
    assert isinstance(asyncio.ExceptionGroup("m", parts), Exception)
    assert not isinstance(asyncio.BaseExceptionGroup("m", [SystemExit()]), Exception)
    assert str(asyncio.ExceptionGroup("m", parts[:1])) == "m (1 sub-exception)"


def test_other_parts_are_refused():
    for cls in (asyncio.ExceptionGroup, asyncio.BaseExceptionGroup):
        raises(TypeError, cls, 1, [ValueError()], match="message")
        raises(TypeError, cls, "m", 5, match="exceptions")
        raises(ValueError, cls, "m", [], match="exceptions")
        raises(ValueError, cls, "m", [ValueError], match="exceptions")
    raises(TypeError, asyncio.ExceptionGroup, "m", [KeyboardInterrupt()], match="exceptions")


def test_split_and_subgroup_keep_the_nesting():
    inner = asyncio.ExceptionGroup("inner", [KeyError(1), OSError(2)])
    er = asyncio.ExceptionGroup("outer", [ValueError(3), inner])
    found, rest = er.split(OSError)
    assert found.message == "outer" and found.exceptions[0].message == "inner"
    assert [repr(e) for e in found.exceptions[0].exceptions] == [repr(OSError(2))]
    assert isinstance(rest.exceptions[0], ValueError)
    assert [repr(e) for e in rest.exceptions[1].exceptions] == [repr(KeyError(1))]
    assert er.split(Exception) == (er, None)
    assert er.split(TypeError)[0] is None
    assert er.subgroup((KeyError, OSError)).exceptions[0].exceptions == inner.exceptions
    assert er.subgroup(lambda e: e.args == (3,)).exceptions == er.exceptions[:1]
    raises(TypeError, er.split, 5, match="condition")


def test_a_group_is_printed_as_a_tree():
    import io
    import sys

    inner = asyncio.ExceptionGroup("inner", [KeyError(1)])
    out = io.StringIO()
    sys.print_exception(asyncio.ExceptionGroup("outer", [ValueError("two\nlines"), inner]), out)
    lines = out.getvalue().split("\n")
    text = "\n".join([line for line in lines if "Traceback" not in line])
    assert text.rstrip().endswith(
        "ExceptionGroup: outer (2 sub-exceptions)\n"
        "  +-- 1 --\n"
        "  | ValueError: two\n"
        "  | lines\n"
        "  +-- 2 --\n"
        "  | ExceptionGroup: inner (1 sub-exception)\n"
        "  |   +-- 1 --\n"
        "  |   | KeyError: 1"
    ), text


async def test_a_group_ends_in_its_turn():
    order = []

    async def others():
        for n in range(4):
            order.append(n)
            await asyncio.sleep_ms(0)

    async def child():
        await asyncio.sleep_ms(0)
        order.append("child")

    task = asyncio.create_task(others())
    async with asyncio.TaskGroup() as group:
        group.create_task(child())
    order.append("group")
    await task
    assert order == [0, 1, "child", 2, 3, "group"], order


async def test_a_group_takes_little_more_memory_than_its_tasks():
    async def nothing():
        pass

    async def alone():
        for task in [asyncio.create_task(nothing()) for _ in range(10)]:
            await task

    async def grouped():
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(nothing())

    async def deadline():
        async with asyncio.timeout_ms(1000):
            await nothing()

    async def waits():
        await asyncio.wait_for_ms(nothing(), 1000)

    async def cost(fn):
        await fn()
        gc.collect()
        gc.disable()
        before = gc.mem_alloc()
        for _ in range(3):
            await fn()
        found = gc.mem_alloc() - before
        gc.enable()
        return found

    assert await cost(grouped) < 2 * await cost(alone)
    assert await cost(deadline) < 0.7 * await cost(waits)
