# Code that must work with the heap locked, and must not use it up.

import gc
import io

import micropython

import asyncio_alt as asyncio
from asyncio_alt import Event, StreamReader, ThreadSafeFlag, create_task, sleep_ms


class Source(io.IOBase):
    # A stream that is ready when told to be.
    def __init__(self):
        self.ready = 0

    def ioctl(self, req, arg):
        return self.ready if req == 3 else -1

    def readinto(self, buf):
        self.ready = 0
        return 1


async def locked(passes, wake):
    # Calls wake(n) in each of so many passes, with the heap locked.
    await sleep_ms(1)
    gc.collect()
    micropython.heap_lock()
    try:
        for n in range(passes):
            wake(n)
            await sleep_ms(0)
        await sleep_ms(2)
    finally:
        micropython.heap_unlock()


def nothing(n):
    pass


async def sleeper(count):
    while True:
        await sleep_ms(1)
        count[0] += 1


async def waiter(wait, count):
    while True:
        await wait()
        count[0] += 1


async def count_wakeups(wait, wake, passes=100):
    # How often a task that awaits wait() again and again is woken by wake(n) under lock.
    count = [0]
    t = create_task(waiter(wait, count))
    await locked(passes, wake)
    assert not t.done(), t.data
    t.cancel()
    return count[0]


async def test_sleeps_with_the_heap_locked():
    count = [0]
    t = create_task(sleeper(count))
    micropython.heap_lock()
    try:
        for _ in range(100):
            await sleep_ms(0)
        while count[0] < 5:
            await sleep_ms(5)
    finally:
        micropython.heap_unlock()
    t.cancel()


class Waits:
    # To call a wait() makes a generator: these are made before, to be awaited one after the other.
    def __init__(self, make, n):
        self.coros = [make() for _ in range(n)]
        self.n = 0

    def __call__(self):
        self.n += 1
        return self.coros[self.n - 1]


async def test_flag_wakes_its_task_with_the_heap_locked():
    """Stock: MemoryError at the second wait, which registers the flag with the poller."""
    for priority in (False, True):
        flag = ThreadSafeFlag()
        waits = Waits(lambda: flag.wait(priority), 110)
        n = await count_wakeups(waits, lambda n: flag.set())
        assert n >= 50, (priority, n)


async def test_event_wakes_its_task_with_the_heap_locked():
    ev = Event()
    waits = Waits(ev.wait, 110)

    def wake(n):
        ev.set()
        ev.clear()

    n = await count_wakeups(waits, wake)
    assert n >= 50, n


@needs("small-ids")
async def test_stream_wakes_its_task_with_the_heap_locked():
    # To wait for a stream allocates, as in stock; to be woken by it does not.
    async def read(reader, buf):
        await reader.readinto(buf)
        woken[0] += 1

    def wake(n):
        sources[n].ready = 1

    for priority in (False, True):
        woken = [0]
        sources = [Source() for _ in range(10)]
        for s in sources:
            create_task(read(StreamReader(s, priority=priority), bytearray(1)))
        await locked(10, wake)
        assert woken == [10], (priority, woken)


async def test_flag_is_seen_with_the_heap_locked_when_the_loop_takes_calls():
    asyncio.get_event_loop().call_soon_threadsafe(nothing, 0)
    flag = ThreadSafeFlag()
    n = await count_wakeups(Waits(flag.wait, 110), lambda n: flag.set())
    assert n >= 50, n


async def test_flag_set_before_the_wait_with_the_heap_locked():
    flag = ThreadSafeFlag()
    waits = Waits(flag.wait, 50)
    micropython.heap_lock()
    try:
        for _ in range(50):
            flag.set()
            await waits()
    finally:
        micropython.heap_unlock()


@needs("threads")
async def test_flag_set_by_a_thread_with_the_heap_locked():
    import _thread

    flag = ThreadSafeFlag()
    wait = flag.wait()
    todo = bytearray(1)

    def thread():
        while not todo[0]:
            pass
        flag.set()  # the lock on the heap is each thread's own
        todo[0] = 2

    def locking_thread():
        micropython.heap_lock()
        thread()
        micropython.heap_unlock()

    _thread.start_new_thread(locking_thread, ())
    await sleep_ms(5)
    micropython.heap_lock()
    todo[0] = 1
    try:
        await wait
    finally:
        micropython.heap_unlock()
    assert todo[0]


async def test_sleeping_tasks_use_up_no_heap():
    count = [0]
    tasks = [create_task(sleeper(count)) for _ in range(3)]
    await sleep_ms(5)
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    for _ in range(1000):
        await sleep_ms(0)
    used = gc.mem_alloc() - before
    gc.enable()
    assert used == 0, used
    for t in tasks:
        t.cancel()


async def test_waiting_flags_use_up_no_heap():
    flag = ThreadSafeFlag()
    waits = Waits(flag.wait, 210)
    t = create_task(waiter(waits, [0]))
    await sleep_ms(1)
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    for _ in range(200):
        flag.set()
        await sleep_ms(0)
    used = gc.mem_alloc() - before
    gc.enable()
    assert used == 0, used
    t.cancel()


async def test_ended_tasks_are_forgotten():
    async def task():
        await sleep_ms(0)

    async def round():
        for _ in range(100):
            await create_task(task())

    await round()
    gc.collect()
    before = gc.mem_alloc()
    await round()
    gc.collect()
    assert gc.mem_alloc() - before < 1000
    assert len(asyncio.core.tasks) == 1


async def test_ended_tasks_do_not_hold_on_to_one_another():
    """Stock: about a third of them stay, with all that they had."""

    async def task(i, size):
        data = bytearray(size)
        await sleep_ms(i % 3)
        return data

    async def taken(size):
        for i in range(50):
            create_task(task(i, size))
            await sleep_ms(0)
        await sleep_ms(20)
        gc.collect()
        return gc.mem_alloc()

    before = await taken(1)
    for _ in range(4):
        left = await taken(400) - before
        assert left < 5 * 400, left


@needs("pc")
def test_a_full_heap_while_tasks_are_made_crashes_nothing():
    """A set of MicroPython's that finds no memory to grow is broken from then on."""

    def fill(held):
        n = 0
        for size in (65536, 4096, 512, 64, 16):
            try:
                while n < len(held):
                    held[n] = bytearray(size)
                    n += 1
            except MemoryError:
                pass
        return n

    async def rests():
        await asyncio.sleep_ms(1)

    async def main(spare):
        held = [None] * 20000
        tasks = [None] * 100
        made = 0
        coros = [rests() for _ in range(100)]
        n = fill(held)
        for i in range(spare):
            held[n - 1 - i] = None
        try:
            for i in range(100):
                tasks[i] = asyncio.create_task(coros[i])
                made += 1
        except MemoryError:
            pass
        for i in range(n):
            held[i] = None
        gc.collect()
        for i in range(made):
            await tasks[i]
        await asyncio.create_task(rests())
        return made

    made = [asyncio.run(main(spare)) for spare in range(0, 120, 3)]
    assert max(made) > 10, made


@needs("pc")
def test_a_report_loads_nothing():
    """An import that finds no memory may crash MicroPython, the second time at the latest."""
    import sys

    assert "asyncio_alt.loop" not in sys.modules

    async def fails():
        raise ValueError("expected")

    async def main():
        create_task(fails())
        await sleep_ms(1)

    asyncio.run(main())
    assert "asyncio_alt.loop" not in sys.modules
