# with: tasks
# Semaphore, BoundedSemaphore, Condition, Barrier.

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


async def cancelled(task):
    # Cancels the task; returns whether it ended by that.
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True


async def test_semaphore_lets_so_many_in_and_keeps_the_order():
    sem = asyncio.Semaphore(2)
    order = []
    inside = most = 0

    async def task(i):
        nonlocal inside, most
        async with sem:
            order.append(i)
            inside += 1
            most = max(most, inside)
            await passes(2)
            inside -= 1

    await asyncio.gather(*[task(i) for i in range(7)])
    assert order == list(range(7)), order
    assert most == 2 and not sem.locked()


async def test_a_semaphore_of_zero_waits_for_release():
    sem = asyncio.Semaphore(0)
    assert sem.locked()
    task = asyncio.create_task(sem.acquire())
    await passes(3)
    assert not task.done()
    sem.release()
    assert await task is True
    assert sem.locked()


async def test_one_that_comes_later_waits_until_those_woken_have_run():
    sem = asyncio.Semaphore(0)
    order = []

    async def task(i):
        await sem.acquire()
        order.append(i)

    first = asyncio.create_task(task(1))
    await passes(1)
    sem.release()
    sem.release()
    assert sem.locked()  # the first was woken, and has not run
    await asyncio.gather(task(2), first)
    assert order == [1, 2], order
    assert sem.locked()


async def test_a_cancelled_acquire_passes_its_room_on():
    for woken in (False, True):
        for k in range(4):
            sem = asyncio.Semaphore(1)
            await sem.acquire()
            tasks = [asyncio.create_task(sem.acquire()) for _ in range(4)]
            await passes(1)
            if woken:
                sem.release()
            assert await cancelled(tasks.pop(k if not woken else 0))
            if not woken:
                sem.release()
            for task in tasks:
                assert await asyncio.wait_for(task, 1) is True
                sem.release()
            assert not sem.locked()


async def test_a_scheduled_callback_may_release_it():
    sem = asyncio.Semaphore(0)
    for _ in range(3):
        micropython.schedule(lambda _: sem.release(), 0)
        assert await asyncio.wait_for(sem.acquire(), 1) is True


async def test_a_free_semaphore_allocates_nothing_in_a_with():
    sem = asyncio.Semaphore(1)

    async def use(n):
        for _ in range(n):
            async with sem:
                pass

    await use(2)
    coro = use(5)
    micropython.heap_lock()
    try:
        coro.send(None)
    except StopIteration:
        pass
    finally:
        micropython.heap_unlock()
    assert not sem.locked()


async def test_the_body_of_a_with_may_raise():
    sem = asyncio.Semaphore(1)
    for _ in range(2):
        try:
            async with sem:
                raise KeyError
        except KeyError:
            pass
    assert not sem.locked()


async def test_a_bounded_semaphore_refuses_a_release_too_many():
    sem = asyncio.BoundedSemaphore(2)
    raises(ValueError, sem.release, match="too often")
    async with sem:
        await sem.acquire()
        sem.release()
    raises(ValueError, sem.release)


def test_values_that_make_no_sense_are_refused():
    for cls, name in ((asyncio.Semaphore, "value"), (asyncio.BoundedSemaphore, "value")):
        raises(TypeError, cls, "1", match=name)
        raises(TypeError, cls, 1.0, match=name)
        raises(ValueError, cls, -1, match=name)
    raises(TypeError, asyncio.Barrier, None, match="parties")
    raises(ValueError, asyncio.Barrier, 0, match="parties")


async def test_notify_wakes_so_many_in_order():
    cond = asyncio.Condition()
    order = []

    async def task(i):
        async with cond:
            assert await cond.wait() is True
            assert cond.locked()
            order.append(i)

    tasks = [asyncio.create_task(task(i)) for i in range(5)]
    await passes(3)
    async with cond:
        cond.notify(2)
    await passes(4)
    assert order == [0, 1], order
    async with cond:
        cond.notify_all()
    await asyncio.gather(*tasks)
    assert order == list(range(5)), order
    assert not cond.locked()


async def test_conditions_share_a_lock():
    lock = asyncio.Lock()
    full = asyncio.Condition(lock)
    empty = asyncio.Condition(lock)
    items = []

    async def put(n):
        for i in range(n):
            async with empty:
                await empty.wait_for(lambda: not items)
                items.append(i)
                full.notify()

    async def get(n):
        taken = []
        for _ in range(n):
            async with full:
                await full.wait_for(lambda: items)
                taken.append(items.pop())
                empty.notify()
        return taken

    _, taken = await asyncio.gather(put(5), get(5))
    assert taken == list(range(5)), taken


async def test_wait_for_returns_what_the_predicate_said():
    cond = asyncio.Condition()
    n = 0

    async def task():
        async with cond:
            return await cond.wait_for(lambda: n > 2 and "n=%d" % n)

    t = asyncio.create_task(task())
    while n < 3:
        await passes(2)
        async with cond:
            n += 1
            cond.notify()
    assert await t == "n=3"


async def test_without_the_lock_a_condition_refuses():
    cond = asyncio.Condition()
    await araises(RuntimeError, cond.wait(), match="without the lock")
    raises(RuntimeError, cond.notify, match="without the lock")
    raises(RuntimeError, cond.notify_all)


async def test_a_cancelled_wait_has_the_lock_again():
    cond = asyncio.Condition()
    had = []

    async def task():
        async with cond:
            try:
                await cond.wait()
            finally:
                had.append(cond.locked())

    for passed in (0, 1):
        t = asyncio.create_task(task())
        await passes(1)
        await cond.acquire()
        t.cancel()
        await passes(2)
        assert not t.done()  # it cannot have the lock yet
        if passed:
            t.cancel()
            await passes(1)
        cond.release()
        await araises(asyncio.CancelledError, t)
        assert had.pop() and not cond.locked()


async def test_a_cancelled_wait_passes_its_notification_on():
    cond = asyncio.Condition()

    async def task():
        async with cond:
            return await cond.wait()

    tasks = [asyncio.create_task(task()) for _ in range(2)]
    await passes(2)
    async with cond:
        cond.notify()
        tasks[0].cancel()
    await araises(asyncio.CancelledError, tasks[0])
    assert await asyncio.wait_for(tasks[1], 1) is True


async def test_a_barrier_lets_all_go_at_once_and_fills_again():
    barrier = asyncio.Barrier(3)
    assert (barrier.parties, barrier.n_waiting, barrier.broken) == (3, 0, False)
    for _ in range(2):
        tasks = [asyncio.create_task(barrier.wait()) for _ in range(2)]
        await passes(3)
        assert barrier.n_waiting == 2 and not tasks[0].done()
        numbers = [await barrier.wait()]
        numbers += await asyncio.gather(*tasks)
        assert sorted(numbers) == [0, 1, 2], numbers
        assert barrier.n_waiting == 0


async def test_tasks_beyond_the_parties_wait_for_the_next_time():
    barrier = asyncio.Barrier(2)
    going = []

    async def task(i):
        async with barrier:
            going.append(i)

    tasks = [asyncio.create_task(task(i)) for i in range(5)]
    await passes(20)
    assert len(going) == 4 and barrier.n_waiting == 1, going
    tasks.append(asyncio.create_task(task(5)))
    await asyncio.gather(*tasks)


async def test_reset_and_abort_raise_in_those_held_back():
    barrier = asyncio.Barrier(3)
    for end in (barrier.reset, barrier.abort):
        tasks = [asyncio.create_task(barrier.wait()) for _ in range(2)]
        await passes(3)
        await end()
        for t in tasks:
            await araises(asyncio.BrokenBarrierError, t)
    assert barrier.broken
    await araises(asyncio.BrokenBarrierError, barrier.wait())
    await barrier.reset()
    assert not barrier.broken
    await asyncio.gather(*[barrier.wait() for _ in range(3)])


async def test_a_cancelled_wait_leaves_the_barrier():
    barrier = asyncio.Barrier(2)
    t = asyncio.create_task(barrier.wait())
    await passes(2)
    assert barrier.n_waiting == 1 and await cancelled(t)
    await passes(2)
    assert barrier.n_waiting == 0
    await asyncio.gather(barrier.wait(), barrier.wait())


async def test_no_task_is_kept_after_it_went_on():
    sem = asyncio.Semaphore(0)
    cond = asyncio.Condition()
    t = asyncio.create_task(sem.acquire())
    await passes(1)
    sem.release()
    await t
    assert sem._woken == [] and not sem._queue.peek() and not cond._woken
    assert len(core.tasks) <= 1
