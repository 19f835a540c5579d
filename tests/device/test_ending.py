# How run() ends: beside tasks that do not want to, by Ctrl-C, and with a full heap.

import gc

import asyncio_alt as asyncio
from asyncio_alt import core, create_task, sleep_ms


class Reports:
    """A context that collects the exception handler's contexts."""

    def __enter__(self):
        self.told = []
        asyncio.Loop.set_exception_handler(lambda loop, context: self.told.append(context))
        self.limit = asyncio.end_limit()
        return self

    def __exit__(self, exc_type, exc, tb):
        asyncio.Loop.set_exception_handler(None)
        asyncio.end_limit(self.limit)

    def dropped(self):
        return [c["future"] for c in self.told if c["message"] == "Task dropped"]


async def swallows(wait):
    # Swallows every cancellation, as a bare `except` in a loop does.
    while True:
        try:
            await wait()
        except:  # noqa: E722
            pass


def forever():
    return asyncio.Event().wait()


def spins():
    return sleep_ms(0)


async def main_beside(*coros):
    tasks = [create_task(coro) for coro in coros]
    await sleep_ms(1)
    return tasks


def test_run_ends_beside_tasks_that_swallow_every_cancellation():
    for wait in (forever, spins, lambda: sleep_ms(1), lambda: sleep_ms(1000)):
        with Reports() as reports:
            asyncio.end_limit(20)
            tasks = asyncio.run(main_beside(swallows(wait), swallows(wait)))
            dropped = reports.dropped()
            assert len(dropped) == 2 and set(dropped) == set(tasks), reports.told
            # It never runs again, and the next run() does not wait for it.
            assert asyncio.run(ok()) == "ok"
            assert len(reports.dropped()) == 2


async def ok():
    await sleep_ms(2)
    return "ok"


def test_those_that_end_are_waited_for_in_order():
    order = []

    async def ends(n):
        try:
            await forever()
        finally:
            await sleep_ms(n)
            order.append(n)

    with Reports() as reports:
        asyncio.run(main_beside(ends(1), ends(9), ends(4)))
        assert order == [1, 4, 9] and not reports.told


def test_one_that_swallows_a_cancellation_gets_another():
    order = []

    async def second():
        for n in range(2):
            try:
                await forever()
            except asyncio.CancelledError:
                order.append(n)

    with Reports() as reports:
        asyncio.end_limit(40)
        asyncio.run(main_beside(second()))
        assert order == [0, 1] and not reports.dropped()


def test_a_finally_that_waits_for_too_long_is_dropped():
    order = []

    async def long():
        for _ in range(4):
            try:
                await sleep_ms(100000)
            except asyncio.CancelledError:
                pass
        order.append("never")

    with Reports() as reports:
        asyncio.end_limit(12)
        (task,) = asyncio.run(main_beside(long()))
        assert reports.dropped() == [task]
    asyncio.run(ok())
    assert order == []


def test_what_a_dropped_task_waits_in_serves_others():
    lock = asyncio.Lock()
    event = asyncio.Event()
    queue = asyncio.Queue()
    flag = asyncio.ThreadSafeFlag()
    sem = asyncio.Semaphore(0)

    async def takes(n):
        await lock.acquire()
        await swallows(lock.acquire)

    async def use():
        lock.release()  # the dropped one has had it
        async with lock:
            event.set()
            await event.wait()
        queue.put_nowait(1)
        assert await queue.get() == 1
        flag.set()
        await flag.wait()
        sem.release()
        await sem.acquire()
        return "ok"

    with Reports() as reports:
        asyncio.end_limit(4)
        waits = (event.wait, queue.get, flag.wait, sem.acquire)
        asyncio.run(main_beside(takes(1), *[swallows(wait) for wait in waits]))
        assert len(reports.dropped()) == 5
        assert asyncio.run(asyncio.wait_for(use(), 1)) == "ok"


def test_an_exception_of_main_ends_run_too():
    for exc in (KeyError, SystemExit, KeyboardInterrupt):

        async def main():
            create_task(swallows(spins))
            await sleep_ms(1)
            raise exc

        with Reports() as reports:
            asyncio.end_limit(4)
            raises(exc, asyncio.run, main())
            assert len(reports.dropped()) == 1


def test_a_second_ctrl_c_ends_at_once():
    class Again:
        # During this coroutine's turn the user presses Ctrl-C once more.
        def send(self, _):
            core.push(core.cur_task, core.ticks_add(core.ticks(), 1))

        def throw(self, exc):
            raise KeyboardInterrupt

    async def main():
        create_task(swallows(spins))
        create_task(Again())
        await sleep_ms(2)
        raise KeyboardInterrupt

    with Reports() as reports:
        asyncio.end_limit(1000000)  # far more than the time that a test has
        raises(KeyboardInterrupt, asyncio.run, main())
        assert len(reports.dropped()) == 1
    assert asyncio.run(ok()) == "ok"


def test_the_limit_is_checked():
    assert asyncio.end_limit() == 2000
    raises(TypeError, asyncio.end_limit, 1.5, match="ms")
    raises(TypeError, asyncio.end_limit, "1", match="ms")
    for wrong in (-1, (1 << 20) + 1):
        raises(ValueError, asyncio.end_limit, wrong, match="ms")


def test_a_limit_of_zero_drops_what_does_not_end_at_once():
    with Reports() as reports:
        asyncio.end_limit(0)
        asyncio.run(main_beside(swallows(forever), forever()))
        assert len(reports.dropped()) == 1


def test_what_waits_for_later_does_not_keep_run():
    # A far deadline in the queue belongs to nobody.
    async def main():
        await asyncio.timeout(100).__aenter__()

    for _ in range(3):
        asyncio.run(main())
    assert asyncio.run(ok()) == "ok"


# new_event_loop() inside a task


def test_a_new_loop_inside_a_task_ends_the_program_with_that_task():
    # As a REPL's Ctrl-D does, to give the prompt back.
    order = []

    async def repl():
        await sleep_ms(1)
        asyncio.new_event_loop()
        order.append("repl")
        return "left"

    async def main():
        try:
            await asyncio.gather(other(), repl())
        finally:
            order.append("main")

    async def other():
        while True:
            await sleep_ms(0)

    asyncio.run(main())
    assert order == ["repl", "main"], order
    assert asyncio.run(ok()) == "ok"


# A full heap


def test_the_handler_gets_the_exception_itself_when_the_heap_is_full():
    room = [None, None]

    def handler(loop, context):
        room[0] = context["exception"]
        room[1] = context["message"]

    original = ValueError("the fault")

    async def fails():
        raise original

    class Full:
        # Fills the heap at its turn, right before the report is made.
        def __init__(self):
            self.ballast = []

        def fill(self):
            self.ballast = last = [None, None]
            size = 4096
            while size >= 16:
                try:
                    block = bytearray(size)
                except MemoryError:
                    size //= 2
                    continue
                try:
                    new = [block, None]
                except MemoryError:
                    break
                last[1] = new
                last = new

    full = Full()

    async def main():
        create_task(fails())
        await sleep_ms(0)
        full.fill()
        try:
            await sleep_ms(0)
            await sleep_ms(0)
        finally:
            full.ballast = None
        gc.collect()

    asyncio.Loop.set_exception_handler(handler)
    try:
        asyncio.run(main())
    except MemoryError:
        pass
    finally:
        full.ballast = None
        asyncio.Loop.set_exception_handler(None)
    assert room[0] is original, room
