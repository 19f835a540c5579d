# run() and the Loop: how tasks start, end and are reported.

import io
import time

import asyncio_alt as asyncio
from asyncio_alt import Event, core, create_task, sleep_ms


class Quiet(io.IOBase):
    # A stream that is never ready.
    def ioctl(self, req, arg):
        return 0 if req == 3 else -1


async def fail(exc):
    raise exc


async def background(out):
    try:
        while True:
            out.append("runs")
            await sleep_ms(1)
    finally:
        out.append("finally")


def test_tasks_end_with_their_run():
    """Stock: the task goes on in the next run(), which sees it run."""
    out = []

    async def main():
        create_task(background(out))
        await sleep_ms(20)
        return "result"

    assert asyncio.run(main()) == "result"
    assert out[0] == "runs" and out[-1] == "finally"
    out.clear()
    asyncio.run(sleep5())
    assert not out


async def sleep5():
    await sleep_ms(20)


def test_tasks_end_when_main_raises():
    """Stock: no finally block runs, and the task goes on in the next run()."""
    for exc in (ValueError("main"), KeyboardInterrupt()):
        out = []

        async def main():
            create_task(background(out))
            await sleep_ms(2)
            raise exc

        raises(type(exc), asyncio.run, main())
        assert out[-1] == "finally"
        out.clear()
        asyncio.run(sleep5())
        assert not out


def test_tasks_end_when_another_task_is_interrupted():
    # As by Ctrl-C: the exception comes out of run(), main and the others are cancelled.
    out = []

    async def main():
        create_task(background(out))
        create_task(fail(KeyboardInterrupt()))
        try:
            await sleep_ms(1000)
        finally:
            out.append("main")

    raises(KeyboardInterrupt, asyncio.run, main())
    assert sorted(out[-2:]) == ["finally", "main"]
    asyncio.run(sleep5())


def test_main_ends_when_the_task_that_it_awaits_is_interrupted():
    out = []

    async def main():
        create_task(background(out))
        t = create_task(fail(KeyboardInterrupt()))
        try:
            await t
        finally:
            out.append("main")

    raises(KeyboardInterrupt, asyncio.run, main())
    assert sorted(out) == ["finally", "main", "runs"], out


def test_tasks_end_when_the_poll_is_interrupted():
    out = []

    class Interrupted(Quiet):
        n = 0

        def ioctl(self, req, arg):
            self.n += req == 3
            if self.n == 3:
                raise KeyboardInterrupt
            return super().ioctl(req, arg)

    async def main():
        create_task(background(out))
        try:
            await asyncio.StreamReader(Interrupted()).read(1)
        finally:
            out.append("main")

    raises(KeyboardInterrupt, asyncio.run, main())
    assert sorted(out[-2:]) == ["finally", "main"], out
    asyncio.run(sleep5())


def test_finally_blocks_may_wait_and_start_tasks():
    out = []

    async def after():
        await sleep_ms(2)
        out.append("after")

    async def task():
        try:
            await Event().wait()
        finally:
            await sleep_ms(2)
            out.append("waited")
            await create_task(after())

    async def main():
        create_task(task())
        await sleep_ms(1)

    asyncio.run(main())
    assert out == ["waited", "after"]


def test_a_task_that_swallows_the_cancel_does_not_hang_run():
    async def stubborn():
        while True:
            try:
                await Event().wait()
            except asyncio.CancelledError:
                pass

    async def main():
        create_task(stubborn())
        await sleep_ms(1)
        return 1

    assert asyncio.run(main()) == 1
    asyncio.run(sleep5())


def test_run_inside_a_task_is_refused_and_the_loop_goes_on():
    """Stock: the inner run() works and leaves no current task; the next await of the outer one
    crashes the interpreter (segmentation fault)."""
    out = []

    async def main():
        t = create_task(background(out))
        coro = sleep5()
        raises(RuntimeError, asyncio.run, coro, match="running event loop")
        loop = asyncio.get_event_loop()
        raises(RuntimeError, loop.run_until_complete, coro, match="running")
        raises(RuntimeError, loop.run_forever, match="running")
        raises(RuntimeError, loop.close, match="running")
        raises(RuntimeError, asyncio.run_until_complete, t, match="running")
        raises(RuntimeError, asyncio.run_until_complete, match="running")
        me = asyncio.current_task()
        await coro
        assert asyncio.current_task() is me
        assert not t.done() and out.count("runs") > 1

    asyncio.run(main())


def test_new_event_loop_inside_a_task_changes_nothing():
    """Stock: the other tasks never run again, and a main that waits for one of them hangs."""

    async def main():
        out = []
        t = create_task(background(out))
        await sleep_ms(0)
        loop = asyncio.new_event_loop()
        assert loop is asyncio.get_event_loop()
        await sleep_ms(20)
        assert out.count("runs") > 1
        await create_task(sleep5())
        t.cancel()
        await araises(asyncio.CancelledError, t)
        assert out[-1] == "finally"

    asyncio.run(main())


def test_closed_loop_forgets_its_tasks():
    out = []
    loop = asyncio.get_event_loop()
    loop.create_task(background(out))
    loop.run_until_complete(sleep5())
    loop.close()
    out.clear()
    loop.run_until_complete(sleep5())
    assert not out


def test_run_until_complete_leaves_the_other_tasks_for_the_next_run():
    # As in stock and CPython: only run() ends them.
    out = []
    loop = asyncio.get_event_loop()
    loop.create_task(background(out))
    loop.run_until_complete(sleep5())
    assert "finally" not in out
    out.clear()
    loop.run_until_complete(sleep5())
    assert "runs" in out
    loop.close()


def test_run_until_complete_of_an_ended_task_gives_its_result():
    async def result():
        return 7

    loop = asyncio.get_event_loop()
    t = loop.create_task(result())
    f = loop.create_task(fail(ValueError("late")))
    assert loop.run_until_complete(t) == 7
    assert loop.run_until_complete(t) == 7
    raises(ValueError, loop.run_until_complete, f)
    loop.close()


def test_run_forever_runs_until_stop():
    n = 0

    async def task():
        nonlocal n
        while True:
            n += 1
            if n == 5:
                loop.stop()
            await sleep_ms(1)

    loop = asyncio.get_event_loop()
    loop.create_task(task())
    loop.run_forever()
    assert n == 5
    n = 0
    loop.run_forever()
    assert n == 5
    loop.stop()  # does nothing
    loop.close()


def test_stop_from_a_callback_ends_run_forever():
    loop = asyncio.get_event_loop()
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()


async def test_waiting_for_io_alone_neither_raises_nor_spins():
    counts = []

    class Counting(Quiet):
        def ioctl(self, req, arg):
            if req == 3:
                counts.append(time.ticks_ms())
            # Ready after 100 ms.
            done = req == 3 and time.ticks_diff(time.ticks_ms(), counts[0]) > 100
            return 1 if done else 0 if req == 3 else -1

        def read(self, n):
            return b"x"

    assert await asyncio.StreamReader(Counting()).read(1) == b"x"
    assert len(counts) < 200


async def test_current_task_is_the_task_that_runs():
    async def me():
        return asyncio.current_task()

    t = create_task(me())
    assert await t is t
    assert asyncio.current_task() is not t


def test_outside_a_loop_there_is_no_current_task():
    raises(RuntimeError, asyncio.current_task, match="no running event loop")
    asyncio.run(sleep5())
    raises(RuntimeError, asyncio.current_task, match="no running event loop")


def test_runner_keeps_tasks_between_runs_and_ends_them():
    async def count():
        try:
            while True:
                seen.append(1)
                await asyncio.sleep_ms(1)
        finally:
            ended.append(1)

    async def first():
        asyncio.create_task(count())
        await asyncio.sleep_ms(3)
        raises(RuntimeError, runner.run, first())
        raises(RuntimeError, runner.close)
        return 7

    seen, ended = [], []
    with asyncio.Runner() as runner:
        assert runner.run(first()) == 7 and seen and not ended
        before = len(seen)
        raises(TypeError, runner.run, 5)

        async def fails():
            await asyncio.sleep_ms(5)
            1 // 0

        raises(ZeroDivisionError, runner.run, fails())
        assert len(seen) > before and not ended and runner.get_loop() is asyncio.Loop
    assert ended == [1]
    runner.close()
    raises(RuntimeError, runner.run, first(), match="closed")
    raises(ValueError, lambda: asyncio.Runner(loop_factory=int), match="loop_factory")


async def test_callback_in_the_poll_may_take_out_the_task_that_was_next():
    class Readable(io.IOBase):
        def ioctl(self, req, arg):
            return arg & 1 if req == 3 else -1

    class Watcher:
        data = None

        def _ready(self, ev):
            handle.cancel()
            core._io_queue.watch(stream, 0, self)

    called = []
    stream = Readable()
    handle = asyncio.get_event_loop().call_soon(called.append, 1)
    core._io_queue.watch(stream, 1, Watcher())
    begin = time.ticks_ms()
    await asyncio.sleep_ms(50)
    assert time.ticks_diff(time.ticks_ms(), begin) >= 50 and not called
