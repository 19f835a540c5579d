# Other threads and scheduled callbacks: flags they set, calls they hand over.

import time

import asyncio_alt as asyncio
from asyncio_alt import ThreadSafeFlag, create_task, get_event_loop, sleep_ms

try:
    import _thread
except ImportError:
    pass


def start(fn, *args):
    _thread.start_new_thread(fn, args)


@needs("threads")
async def test_no_flag_set_by_two_threads_is_lost():
    # Each thread counts up and sets; the task must end with the last number, whatever happens
    # to its waits meanwhile.
    total = 50000
    flags = [ThreadSafeFlag(), ThreadSafeFlag()]
    sent = [0, 0]

    def thread(i):
        flag = flags[i]
        for n in range(1, total + 1):
            sent[i] = n
            flag.set()
            if not n % 1000:
                time.sleep_ms(1)

    async def follow(i):
        waits = 0
        while sent[i] < total:
            waits += 1
            if waits % 3:
                await flags[i].wait(waits % 2 == 0)
                continue
            t = create_task(flags[i].wait())
            await sleep_ms(0)
            if waits % 2:
                await sleep_ms(1)
            t.cancel()
            try:
                await t
            except asyncio.CancelledError:
                pass
        return waits

    for i in (0, 1):
        start(thread, i)
    waits = await asyncio.wait_for(asyncio.gather(follow(0), follow(1)), 15)
    assert sent == [total, total]
    assert min(waits) > 10, waits


@needs("threads")
async def test_every_handshake_with_a_thread_ends():
    # One set() at a time: a lost one would end it here.
    ping = ThreadSafeFlag()
    asked = [0]
    answered = [0]

    def thread():
        while answered[0] < 3000:
            if asked[0] != answered[0]:
                answered[0] = asked[0]
                ping.set()

    start(thread)
    for n in range(1, 3001):
        asked[0] = n
        if n % 5:
            await ping.wait()
        else:
            await asyncio.wait_for_ms(ping.wait(), 5000)
        assert answered[0] == n


@needs("threads")
async def test_flag_set_by_a_thread_ends_the_sleep_at_once():
    """Stock on unix: up to 1 ms late, because it wakes up 850 times a second to look."""

    async def timer():
        await sleep_ms(2000)

    def thread():
        time.sleep_ms(30)
        flag.set()

    flag = ThreadSafeFlag()
    t = create_task(timer())
    begin = time.ticks_ms()
    start(thread)
    await flag.wait()
    assert time.ticks_diff(time.ticks_ms(), begin) < 1000
    assert not t.done()


def imported_anew(**without):
    # Returns the package in a program that has other modules of these names; None: no such module.
    import sys

    for name in list(sys.modules):
        if name.startswith("asyncio"):
            del sys.modules[name]
    for name, module in without.items():
        sys.modules[name] = module or type("Absent", (), {})  # an import from it is an ImportError
    import asyncio_alt

    return asyncio_alt


class NoNetwork:
    AF_INET = SOCK_DGRAM = 0

    def socket(*args):
        raise OSError(101)


@needs("threads")
def test_without_a_network_a_thread_ends_the_sleep_too():
    for socket in (NoNetwork, None):
        asyncio = imported_anew(socket=socket)
        flag = asyncio.ThreadSafeFlag()

        def thread():
            time.sleep_ms(30)
            flag.set()

        start(thread)
        asyncio.run(asyncio.wait_for(flag.wait(), 2))


def test_without_threads_or_ringio_the_first_ring_takes_no_heap():
    import micropython

    class NoRingIO:
        const = micropython.const
        schedule = getattr(micropython, "schedule", None)

    for without in (
        {"_thread": None},
        {"_thread": None, "socket": None},
        {"socket": NoNetwork, "micropython": NoRingIO},
        {"_thread": None, "socket": None, "micropython": NoRingIO},
    ):
        asyncio = imported_anew(**without)
        flag = asyncio.ThreadSafeFlag()
        micropython.heap_lock()  # as in a hard interrupt's handler
        try:
            flag.set()
        finally:
            micropython.heap_unlock()
        assert asyncio.core.bell.rung()

        async def main():
            event = asyncio.Event()
            t = asyncio.create_task(event.wait())
            await asyncio.sleep_ms(1)
            asyncio.get_event_loop().call_soon_threadsafe(event.set)
            await asyncio.wait_for(t, 2)
            await flag.wait()
            assert not asyncio.core.bell.rung()
            await asyncio.sleep_ms(5)
            return 7

        assert asyncio.run(asyncio.wait_for(main(), 5)) == 7


@needs("threads")
async def test_call_from_a_thread_ends_the_sleep_at_once():
    def thread():
        time.sleep_ms(30)
        get_event_loop().call_soon_threadsafe(event.set)

    event = asyncio.Event()
    begin = time.ticks_ms()
    start(thread)
    await asyncio.wait_for(event.wait(), 2)
    assert time.ticks_diff(time.ticks_ms(), begin) < 1000


@needs("threads")
async def test_every_call_from_threads_runs_once_and_in_their_order():
    total = 2000
    got = ([], [], [])
    call = get_event_loop().call_soon_threadsafe

    def thread(i):
        for n in range(total):
            call(got[i].append, n)

    async def busy():
        while True:
            await sleep_ms(0)

    t = create_task(busy())
    for i in range(3):
        start(thread, i)
    for _ in range(5000):
        await sleep_ms(1)
        if sum(len(g) for g in got) == 3 * total:
            break
    expected = list(range(total))
    assert all(g == expected for g in got), [len(g) for g in got]
    t.cancel()


@needs("threads")
def test_calls_before_the_loop_runs_are_kept():
    got = []
    done = []

    def thread():
        get_event_loop().call_soon_threadsafe(got.append, "thread")
        done.append(1)

    get_event_loop().call_soon_threadsafe(got.append, "main")
    start(thread)
    while not done:
        time.sleep_ms(1)

    async def main():
        await sleep_ms(1)

    asyncio.run(main())
    assert sorted(got) == ["main", "thread"]


@needs("threads")
def test_loop_in_another_thread_takes_calls_from_the_main_one():
    got = []
    ready = []
    loop = get_event_loop()

    async def main():
        stop = asyncio.Event()
        ready.append(stop.set)
        await stop.wait()
        got.append("stopped")

    def thread():
        asyncio.run(main())
        ready.append("done")

    start(thread)
    while not ready:
        time.sleep_ms(1)
    for n in range(500):
        loop.call_soon_threadsafe(got.append, n)
    loop.call_soon_threadsafe(ready[0])
    for _ in range(2000):
        if len(ready) == 2:
            break
        time.sleep_ms(1)
    assert got == list(range(500)) + ["stopped"], len(got)


async def test_call_from_a_task_runs_between_tasks():
    got = []
    call = get_event_loop().call_soon_threadsafe

    def callback(*args):
        got.append(args)
        raises(RuntimeError, asyncio.current_task)

    call(callback)
    call(callback, 1, "two")
    assert not got
    await sleep_ms(0)
    assert got == [(), (1, "two")]


async def test_call_made_in_a_call_runs_too():
    got = []
    call = get_event_loop().call_soon_threadsafe

    def first():
        got.append(1)
        call(second)
        assert got == [1]

    def second():
        got.append(2)

    call(first)
    call(got.append, "x")
    await sleep_ms(20)
    assert got == [1, "x", 2]


async def test_calls_made_for_ever_do_not_starve_the_tasks():
    n = 0
    call = get_event_loop().call_soon_threadsafe

    def again():
        nonlocal n
        n += 1
        if going:
            call(again)

    going = True

    again()
    for _ in range(5):
        await sleep_ms(0)
    assert 3 <= n <= 10, n
    going = False


@needs("schedule")
async def test_call_from_a_scheduled_callback():
    import micropython

    got = []
    call = get_event_loop().call_soon_threadsafe
    for i in range(3):
        micropython.schedule(lambda n: call(got.append, n), i)
    await sleep_ms(5)
    assert got == [0, 1, 2]


@needs("schedule", "threads")
async def test_no_event_set_by_a_scheduled_callback_is_lost():
    """The callback interrupts the loop and the waiting task between any two of their steps.

    Stock: hangs, an event set between the look and the wait wakes nobody."""
    import micropython

    total = 3000
    asked = [0]
    event = asyncio.Event()

    def callback(n):
        event.set()

    def thread():
        seen = 0
        while seen < total:
            if asked[0] != seen:
                seen = asked[0]
                micropython.schedule(callback, seen)

    start(thread)
    for n in range(1, total + 1):
        asked[0] = n
        # Nothing else waits, so on unix the loop looks after such callbacks.
        await (event.wait() if n % 7 else create_task(event.wait()))
        event.clear()


async def test_exception_in_a_call_is_reported_and_the_others_run():
    reports = []
    got = []
    loop = get_event_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    loop.call_soon_threadsafe(lambda: 1 // 0)
    loop.call_soon_threadsafe(got.append, 1)
    await sleep_ms(20)
    assert got == [1]
    assert len(reports) == 1
    assert isinstance(reports[0]["exception"], ZeroDivisionError)
    assert "callback" in reports[0]["message"]


async def test_call_may_cancel_and_create_tasks():
    got = []
    call = get_event_loop().call_soon_threadsafe

    async def wait():
        try:
            await ThreadSafeFlag().wait()
        finally:
            got.append("cancelled")

    async def new():
        got.append("new")

    t = create_task(wait())
    await sleep_ms(0)
    call(t.cancel)
    call(lambda: create_task(new()))
    await sleep_ms(20)
    assert got == ["cancelled", "new"], got
