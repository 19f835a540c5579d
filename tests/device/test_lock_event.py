# with: tasks
# Lock, Event; a ThreadSafeFlag's waiter that is cancelled.

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


async def test_lock_is_handed_over_in_order():
    lock = asyncio.Lock()
    order = []

    async def task(i):
        async with lock:
            order.append(i)
            await passes(2)
        order.append(i)

    await asyncio.gather(*[task(i) for i in range(4)])
    # A task that waits comes before a task that returns.
    assert order == [0, 0, 1, 1, 2, 2, 3, 3], order
    assert not lock.locked()


async def test_lock_cannot_be_taken_in_between():
    lock = asyncio.Lock()
    await lock.acquire()
    t = asyncio.create_task(lock.acquire())
    await passes(1)
    lock.release()
    u = asyncio.create_task(lock.acquire())  # it comes later
    await passes(2)
    assert t.done() and not u.done()
    lock.release()
    await u
    lock.release()
    assert not lock.locked()


async def test_release_of_a_free_lock_is_refused():
    lock = asyncio.Lock()
    raises(RuntimeError, lock.release)
    assert await lock.acquire() is True
    assert lock.locked()
    lock.release()
    raises(RuntimeError, lock.release)


async def test_cancelled_acquire_passes_the_lock_on():
    for k in range(5):
        for release_first in (True, False):
            lock = asyncio.Lock()
            await lock.acquire()
            tasks = [asyncio.create_task(lock.acquire()) for _ in range(3)]
            await passes(k)
            if release_first:
                lock.release()
            ended = await cancel(tasks[0])
            if not release_first:
                lock.release()
            if ended:
                lock.release()
            if await cancel(tasks[1]):
                lock.release()
            await passes(2)
            assert tasks[2].done() and lock.locked()
            lock.release()
            assert not lock.locked() and not lock.waiting.peek()


async def test_lock_is_released_by_an_exception():
    lock = asyncio.Lock()

    async def task(wait):
        async with lock:
            await passes(wait)
            raise ValueError

    for n in range(3):
        await araises(ValueError, task(n))
        assert not lock.locked()
    t = asyncio.create_task(task(9))
    await passes(3)
    assert lock.locked()
    assert not await cancel(t)
    assert not lock.locked()


async def test_event_wakes_all_that_wait():
    event = asyncio.Event()
    tasks = [asyncio.create_task(event.wait()) for _ in range(4)]
    await passes(2)
    assert not event.is_set() and not any(t.done() for t in tasks)
    await cancel(tasks.pop(1))
    event.set()
    event.clear()  # those that waited are woken all the same
    await passes(2)
    for t in tasks:
        assert t.done() and await t is True
    assert not event.is_set() and not event.waiting.peek()
    event.set()
    event.set()
    assert await event.wait() is True and event.is_set()


async def test_cancelled_event_waiter_leaves_the_others():
    for k in range(4):
        for set_first in (True, False):
            event = asyncio.Event()
            tasks = [asyncio.create_task(event.wait()) for _ in range(3)]
            await passes(k)
            if set_first:
                event.set()
            await cancel(tasks.pop(1))
            event.set()
            await passes(2)
            assert all(t.done() for t in tasks) and not event.waiting.peek()
            assert len(core.tasks) == 1


@needs("schedule")
async def test_event_set_from_a_scheduled_callback():
    event = asyncio.Event()
    for _ in range(3):
        t = asyncio.create_task(event.wait())
        await passes(1)
        micropython.schedule(lambda e: e.set(), event)
        await asyncio.wait_for_ms(t, 500)
        event.clear()


async def test_second_waiter_on_a_flag_is_refused():
    """Stock 1.29, frozen: the first one hangs for ever."""
    micropython.opt_level(3)  # for the module that is loaded from here on
    flag = asyncio.ThreadSafeFlag()
    first = asyncio.create_task(flag.wait())
    await passes(1)
    for _ in range(2):
        await araises(RuntimeError, asyncio.wait_for_ms(flag.wait(), 20), match="Flag")
    flag.set()
    await asyncio.wait_for_ms(first, 500)
    assert core.first_flag is None


async def test_cancelled_flag_waiter_loses_no_set():
    flags = [asyncio.ThreadSafeFlag() for _ in range(3)]
    for k in range(4):
        for i in range(3):
            for set_first in (True, False):
                tasks = [asyncio.create_task(f.wait()) for f in flags]
                await passes(k)
                if set_first:
                    flags[i].set()
                ended = await cancel(tasks.pop(i))
                if not set_first:
                    flags[i].set()
                if not (ended and set_first):
                    await asyncio.wait_for_ms(flags[i].wait(), 100)
                for f in flags:
                    f.set()
                flags[i].clear()
                for t in tasks:
                    await asyncio.wait_for_ms(t, 100)
                assert core.first_flag is None and core.last_flag is None


async def test_sleep_cancelled_at_every_step():
    for ms in (0, 1, 10000):
        for k in range(4):
            t = asyncio.create_task(passes(2) if not ms else sleep(ms))
            await passes(k)
            await cancel(t)
            assert len(core.tasks) == 1 and not core._task_queue.peek()


async def sleep(ms):
    await asyncio.sleep_ms(ms)


async def test_a_lock_that_is_handed_over_is_not_taken_by_another():
    lock = asyncio.Lock()
    await lock.acquire()
    got = []

    async def take(name):
        async with lock:
            got.append(name)
            await asyncio.sleep_ms(0)
            got.append(name)

    first = asyncio.create_task(take(1))
    await asyncio.sleep_ms(0)
    lock.release()
    await take(2)
    await first
    assert got == [1, 1, 2, 2]
