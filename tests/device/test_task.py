# TaskQueue and Task: tasks in C and in Python alike; exceptions that nobody retrieves.

import time

import micropython

import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms
from asyncio_alt.core import Task, TaskQueue, ticks_add, ticks_diff


def random(state=[12345]):
    state[0] = (state[0] * 1103515245 + 12345) & 0x3FFFFFFF
    return state[0] >> 8


async def nothing():
    pass


def tasks(n):
    coro = nothing()
    return [Task(coro) for _ in range(n)]


def check(base, spread, steps):
    # Random pushes, pops and removals, against a list in the order that is due.
    queue = TaskQueue()
    free = tasks(25)
    model = []
    for _ in range(steps):
        what = random() % 5
        if free and what < 2 + (len(model) < 3):
            t = free.pop(random() % len(free))
            key = ticks_add(base, random() % spread)
            queue.push(t, key)
            assert t.ph_key == key and t.data is None
            i = len(model)
            while i and ticks_diff(model[i - 1].ph_key, key) > 0:
                i -= 1
            model.insert(i, t)
        elif model and what == 4:
            t = model.pop(random() % len(model))
            queue.remove(t)
            free.append(t)
        elif model:
            t = model.pop(0)
            assert queue.pop() is t
            free.append(t)
        assert queue.peek() is (model[0] if model else None)
    for t in model:
        assert queue.pop() is t
    assert queue.peek() is None


def test_queue_gives_the_earliest_task():
    check(1000, 10000, 1500)


def test_queue_keeps_the_order_of_equal_keys():
    check(1000, 1, 500)
    check(1000, 3, 1500)


def test_queue_keeps_its_order_across_the_wrap():
    check(ticks_add(0, -5), 10, 1000)
    check(ticks_add(0, -500), 1000, 1000)


def test_queue_push_without_a_key_is_now():
    queue = TaskQueue()
    a, b, c = tasks(3)
    before = time.ticks_ms()
    queue.push(a)
    assert 0 <= ticks_diff(a.ph_key, before) < 1000
    queue.push(b, ticks_add(before, -1000))
    queue.push(c, ticks_add(before, 100000))
    assert [queue.pop(), queue.pop(), queue.pop()] == [b, a, c]


def test_empty_queue_has_nothing_to_pop():
    queue = TaskQueue()
    assert queue.peek() is None
    raises(IndexError, queue.pop, match="empty heap")


def test_queue_of_many_is_left_in_order():
    # All at once, first in first out, as in a pass with many ready tasks.
    queue = TaskQueue()
    all = tasks(100)
    for t in all:
        queue.push(t, 7)
    for t in all[::3]:
        queue.remove(t)
    assert [queue.pop() for i in range(100) if i % 3] == [all[i] for i in range(100) if i % 3]


def at_step(k, call):
    # Has call() run at the k-th step, from here on, at which a scheduled callback can.
    def step(_):
        nonlocal k
        k -= 1
        if k:
            micropython.schedule(step, 0)
        else:
            call()

    micropython.schedule(step, 0)
    return lambda: not k


def swept(try_at):
    # Calls try_at(k) for k = 1, 2, ..., until it returns that its callback came too late.
    k = 1
    while try_at(k):
        k += 1
        assert k < 2000
    assert k > 2


C_TASKS = not hasattr(TaskQueue(), "tasks")  # nothing interrupts them


@needs("schedule")
def test_queue_and_a_scheduled_callback_at_every_step():
    def drain(queue):
        out = []
        while queue.peek():
            try:
                out.append(queue.pop())
            except IndexError:
                pass  # the callback was faster
        return out

    for what in ("push", "pop", "remove", "pop all"):
        for callback in (-1, 1, 9, "pop", "pop all"):  # a number: the key of the task it pushes

            def try_at(k):
                queue = TaskQueue()
                all = tasks(11)
                there = all[:9]
                for i in range(9):
                    queue.push(all[i], i % 3)
                out = []

                def call():
                    if callback == "pop":
                        if queue.peek():
                            out.append(queue.pop())
                    elif callback == "pop all":
                        out.extend(drain(queue))
                    else:
                        queue.push(all[9], callback)
                        there.append(all[9])

                fired = at_step(k, call)
                if what == "push":
                    queue.push(all[10], 1)
                    there.append(all[10])
                elif what == "remove":
                    if not C_TASKS:
                        queue.remove(all[8])
                elif what == "pop":
                    out.append(queue.pop())
                else:
                    out.extend(drain(queue))
                within = fired()
                while not fired():
                    pass
                # Each has come out once, the rest in order.
                rest = drain(queue)
                keys = [t.ph_key for t in rest]
                assert keys == sorted(keys), (what, callback, k, keys)
                assert [t for t in rest if t in all[:9] and t.ph_key == 1] == [
                    t for t in all if t in rest and t in all[:9] and t.ph_key == 1
                ]
                got = out + rest
                if what == "remove" and not C_TASKS and all[8] not in got:
                    got.append(all[8])
                assert len(got) == len(there) and set(got) == set(there), (what, callback, k)
                return within

            if callback == "pop all" and what == "pop":
                pass  # it may find nothing to pop
            elif C_TASKS:
                try_at(1)
            else:
                swept(try_at)


@needs("schedule")
def test_cancel_and_a_scheduled_callback_at_every_step():
    async def main(k):
        nonlocal within
        event = asyncio.Event()
        out = []

        async def wait(i):
            try:
                await event.wait()
            except asyncio.CancelledError:
                out.append(-i)
            else:
                out.append(i)
            await sleep_ms(1)

        waits = [create_task(wait(i)) for i in range(1, 5)]
        await sleep_ms(0)
        fired = at_step(k, event.set)
        waits[1].cancel()
        within = fired()
        while not fired():
            pass
        for t in waits:
            await asyncio.wait_for(t, 1)
        assert len(out) == 4 and set(out) in ({1, -2, 3, 4}, {1, 2, 3, 4}), (k, out)
        assert not event.waiting.peek()

    within = True

    def try_at(k):
        asyncio.run(main(k))
        return within

    if C_TASKS:
        try_at(1)
    else:
        swept(try_at)


async def test_awaited_task_gives_its_result_as_often_as_asked():
    async def result():
        await sleep_ms(1)
        return 42

    t = create_task(result())
    assert not t.done()
    assert await t == 42
    assert t.done()
    assert await t == 42


async def test_awaited_task_raises_its_exception_as_often_as_asked():
    async def fail():
        await sleep_ms(1)
        raise ValueError("so")

    t = create_task(fail())
    await araises(ValueError, t, match="so")
    await araises(ValueError, t, match="so")


async def test_many_wait_for_one_task_and_go_on_in_order():
    async def result():
        await sleep_ms(5)
        return 1

    async def wait(i):
        assert await t == 1
        out.append(i)

    out = []
    t = create_task(result())
    waits = [create_task(wait(i)) for i in range(4)]
    for w in waits:
        await w
    assert out == [0, 1, 2, 3]


async def test_cancelled_task_gets_the_exception_where_it_waits():
    out = []

    async def task(awaitable):
        try:
            await awaitable
        except asyncio.CancelledError:
            out.append("cancelled")
            raise
        finally:
            out.append("finally")

    for make in (
        lambda: sleep_ms(100000),
        lambda: asyncio.Event().wait(),
        lambda: asyncio.ThreadSafeFlag().wait(),
        lambda: create_task(forever()),
    ):
        out.clear()
        t = create_task(start(task, make))
        await sleep_ms(0)
        assert t.cancel() is True
        await araises(asyncio.CancelledError, t)
        assert out == ["cancelled", "finally"]
        assert t.cancel() is False


async def forever():
    while True:
        await sleep_ms(1000)


async def start(task, make):
    await task(make())


async def test_task_cancelled_before_it_ran_never_runs():
    out = []

    async def task():
        out.append(1)

    t = create_task(task())
    t.cancel()
    await araises(asyncio.CancelledError, t)
    assert not out and t.done()


async def test_task_that_swallows_the_cancel_goes_on():
    async def task():
        try:
            await sleep_ms(100000)
        except asyncio.CancelledError:
            pass
        await sleep_ms(1)
        return "went on"

    t = create_task(task())
    await sleep_ms(0)
    t.cancel()
    assert await t == "went on"


async def test_cancel_reaches_the_task_at_the_end_of_the_chain():
    out = []

    async def inner():
        try:
            await sleep_ms(100000)
        except asyncio.CancelledError:
            out.append("inner")
            raise

    async def outer():
        t = create_task(inner())
        try:
            await t
        except asyncio.CancelledError:
            out.append("outer")
            raise

    t = create_task(outer())
    await sleep_ms(0)
    await sleep_ms(0)
    t.cancel()
    await araises(asyncio.CancelledError, t)
    assert out == ["inner", "outer"]


async def test_cancelled_waiter_of_a_task_with_other_waiters():
    # As in stock: the cancel goes to the awaited task, and so to all that wait for it.
    async def wait():
        return await t

    t = create_task(forever())
    waits = [create_task(wait()) for _ in range(2)]
    await sleep_ms(0)
    waits[0].cancel()
    for w in waits:
        await araises(asyncio.CancelledError, w)
    assert t.done()


async def test_task_cannot_cancel_itself():
    raises(RuntimeError, asyncio.current_task().cancel, match="can't cancel self")
    await sleep_ms(0)


async def test_sleeping_tasks_wake_in_the_order_of_their_deadlines():
    async def task(ms):
        await sleep_ms(ms)
        out.append(ms)

    out = []
    delays = [90, 30, 60, 0, 120]
    for t in [create_task(task(ms)) for ms in delays]:
        await t
    assert out == sorted(delays)


class Reports:
    # Collects the calls of the exception handler.
    def __init__(self):
        self.got = []
        asyncio.get_event_loop().set_exception_handler(self.handler)

    def handler(self, loop, context):
        self.got.append(context)


async def fail(exc):
    raise exc


def test_exception_never_retrieved_is_reported_once():
    reports = Reports()

    async def main():
        t = create_task(fail(ValueError("unseen")))
        await sleep_ms(20)
        assert len(reports.got) == 1
        assert isinstance(reports.got[0]["exception"], ValueError)
        assert reports.got[0]["future"] is t
        assert "never" in reports.got[0]["message"] or "wasn't" in reports.got[0]["message"]
        await araises(ValueError, t)
        await sleep_ms(20)

    asyncio.run(main())
    assert len(reports.got) == 1


def test_exception_retrieved_is_not_reported():
    reports = Reports()

    async def main():
        t = create_task(fail(ValueError("seen")))
        await araises(ValueError, t)
        late = create_task(fail(ValueError("seen in the same pass")))
        create_task(look(late))
        await sleep_ms(20)
        t = create_task(fail(asyncio.CancelledError()))
        await sleep_ms(20)

    async def look(t):
        await araises(ValueError, t)

    asyncio.run(main())
    assert not reports.got, reports.got


def test_exception_of_a_task_that_ends_just_before_main_is_reported():
    """Stock: reported in the next run() at best."""
    reports = Reports()

    async def main():
        create_task(fail(ValueError("last")))
        await sleep_ms(0)

    asyncio.run(main())
    assert len(reports.got) == 1


def test_exception_in_the_exception_handler_does_not_end_the_loop():
    """Stock: it comes out of run()."""

    def handler(loop, context):
        raise KeyError("in the handler")

    loop = asyncio.get_event_loop()
    assert loop.get_exception_handler() is None
    loop.set_exception_handler(handler)
    assert loop.get_exception_handler() is handler

    async def main():
        create_task(fail(ValueError("unseen")))
        await sleep_ms(20)
        return 1

    assert asyncio.run(main()) == 1
    loop.set_exception_handler(None)
    assert loop.get_exception_handler() is None


def test_exception_of_main_comes_out_of_run_and_is_not_reported():
    reports = Reports()
    raises(ValueError, asyncio.run, fail(ValueError("main")), match="main")
    assert not reports.got


async def test_task_that_ends_while_it_is_in_a_queue_takes_nobody_with_it():
    async def odd(t):
        iter(t).__next__()  # as an await does, but it does not yield
        return True

    async def waits(t):
        return await t

    # It is queued as the first, as the last, and between others; meanwhile other tasks end.
    reports = Reports()
    for order in ((odd, waits, waits), (waits, waits, odd), (waits, odd, waits)):
        for ms in (0, 2):
            go = asyncio.Event()
            target = create_task(go.wait())
            tasks = []
            for coro in order:
                tasks.append(create_task(coro(target)))
                await sleep_ms(ms)
            for _ in range(3):
                await create_task(nothing())
            go.set()
            await sleep_ms(0)
            for t in tasks:
                assert await asyncio.wait_for(t, 1) is True
    await sleep_ms(1)
    assert not reports.got, reports.got


async def test_a_task_has_a_name_until_it_ends():
    made = asyncio.Loop.create_task(nothing(), name=7)
    task = create_task(nothing(), name="first")
    assert asyncio.get_name(task) == "first" and asyncio.get_name(made) == "7"
    assert asyncio.get_name(asyncio.current_task()) is None
    asyncio.set_name(task, "second")
    assert asyncio.get_name(task) == "second"
    await task
    asyncio.set_name(task, "late")
    assert asyncio.get_name(task) is None and task not in asyncio.all_tasks()
    async with asyncio.TaskGroup() as group:
        assert asyncio.get_name(group.create_task(nothing(), name="in a group")) == "in a group"
        task = group.create_task(nothing())
        assert asyncio.get_name(task) is None
        asyncio.set_name(task, "named")
        assert asyncio.get_name(task) == "named"
