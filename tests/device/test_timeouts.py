# timeout(), timeout_ms(), timeout_at().

import asyncio_alt as asyncio
from asyncio_alt import core
from asyncio_alt.timer import Time, time


def ago(ms):
    return Time(core.ticks_add(core.ticks(), -ms))


async def test_a_body_that_is_late_is_cancelled_and_raises_timeout_error():
    seen = []
    for make, arg in ((asyncio.timeout, 0.005), (asyncio.timeout_ms, 5), (asyncio.timeout_at, 0)):
        limit = make(arg or time() + 0.005)
        try:
            async with limit as same:
                assert same is limit and not limit.expired()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    seen.append(limit.expired())
                    raise
        except asyncio.TimeoutError:
            seen.append(limit.expired())
    assert seen == [True] * 6, seen
    await asyncio.sleep_ms(1)  # nobody is cancelled any more


async def test_a_body_in_time_is_left_alone():
    for limit in (asyncio.timeout(0.01), asyncio.timeout(None), asyncio.timeout_at(None)):
        async with limit:
            await asyncio.sleep_ms(0)
        assert not limit.expired()
    await asyncio.sleep_ms(20)
    assert core._task_queue.peek() is None


async def test_what_the_body_raises_goes_on():
    for exc in (ValueError, asyncio.CancelledError, asyncio.TimeoutError):
        limit = asyncio.timeout(10)
        try:
            async with limit:
                raise exc
        except exc:
            pass
        assert not limit.expired()


async def test_a_deadline_that_has_passed_expires_at_the_first_await():
    for limit in (
        asyncio.timeout(0),
        asyncio.timeout(-1),
        asyncio.timeout_ms(-5),
        asyncio.timeout_at(ago(1000)),
    ):
        n = 0
        try:
            async with limit:
                n = 1
                await asyncio.sleep_ms(0)
                n = 2
        except asyncio.TimeoutError:
            n += 10
        assert n == 11, n
    async with asyncio.timeout(0):
        pass  # no await


async def test_the_outer_of_two_that_expire_together_raises():
    inner = outer = None
    order = []
    try:
        async with asyncio.timeout_ms(3) as outer:
            try:
                async with asyncio.timeout_ms(3) as inner:
                    now = core.ticks()
                    while core.ticks_diff(core.ticks(), now) < 6:
                        pass
                    await asyncio.sleep_ms(1000)
            except BaseException as er:
                order.append(type(er))
                raise
    except asyncio.TimeoutError:
        order.append(asyncio.TimeoutError)
    assert inner.expired() and outer.expired()
    assert issubclass(order[0], asyncio.CancelledError), order
    assert order[1:] == [asyncio.TimeoutError], order


async def test_the_inner_alone_may_expire():
    async with asyncio.timeout(10) as outer:
        try:
            async with asyncio.timeout_ms(2):
                await asyncio.sleep(10)
        except asyncio.TimeoutError:
            await asyncio.sleep_ms(1)
    assert not outer.expired()


async def test_a_cancellation_by_others_wins():
    # Before the deadline, in the same tick before and after it.
    for when in (-1, 0, 1):
        limit = asyncio.timeout_ms(5)

        async def task():
            async with limit:
                await asyncio.sleep(10)

        t = asyncio.create_task(task())
        await asyncio.sleep_ms(0)
        if when < 0:
            t.cancel()
        elif when == 0:
            t.cancel()
            limit._ring()
        else:
            limit._stop()
            limit._ring()
            t.cancel()
        await araises(asyncio.CancelledError, t)
        assert limit.expired() == (when >= 0)


async def test_a_deadline_reaches_through_awaited_tasks():
    async def slow():
        await asyncio.sleep(10)

    async def limited():
        async with asyncio.timeout_ms(2):
            await asyncio.create_task(slow())

    await araises(asyncio.TimeoutError, limited())

    # The awaited task has a deadline too, which expires with the outer one.
    async def both():
        async with asyncio.timeout_ms(2):
            await asyncio.create_task(limited())

    await araises(asyncio.TimeoutError, both())


async def test_a_body_may_outlive_its_cancellation():
    async with asyncio.timeout_ms(1) as limit:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass
        await asyncio.sleep_ms(1)
    assert limit.expired()


async def test_reschedule_moves_the_deadline():
    async with asyncio.timeout_ms(1) as limit:
        limit.reschedule(time() + 10)
        await asyncio.sleep_ms(5)
        limit.reschedule(None)
        assert limit.when() is None
        await asyncio.sleep_ms(5)
    try:
        async with asyncio.timeout(None) as limit:
            limit.reschedule(ago(1))
            await asyncio.sleep_ms(1000)
    except asyncio.TimeoutError:
        raises(RuntimeError, limit.reschedule, None)
    else:
        raise AssertionError("no TimeoutError")


async def test_when_is_the_deadline():
    limit = asyncio.timeout(1)
    left = limit.when() - time()
    assert 0.5 < left <= 1, left
    when = time() + 3
    assert asyncio.timeout_at(when).when() == when


async def test_a_timeout_serves_once():
    limit = asyncio.timeout(1)
    raises(RuntimeError, limit.reschedule, None)  # not entered yet
    async with limit:
        await araises(RuntimeError, limit.__aenter__(), match="twice")
    await araises(RuntimeError, limit.__aenter__(), match="twice")
    raises(RuntimeError, limit.reschedule, None)


def test_other_values_are_refused():
    for wrong in ("1", [], asyncio):
        raises(TypeError, asyncio.timeout, wrong, match="timeout: delay")
        raises(TypeError, asyncio.timeout_ms, wrong, match="timeout_ms: delay")
        raises(TypeError, asyncio.timeout_at, wrong, match="timeout_at: when")
    raises(TypeError, asyncio.timeout_at, 5.0, match="Loop.time()")
    for wrong in (float("nan"), float("inf"), 1e12):
        raises(ValueError, asyncio.timeout, wrong, match="timeout: delay")
    raises(ValueError, asyncio.timeout_ms, 1 << 29, match="timeout_ms: delay")


def test_times_are_right_across_the_wrap():
    from time import ticks_add

    before = Time(ticks_add(0, -500))  # half a second before the clock begins anew
    after = before + 1
    assert after.ticks == 500 and after - before == 1 and before - after == -1
    assert after - 1 == before and 1 + before == after
    assert before < after and before <= after and after > before and after >= before
    assert before != after and not before == 5 and before == Time(before.ticks)
    assert hash(before) == hash(Time(before.ticks))
