# with: tasks
# gather.

import asyncio_alt as asyncio
from asyncio_alt import core


async def result(n, value):
    # After n passes returns value, or raises it.
    await passes(n)
    if isinstance(value, Exception):
        raise value
    return value


async def forward(t):
    return await t


def nothing_left():
    return len(core.tasks) == 1 and not core._task_queue.peek()


async def test_results_are_in_the_order_of_the_arguments():
    assert await asyncio.gather() == []
    assert await asyncio.gather(result(0, 1)) == [1]
    assert await asyncio.gather(result(3, 1), result(1, 2), result(2, None)) == [1, 2, None]


async def test_exception_is_raised_at_once_and_the_others_go_on():
    t = asyncio.create_task(result(5, 7))
    e = ValueError(1)
    assert await araises(ValueError, asyncio.gather(t, result(1, e), result(3, KeyError()))) is e
    assert not t.done()
    assert await t == 7
    assert nothing_left()


async def test_exceptions_stand_in_the_list():
    e = ValueError(1)
    t = asyncio.create_task(result(5, 7))
    g = asyncio.create_task(asyncio.gather(result(1, e), t, result(2, 5), return_exceptions=True))
    await passes(2)
    t.cancel()
    r = await g
    assert r[0] is e and isinstance(r[1], asyncio.CancelledError) and r[2] == 5


async def test_cancelled_child_is_raised():
    t = asyncio.create_task(result(5, 7))
    g = asyncio.create_task(asyncio.gather(t, result(1, 2)))
    await passes(2)
    t.cancel()
    await araises(asyncio.CancelledError, g)


async def test_finished_tasks():
    done = asyncio.create_task(result(0, 7))
    failed = asyncio.create_task(result(0, ValueError(1)))
    try:
        await failed
    except ValueError:
        pass
    assert await asyncio.gather(done) == [7]
    assert await asyncio.gather(done, result(2, 8)) == [7, 8]
    await araises(ValueError, asyncio.gather(failed, done))
    r = await asyncio.gather(failed, result(1, 9), return_exceptions=True)
    assert isinstance(r[0], ValueError) and r[1] == 9


async def test_cancelled_at_every_step():
    for n in range(4):
        for k in range(8):
            tasks = [asyncio.create_task(result(n + i, i)) for i in range(2)]
            g = asyncio.create_task(asyncio.gather(*tasks))
            await passes(k)
            had_ended = g.done()
            g.cancel()
            try:
                assert await g == [0, 1] and had_ended
            except asyncio.CancelledError:
                assert not had_ended
            await passes(2)
            if k:
                # Each has ended by itself or was cancelled with it.
                assert all(t.done() for t in tasks)
            for t in tasks:
                try:
                    await t
                except asyncio.CancelledError:
                    assert not had_ended
            assert nothing_left(), (n, k)


async def test_awaited_task_is_refused_and_the_others_unharmed():
    """Stock 1.29: the others cannot be awaited any more."""
    t = asyncio.create_task(result(4, 7))
    other = asyncio.create_task(result(3, 8))
    waiter = asyncio.create_task(forward(t))
    await passes(1)
    await araises(RuntimeError, asyncio.gather(other, t), match="can't gather")
    assert await other == 8 and await waiter == 7
    # A task that is gathered cannot be awaited by another.
    t = asyncio.create_task(result(4, 7))
    g = asyncio.create_task(asyncio.gather(t, result(1, 1)))
    await passes(1)
    await araises(RuntimeError, forward(t), match="can't wait")
    await araises(RuntimeError, asyncio.gather(t), match="can't gather")
    assert await g == [7, 1]


async def test_nested_and_with_a_deadline():
    assert await asyncio.gather(asyncio.gather(result(1, 1)), result(0, 2)) == [[1], 2]
    event = asyncio.Event()
    await araises(
        asyncio.TimeoutError, asyncio.wait_for_ms(asyncio.gather(event.wait(), event.wait()), 5)
    )
    await passes(2)
    assert not event.waiting.peek() and nothing_left()


async def test_cancelled_one_waits_for_its_children():
    """Stock 1.29: it is raised before they have handled their cancellation."""
    log = []

    async def child(n, swallow):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await passes(n)
            log.append(n)
            if not swallow:
                raise

    for swallow, exceptions, ended in (
        (False, True, [2, 5]),
        (True, False, [2, 5]),
        (True, True, [2, 5]),
        (False, False, [2]),  # it ends with the first that fails
    ):
        log.clear()
        g = asyncio.create_task(
            asyncio.gather(child(5, swallow), child(2, swallow), return_exceptions=exceptions)
        )
        await passes(2)
        g.cancel()
        await araises(asyncio.CancelledError, g)
        assert log == ended, (log, swallow, exceptions)
        await passes(5)
    assert nothing_left()


async def test_the_same_one_twice_runs_once():
    """Stock 1.29: RuntimeError."""
    ran = []

    async def child():
        ran.append(1)
        await passes(1)
        return 7

    coro = child()
    t = asyncio.create_task(child())
    assert await asyncio.gather(coro, t, coro, t) == [7, 7, 7, 7]
    assert len(ran) == 2
    assert await asyncio.gather(t, t) == [7, 7]


async def test_task_that_is_gathered_or_timed_cancels_the_one_that_waits_for_it():
    """A plain await of the caller does nothing: the C type has no place for it."""
    log = []

    async def outer(make):
        try:
            await make(asyncio.create_task(inner(asyncio.current_task())))
        except asyncio.CancelledError:
            log.append("outer")
            raise

    async def inner(task):
        try:
            await passes(1)
            assert task.cancel() is True
            await asyncio.sleep_ms(20)
            log.append("goes on")
        except asyncio.CancelledError:
            log.append("inner")
            raise

    for make, want in (
        (asyncio.gather, ["inner", "outer"]),
        (lambda t: asyncio.wait_for(t, 10), ["outer", "inner"]),
        (forward, ["goes on"]),
    ):
        log.clear()
        t = asyncio.create_task(outer(make))
        await asyncio.sleep_ms(60)
        assert t.done() and log == want, log
    assert nothing_left()
