# The ring that records the loop's events.

import io
import time

import micropython

import asyncio_alt as asyncio
import asyncio_alt.trace as trace
import asyncio_alt.trace_code as trace_code
from asyncio_alt import Event, StreamReader, ThreadSafeFlag, core, create_task, sleep_ms


class Stream(io.IOBase):
    # Can be read when its bytes are there.
    data = b""

    def ioctl(self, req, arg):
        return arg & 1 if req == 3 and self.data else 0 if req == 3 else -1

    def read(self, n=-1):
        data = self.data
        self.data = b""
        return data


def runs(*names):
    # (name of the coroutine, why it ran) of all runs in the ring, or of these coroutines only.
    found = [(trace.name(r[3]), r[4]) for r in trace.records() if r[0] == "run"]
    return [run for run in found if run[0] in names] if names else found


def traced(main, size=256, threshold_ms=None):
    trace.start(size, threshold_ms)
    try:
        return asyncio.run(main())
    finally:
        trace.stop()


def spin(ms):
    begin = time.ticks_ms()
    while time.ticks_diff(time.ticks_ms(), begin) < ms:
        pass


async def yields(n):
    for _ in range(n):
        await sleep_ms(0)


def test_runs_are_in_order_and_say_why():
    flag = ThreadSafeFlag()
    event = Event()

    async def on_flag():
        await flag.wait()
        await flag.wait(priority=True)

    async def on_event():
        await event.wait()

    async def main():
        a = create_task(on_flag())
        create_task(on_event())
        await sleep_ms(0)
        flag.set()
        event.set()
        await sleep_ms(0)
        await sleep_ms(20)
        flag.set()
        await a

    traced(main)
    expected = [
        ("main", "start"),
        ("on_flag", "start"),
        ("on_event", "start"),
        ("main", "yield"),
        ("on_event", "task"),
        ("main", "yield"),
        ("on_flag", "flag"),
        ("main", "timer"),
        ("on_flag", "priority flag"),
        ("main", "priority task"),
    ]
    assert runs() == expected, runs()
    assert trace.lost() == 0


def test_without_machine_code_too():
    def no_machine_code(source, scope):
        if "viper" in source:
            raise SyntaxError
        exec(source, scope)

    trace_code.exec = no_machine_code
    flag = ThreadSafeFlag()

    async def main():
        flag.set()
        await flag.wait()
        await sleep_ms(0)
        await sleep_ms(20)
        flag.set()
        await yields(20)

    traced(main, 16)
    assert runs()[-1] == ("main", "yield") and trace.lost() > 5
    traced(main)
    assert runs()[:3] == [("main", "start"), ("main", "yield"), ("main", "timer")], runs()


def test_io_says_so_and_with_priority():
    stream = Stream()

    async def plain():
        await StreamReader(stream).read(1)

    async def urgent():
        await StreamReader(stream, priority=True).read(1)

    async def main():
        for coro in (plain(), urgent()):
            t = create_task(coro)
            await sleep_ms(5)
            await yields(2)
            stream.data = b"x"
            await t

    traced(main)
    assert runs("plain") == [("plain", "start"), ("plain", "io")], runs()
    assert runs("urgent") == [("urgent", "start"), ("urgent", "priority io")], runs()
    assert "poll" in [r[0] for r in trace.records()]


def test_wait_for_of_what_has_priority_says_so():
    flag = ThreadSafeFlag()

    async def waits():
        await asyncio.wait_for(flag.wait(priority=True), 5)

    async def main():
        t = create_task(waits())
        await sleep_ms(100)
        flag.set()
        await t

    traced(main)
    assert runs("waits")[-1] == ("waits", "priority task"), runs("waits")
    late = [r[5] for r in trace.records() if r[4] == "priority task"]
    assert max(late) < 80000, late  # not since it began to wait


def test_one_thing_after_the_other():
    async def main():
        tasks = [create_task(yields(5)) for _ in range(3)]
        await sleep_ms(5)
        for t in tasks:
            await t

    traced(main)
    end = 0
    for what, begin, length, task, why, late in trace.records():
        assert begin >= end and length >= 0 and late >= 0, (what, begin, end, length, late)
        assert (task is None) == (what in ("poll", "sleep"))
        end = begin + length


def test_sleep_and_work_are_told_apart():
    async def main():
        spin(30)
        await sleep_ms(30)

    traced(main)
    work = sum([r[2] for r in trace.records() if r[0] == "run"])
    sleep = sum([r[2] for r in trace.records() if r[0] == "sleep"])
    assert work > 28000 and sleep > 25000, (work, sleep)
    stats = trace.stats()
    assert stats["sleep"] == sleep and stats["us"] >= work + sleep, stats
    tasks, n, us, longest, late, latest = stats["tasks"]["main"]
    assert (tasks, us) == (1, work) and 28000 < longest <= us and late <= latest, stats


def test_sleep_in_an_idle_hook_is_sleep():
    def hook(ms, polled):
        time.sleep_ms(1)

    async def main():
        asyncio.set_idle_hook(hook)  # also one that is set later
        await sleep_ms(50)
        asyncio.set_idle_hook(None)

    traced(main)
    stats = trace.stats()
    assert stats["sleep"] > 10000 and stats["sleep"] > stats["tasks"]["main"][2], stats
    assert core.idle is int


def test_timer_is_late_by_what_ran_before():
    async def hog():
        await sleep_ms(4)
        spin(30)

    async def timer():
        await sleep_ms(10)

    async def main():
        t = create_task(hog())
        await timer()
        await t

    traced(main)
    late = [r[5] for r in trace.records() if r[0] == "run" and r[4] == "timer"]
    assert len(late) == 2 and max(late) > 20000, late


def test_ring_keeps_the_newest_and_counts_the_lost():
    async def main():
        await create_task(yields(50))

    traced(main, 300)
    total = len(runs()) + 1  # the end is counted too
    assert trace.lost() == 0 and runs("yields")[0] == ("yields", "start")
    expected = runs()[-15:]
    traced(main, 16)
    assert trace.lost() >= total - 16, (trace.lost(), total)
    found = runs()
    assert [f[0] for f in found][-10:] == [e[0] for e in expected][-10:], found
    assert found[0] == ("yields", None) and found[1] == ("yields", "yield"), found
    traced(main, 300)
    assert trace.lost() == 0


def test_sleep_that_began_before_the_oldest_event_is_cut():
    async def main():
        for _ in range(20):
            await sleep_ms(2)

    for size in (16, 17) * 5:  # with one of the two, a sleep begins the ring
        traced(main, size)
        first = next(trace.records())
        if first[0] == "sleep":
            break
    assert first[:3] == ("sleep", 0, 0), first


def told(main, threshold_ms):
    # Returns the reports of runs that took too long.
    said = []
    trace.print = lambda *args, file: said.append(args)
    traced(main, 64, threshold_ms)
    del trace.print
    return [(args[1], str(args[3])) for args in said]


def test_task_that_blocked_is_named():
    async def hog():
        await sleep_ms(0)
        spin(200)

    async def main():
        t = create_task(hog())
        await yields(3)
        await t

    said = told(main, 150)
    assert len(said) == 1 and said[0][0] >= 199 and "'hog'" in said[0][1], said
    assert told(main, 5000) == []


def test_task_that_blocked_is_named_ahead_of_a_sleep_and_at_the_end():
    flag = ThreadSafeFlag()

    async def waits():
        await flag.wait()

    async def main():
        t = create_task(waits())
        await sleep_ms(1)
        spin(200)
        await sleep_ms(5)  # a poll comes next
        spin(200)
        flag.set()
        await t  # the look for flags comes next
        spin(200)

    said = told(main, 150)
    assert len(said) == 3 and all(["'main'" in who for _, who in said]), said


def test_callback_that_blocked_is_no_tasks_fault():
    async def main():
        loop = asyncio.get_event_loop()
        await sleep_ms(1)
        loop.call_soon_threadsafe(spin, 200)
        await sleep_ms(5)

    assert [who for _, who in told(main, 150)] == ["callbacks"]
    assert max([r[2] for r in trace.records() if r[0] == "run"]) < 150000


def test_with_the_heap_locked():
    flag = ThreadSafeFlag()
    stream = Stream()

    async def reads():
        await StreamReader(stream).read(1)

    async def waits():
        wait = flag.wait()
        urgent = flag.wait(priority=True)
        flag.set()
        micropython.heap_lock()
        try:
            await sleep_ms(1)
            await wait
            flag.set()
            await urgent
            spin(5)  # is told of
            await sleep_ms(3)
            for _ in range(50):
                await sleep_ms(0)
        finally:
            micropython.heap_unlock()

    async def main():
        t = create_task(reads())
        await sleep_ms(1)
        await waits()
        t.cancel()

    traced(main, 16, 3)
    assert trace.lost() > 50


def test_switched_in_a_loop_that_runs():
    async def main():
        await yields(3)
        trace.stop()
        assert runs() == [("main", "start")] + [("main", "yield")] * 3, runs()
        await yields(5)
        assert len(runs()) == 4
        raises(ValueError, trace.start, 32, match="size")
        trace.start(64)
        await yields(2)
        await sleep_ms(2)
        trace.stop()
        # Of the run in which it began, nothing is known.
        assert [why for _, why in runs()] == ["start", "yield", "timer"], runs()
        trace.stop()

    trace.start(64)
    asyncio.run(main())
    assert core.run_until_complete is trace._loops_run and core.answer is trace._loops_answer
    assert core.heir is trace._loops_heir and core.new_poller is trace._loops_new_poller
    assert core.queue_methods is trace._loops_queue_methods
    assert not isinstance(core.poller, trace._Poller)


async def test_not_in_a_loop_that_began_without_it():
    raises(RuntimeError, trace.start, match="before")
    await sleep_ms(0)


def test_records_of_one_run_after_the_other():
    async def first():
        await sleep_ms(1)

    async def second():
        await sleep_ms(1)

    trace.start(64)
    asyncio.run(first())
    time.sleep_ms(200)
    asyncio.run(second())
    trace.stop()
    assert [name for name, _ in runs()] == ["first", "first", "second", "second"], runs()
    assert max([r[2] for r in trace.records() if r[0] == "run"]) < 150000
    asyncio.run(first())
    assert len(runs()) == 4  # it is off


def test_run_that_raises_leaves_the_loop_as_it_was():
    async def fails(exc):
        await sleep_ms(0)
        raise exc

    for exc in (ValueError("x"), KeyboardInterrupt()):
        trace.start(64)
        raises(type(exc), asyncio.run, fails(exc))
        assert type(core._task_queue) is core.TaskQueue
        asyncio.run(yields(2))
        trace.stop()
        assert [name for name, _ in runs("yields")] == ["yields"] * 3
    ended = create_task(yields(0))
    asyncio.get_event_loop().run_until_complete(ended)
    trace.start(64)
    asyncio.get_event_loop().run_until_complete(ended)
    assert type(core._task_queue) is core.TaskQueue
    trace.stop()


def test_nothing_recorded_is_nothing_read():
    assert list(trace.records()) == [] and trace.lost() == 0
    trace.stop()
    trace.start()
    trace.stop()
    assert list(trace.records()) == [] and trace.stats()["tasks"] == {}


def test_arguments_that_are_none():
    raises(TypeError, trace.start, "64", match="size")
    raises(ValueError, trace.start, 15, match="size")
    raises(ValueError, trace.start, 100001, match="size")
    raises(TypeError, trace.start, 64, 0.5, match="threshold_ms")
    raises(ValueError, trace.start, 64, 0, match="threshold_ms")
    raises(ValueError, trace.start, 64, 500001, match="threshold_ms")
