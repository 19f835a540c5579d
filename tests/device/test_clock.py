# The wrap of ticks_ms. The clock of tasks in C cannot be moved: there test_task.py moves the keys.
# Here tasks are in Python, and the clock is one that wraps in a moment.

import sys
import time


def near_wrap(ms):
    # Returns the package with tasks in Python and a clock that wraps in so many ms, None where the
    # target has no task.py.
    sys.modules["_asyncio"] = sys
    try:
        import asyncio_alt
    except ImportError:
        return None
    shift = time.ticks_diff(time.ticks_add(0, -ms), time.ticks_ms())

    def ticks():
        return time.ticks_add(time.ticks_ms(), shift)

    asyncio_alt.core.ticks = ticks
    return asyncio_alt


def wrapped(asyncio):
    return asyncio.core.ticks() < 100000


def test_sleeping_tasks_wake_in_order_across_the_wrap():
    asyncio = near_wrap(60)
    if not asyncio:
        return
    out = []

    async def task(ms):
        await asyncio.sleep_ms(ms)
        out.append(ms)

    async def main():
        assert not wrapped(asyncio)
        delays = (100, 20, 140, 40, 80, 120)
        tasks = [asyncio.create_task(task(ms)) for ms in delays]
        for t in tasks:
            await t
        assert wrapped(asyncio)
        assert out == sorted(delays), out

    asyncio.run(main())


def test_sleep_across_the_wrap_takes_its_time():
    asyncio = near_wrap(25)
    if not asyncio:
        return

    async def main():
        start = time.ticks_ms()
        await asyncio.sleep_ms(100)
        assert time.ticks_diff(time.ticks_ms(), start) >= 100
        assert wrapped(asyncio)

    asyncio.run(main())


def test_priority_on_either_side_of_the_wrap():
    # The key of a priority wake-up lies before the wrap for a window after it.
    asyncio = near_wrap(100)
    if not asyncio:
        return
    sides = []

    async def wait(flag, out):
        await flag.wait(priority=True)
        out.append("F")

    async def ready(name, out):
        out.append(name)

    async def main():
        flag = asyncio.ThreadSafeFlag()
        for _ in range(20):
            out = []
            tasks = [asyncio.create_task(wait(flag, out))]
            await asyncio.sleep_ms(1)
            tasks += [asyncio.create_task(ready(name, out)) for name in "ab"]
            flag.set()
            sides.append(wrapped(asyncio))
            for t in tasks:
                await t
            assert "".join(out) == "Fab", (out, sides)
            await asyncio.sleep_ms(9)

    asyncio.run(main())
    assert set(sides) == {False, True}


def test_ready_task_is_not_starved_across_the_wrap():
    asyncio = near_wrap(200)
    if not asyncio:
        return
    runs = [0, 0]

    a = asyncio.ThreadSafeFlag()
    b = asyncio.ThreadSafeFlag()

    async def storm(near, far):
        # Two tasks that wake each other: a priority wake-up in every pass.
        while True:
            await near.wait(priority=True)
            far.set()

    async def other():
        while True:
            await asyncio.sleep_ms(0)
            runs[wrapped(asyncio)] += 1

    async def main():
        asyncio.priority_window(20)
        a.set()
        tasks = [asyncio.create_task(t) for t in (storm(a, b), storm(b, a), other())]
        await asyncio.sleep_ms(500)
        for t in tasks:
            t.cancel()

    asyncio.run(main())
    assert min(runs) >= 2, runs
    assert max(runs) <= 40, runs


def test_timeouts_across_the_wrap():
    asyncio = near_wrap(30)
    if not asyncio:
        return

    async def main():
        flag = asyncio.ThreadSafeFlag()
        await araises(asyncio.TimeoutError, asyncio.wait_for_ms(flag.wait(), 60))
        assert wrapped(asyncio)

        async def setter():
            await asyncio.sleep_ms(10)
            flag.set()

        asyncio.create_task(setter())
        await asyncio.wait_for_ms(flag.wait(), 5000)

    asyncio.run(main())


def test_task_cancelled_in_its_sleep_across_the_wrap():
    asyncio = near_wrap(10)
    if not asyncio:
        return

    async def sleep():
        await asyncio.sleep_ms(100000)

    async def main():
        t = asyncio.create_task(sleep())
        u = asyncio.create_task(sleep())
        await asyncio.sleep_ms(5)
        t.cancel()
        await araises(asyncio.CancelledError, t)
        await asyncio.sleep_ms(20)
        assert wrapped(asyncio)
        u.cancel()
        await araises(asyncio.CancelledError, u)

    asyncio.run(main())
