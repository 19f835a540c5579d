# with: tasks
# wait_for and wait_for_ms.

import io
import time

import asyncio_alt as asyncio
from asyncio_alt import core


class Slow(io.IOBase):
    # A stream in memory; a read takes `ms`.
    def __init__(self, ms=0):
        self.data = b""
        self.ms = ms

    def ioctl(self, req, arg):
        return 1 & arg if req == 3 and self.data else 0 if req == 3 else -1

    def read(self, n):
        time.sleep_ms(self.ms)
        r = self.data[:n]
        self.data = self.data[n:]
        return r or None


async def result(n, value):
    # Returns value after n passes.
    await passes(n)
    return value


async def block(start, busy, call=None):
    # After `start` ms calls call() and keeps the others from running for `busy` ms.
    await asyncio.sleep_ms(start)
    if call:
        call()
    time.sleep_ms(busy)


async def hog(ms):
    while True:
        time.sleep_ms(ms)
        await asyncio.sleep_ms(0)


async def bytes_at_the_deadline(rounds, start, slow, busy):
    # Feeds a byte after `start` ms of each 10. A read takes `slow` ms; another task is busy for
    # `busy` ms in each pass. Returns the bytes fed and the bytes read.
    s = Slow(slow)
    stream = asyncio.StreamReader(s)
    fed = b""
    got = b""
    other = asyncio.create_task(hog(busy) if busy else passes(0))
    for i in range(rounds):

        def feed():
            s.data += b"%d" % (i % 10)

        fed += b"%d" % (i % 10)
        feeder = asyncio.create_task(block(start, 0, feed))
        try:
            got += await asyncio.wait_for_ms(stream.readexactly(1), 10)
        except asyncio.TimeoutError:
            pass
        await feeder
    other.cancel()
    while s.data:
        got += await stream.read(100)
    assert not core.streams
    return fed, got


async def test_byte_at_the_deadline_is_not_lost():
    """Stock 1.29: 20 of 20 bytes lost."""
    fed, got = await bytes_at_the_deadline(20, 4, 10, 0)
    assert got == fed, got


async def test_byte_at_the_deadline_is_not_lost_to_a_busy_task():
    """Stock 1.29: 19 of 20 bytes lost."""
    fed, got = await bytes_at_the_deadline(20, 8, 0, 5)
    assert got == fed, got


async def test_byte_at_the_deadline_is_not_lost_with_priority():
    asyncio.roundrobin(False)
    for start, slow, busy in (4, 10, 0), (8, 0, 5), (7, 3, 3):
        fed, got = await bytes_at_the_deadline(8, start, slow, busy)
        assert got == fed, got
    asyncio.roundrobin(True)


async def test_flag_at_the_deadline_is_not_lost():
    for mode in True, False:
        if hasattr(asyncio, "roundrobin"):
            asyncio.roundrobin(mode)
        flag = asyncio.ThreadSafeFlag()
        for i in range(10):
            setter = asyncio.create_task(block(8 + i % 3, 4, flag.set))
            try:
                await asyncio.wait_for_ms(flag.wait(), 10)
            except asyncio.TimeoutError:
                await setter
                await asyncio.wait_for_ms(flag.wait(), 100)
            await setter
            assert not flag.state
        assert core.first_flag is None
    asyncio.roundrobin(True)


async def test_nothing_is_lost_when_deadline_and_completion_meet():
    lock = asyncio.Lock()
    event = asyncio.Event()
    full = asyncio.Queue(1)
    empty = asyncio.Queue()
    for mode in True, False:
        asyncio.roundrobin(mode)
        for kind in range(4):
            for when in (8, 9, 10, 11):
                aw, call = (
                    (lock.acquire(), lock.release),
                    (event.wait(), event.set),
                    (empty.get(), lambda: empty.put_nowait(7)),
                    (full.put(2), lambda: full.get_nowait()),
                )[kind]
                if kind == 0:
                    await lock.acquire()
                elif kind == 3:
                    full.put_nowait(1)
                setter = asyncio.create_task(block(when, 3, call))
                try:
                    r = await asyncio.wait_for_ms(aw, 10)
                    assert r == (True, True, 7, None)[kind]
                    done = True
                except asyncio.TimeoutError:
                    done = False
                await setter
                if kind == 0:
                    assert lock.locked() == done and not lock.waiting.peek()
                    if done:
                        lock.release()
                elif kind == 1:
                    assert not event.waiting.peek()
                    event.clear()
                elif kind == 2:
                    assert empty.qsize() == 1 - done and not empty._getters.peek()
                    if not done:
                        empty.get_nowait()
                else:
                    assert full.qsize() == done and not full._putters.peek()
                    if done:
                        full.get_nowait()
    asyncio.roundrobin(True)


async def test_result_that_was_ready_at_the_deadline_is_returned():
    """Stock 1.29: TimeoutError, the result is lost."""
    t = asyncio.create_task(block(0, 20))
    assert await asyncio.wait_for_ms(result(1, 7), 10) == 7
    await t


async def test_timeouts():
    assert await asyncio.wait_for(result(3, 7), None) == 7
    assert await asyncio.wait_for(result(3, 7), 0.5) == 7
    assert await asyncio.wait_for_ms(result(3, 7), 500) == 7
    assert await asyncio.wait_for_ms(result(3, 7), None) == 7
    for timeout in (0, -1, 0.01, -0.5):
        await araises(asyncio.TimeoutError, asyncio.wait_for(asyncio.Event().wait(), timeout))
    start = time.ticks_ms()
    while time.ticks_diff(time.ticks_ms(), start) < 100:  # whenever the clock ticks
        assert await asyncio.wait_for(result(0, 7), 0.0001) == 7


async def test_bad_arguments_are_refused_before_anything_runs():
    """Stock 1.29: the coroutine runs on."""
    ran = []

    async def inner():
        ran.append(1)

    for timeout in ("x", b"1", (), inner):
        await araises(TypeError, asyncio.wait_for(inner(), timeout), match="delay")
    await araises(TypeError, asyncio.wait_for(7, 1), match="coroutine")
    await passes(3)
    assert not ran


async def test_exceptions_come_through():
    async def fail():
        await passes(1)
        raise ValueError(7)

    for timeout in (None, 1):
        assert (await araises(ValueError, asyncio.wait_for(fail(), timeout))).value == 7


async def test_exception_during_the_cancellation_is_raised():
    """Stock 1.29: swallowed, TimeoutError."""

    async def inner():
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await passes(2)
            raise ValueError(7)

    await araises(ValueError, asyncio.wait_for_ms(inner(), 5))


async def test_timeout_comes_when_the_cancelled_one_has_ended():
    ended = []

    async def inner(swallow):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await passes(3)
            ended.append(1)
            if not swallow:
                raise

    for swallow in (True, False):
        await araises(asyncio.TimeoutError, asyncio.wait_for_ms(inner(swallow), 5))
        assert ended.pop() == 1


async def test_cancelled_at_every_step():
    for n in range(5):
        for k in range(9):
            aw = asyncio.create_task(result(n, 7))
            outer = asyncio.create_task(asyncio.wait_for(aw, 1))
            await passes(k)
            had_ended = outer.done()
            outer.cancel()
            try:
                assert await outer == 7
                assert had_ended
            except asyncio.CancelledError:
                assert not had_ended
            # The inner task has its result, or was cancelled with the outer one.
            try:
                assert await aw == 7
                assert k == 0 or k >= n - 1  # it had one pass to go at most
            except asyncio.CancelledError:
                assert not had_ended
            await passes(3)
            assert len(core.tasks) == 1 and not core._task_queue.peek(), (n, k)


async def test_cancelled_after_the_deadline():
    """Stock 1.29: the cancellation is lost, TimeoutError."""
    # The inner task is busy with its own cancellation: the outer one does not wait for that.
    log = []

    async def inner():
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep_ms(30)
            log.append("inner")

    for give in range(4):
        outer = asyncio.create_task(asyncio.wait_for_ms(inner(), 5))
        await asyncio.sleep_ms(10)
        await passes(give)
        outer.cancel()
        await araises(asyncio.CancelledError, outer)
        await asyncio.sleep_ms(50)
        assert len(core.tasks) == 1 and not core._task_queue.peek()


async def test_cancelled_one_is_not_woken_by_what_it_waited_for():
    async def inner():
        try:
            await passes(2)
        except asyncio.CancelledError:
            await asyncio.sleep_ms(5)

    async def outer():
        try:
            await asyncio.wait_for(inner(), 1)
        except asyncio.CancelledError:
            begin = time.ticks_ms()
            await asyncio.sleep_ms(30)
            return time.ticks_diff(time.ticks_ms(), begin) >= 29

    for k in range(1, 7):
        t = asyncio.create_task(outer())
        await passes(k)
        t.cancel()
        assert await t is not False, k
        assert len(core.tasks) == 1 and not core._task_queue.peek()


async def test_task_that_others_await_too():
    for n in range(4):
        t = asyncio.create_task(result(n, 7))
        tasks = [
            asyncio.create_task(aw)
            for aw in (
                asyncio.wait_for(t, 1),
                forward(t),
                asyncio.wait_for(t, 1),
                asyncio.wait_for(t, None),
                forward(t),
            )
        ]
        for w in tasks:
            assert await w == 7
        assert await asyncio.wait_for(t, 1) == 7


async def forward(t):
    return await t


async def test_task_that_others_await_is_cancelled_at_the_deadline():
    t = asyncio.create_task(result(10000, 7))
    others = [asyncio.create_task(asyncio.wait_for(t, 5)), asyncio.create_task(forward(t))]
    await passes(1)
    await araises(asyncio.TimeoutError, asyncio.wait_for_ms(t, 5))
    for w in others:
        await araises(asyncio.CancelledError, w)


async def test_nested():
    """Stock 1.29: hangs."""
    event = asyncio.Event()
    log = []

    async def inner(ms):
        try:
            await asyncio.wait_for_ms(event.wait(), ms)
        except asyncio.TimeoutError:
            log.append("inner")
            await event.wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    for ms, busy, want in (20, 0, "inner"), (200, 0, "cancelled"), (90, 0, None), (20, 110, None):
        log.clear()
        t = asyncio.create_task(block(10, busy))
        await araises(asyncio.TimeoutError, asyncio.wait_for_ms(inner(ms), 100))
        await t
        if want:
            assert log == [want]
        assert not event.waiting.peek() and len(core.tasks) == 1


async def test_end_and_deadline_in_the_same_pass():
    """Stock 1.29: TimeoutError, the result is lost."""

    # Either the result or the timeout, and in that case the task was cancelled.
    async def inner(ms):
        try:
            await asyncio.sleep_ms(ms)
            return 7
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    for ms in range(7, 14):
        cancelled = []
        t = asyncio.create_task(block(5, 15))
        try:
            assert await asyncio.wait_for_ms(inner(ms), 10) == 7
            assert not cancelled
        except asyncio.TimeoutError:
            assert cancelled
        await t


async def test_value_of_one_that_caught_the_cancellation_is_returned():
    """Stock 1.29: TimeoutError, the bytes read so far are lost."""

    async def collect(n):
        got = []
        try:
            while True:
                await asyncio.sleep_ms(2)
                got.append(1)
        except asyncio.CancelledError:
            await passes(n)
            return got

    for n in (0, 2):
        assert await asyncio.wait_for_ms(collect(n), 20)
        assert await asyncio.wait_for_ms(asyncio.create_task(collect(n)), 20)
        assert await asyncio.wait_for_ms(asyncio.wait_for_ms(collect(n), 20), 1000)
    assert len(core.tasks) == 1 and not core._task_queue.peek()


async def test_without_time_a_coroutine_does_not_start():
    """Stock 1.29: it runs until it waits."""
    ran = []

    async def inner():
        ran.append(1)

    async def caught():
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await passes(2)
            return 7

    for wait_for, timeout in (asyncio.wait_for, -0.5), (asyncio.wait_for_ms, 0):
        await araises(asyncio.TimeoutError, wait_for(inner(), timeout))
        assert not ran
        # A Task that has ended gives its result, one that runs is cancelled.
        t = asyncio.create_task(result(0, 7))
        await passes(2)
        assert await wait_for(t, timeout) == 7
        await araises(asyncio.TimeoutError, wait_for(asyncio.create_task(inner()), timeout))
        t = asyncio.create_task(caught())
        await passes(2)
        assert await wait_for(t, timeout) == 7
    assert len(core.tasks) == 1 and not core._task_queue.peek()


async def test_what_is_ready_takes_two_rounds_of_the_ready_tasks():
    async def fail():
        raise ValueError

    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep_ms(0)

    other = asyncio.create_task(count())
    await passes(2)
    for make in (lambda: result(0, 7), lambda: asyncio.create_task(result(0, 7))):
        before = turns
        assert await asyncio.wait_for(make(), 10) == 7
        assert turns - before <= 2
    before = turns
    await araises(ValueError, asyncio.wait_for(fail(), 10))
    assert turns - before <= 2
    other.cancel()


# Elsewhere some are cancelled twice: a task that is ready to run when both it and the one that
# waits for it are cancelled.
@needs("pc", "c-tasks")
def test_at_the_end_of_run_a_finally_may_await():
    log = []

    async def inner(i):
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep_ms(2)
            log.append(i)

    async def gathered(i):
        await asyncio.gather(inner(i), inner(i))

    async def main():
        for i in range(10):
            asyncio.create_task(asyncio.wait_for(inner(i), 20))
            asyncio.create_task(gathered(i))
        await asyncio.sleep_ms(10)

    asyncio.run(main())
    assert len(log) == 30, log
