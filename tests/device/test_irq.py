# with: tasks
# Interrupt: blocks with a body that runs in the interrupt. On unix a plain call stands for that.

import gc
import time
from array import array

import asyncio_alt as asyncio
from asyncio_alt import Event, Interrupt, Lock, Queue, ThreadSafeFlag, create_task, sleep_ms

core = asyncio.core

try:
    import hwirq
except ImportError:
    hwirq = None
    try:
        from machine import Pin
    except ImportError:
        Pin = None
HARD = hwirq or Pin  # interrupts here are hard: the heap is locked


def source(handler, line=1):
    # Returns a function that raises an interrupt, which calls handler(x) before it returns.
    if hwirq:
        hwirq.irq(line, handler, hard=True)
        return lambda: hwirq.pend(line)
    if not Pin:
        return lambda: handler(None)
    pin = Pin(14 + line, Pin.OUT, value=0)
    pin.irq(handler, Pin.IRQ_RISING, hard=True)

    def fire():
        pin(1)
        pin(0)

    return fire


async def opened(coro):
    # A task that has its block open, and waits.
    t = create_task(coro)
    await passes(2)
    return t


def clean(interrupt):
    assert core.first_flag is None and core.last_flag is None
    assert interrupt.task is None and interrupt._inline is None


async def test_body_runs_in_the_interrupt_and_the_task_goes_on_in_the_loop():
    async def task():
        out.append("before")
        async with interrupt:
            out.append("body")
            assert not hasattr(core, "cur_task")
        out.append("after")
        assert asyncio.current_task() is t
        return 42

    out = [None] * 9  # so that append need not allocate
    out.clear()
    interrupt = Interrupt()
    fire = source(interrupt)
    t = await opened(task())
    me = asyncio.current_task()
    out.append("fire")
    fire()
    out.append("fired")
    assert asyncio.current_task() is me
    await sleep_ms(5)
    out.append("slept")
    assert await t == 42
    assert out == ["before", "fire", "body", "fired", "after", "slept"], out
    assert not interrupt.missed
    clean(interrupt)


async def test_return_break_and_continue_in_a_body():
    async def returns():
        try:
            async with interrupt:
                return 1 + n
        finally:
            out.append(asyncio.current_task())

    async def breaks():
        for i in (1, 2):
            async with interrupt:
                break
        await sleep_ms(1)
        return i

    async def continues():
        for i in (1, 2):
            async with interrupt:
                continue
            raise AssertionError
        await sleep_ms(1)
        return i

    n = 6
    out = []
    interrupt = Interrupt()
    fire = source(interrupt)
    for coro, result, turns in ((returns(), 7, 1), (breaks(), 1, 1), (continues(), 2, 2)):
        t = await opened(coro)
        for _ in range(turns):
            fire()
            await passes(2)
        assert await t == result
        clean(interrupt)
    assert len(out) == 1


async def raising(interrupt, body):
    async with interrupt:
        body()


async def test_exception_in_a_body_is_raised_in_the_task():
    def bad_value():
        raise made

    def cancelled():
        raise cancel

    async def caught():
        try:
            async with interrupt:
                bad_value()
        except ValueError as er:
            await sleep_ms(1)
            return er

    empty = {}
    made = ValueError("bad value")
    cancel = asyncio.CancelledError()  # made of a class, which takes memory
    interrupt = Interrupt()
    fire = source(interrupt)
    for exc_type, text, body in (
        (ValueError, "bad value", bad_value),
        (ZeroDivisionError, "", lambda: 1 // len("")),
        (KeyError, "missing", lambda: empty["missing"]),
        (IndexError, "", lambda: ()[0]),
        (NameError, "nothing_here", lambda: nothing_here),  # noqa: F821
        (AttributeError, "no_such_thing", lambda: gc.no_such_thing),
        (asyncio.CancelledError, "", cancelled),
    ):
        t = await opened(raising(interrupt, body))
        fire()
        await araises(exc_type, t, match=text)
        clean(interrupt)
    t = await opened(caught())
    fire()
    assert await t is made


@needs("pin-irq")
async def test_exceptions_of_two_interrupts_do_not_mix():
    # While the heap is locked there is one exception object for all.
    def fail():
        raise OSError(5)

    interrupts = [Interrupt(), Interrupt()]
    fires = [source(interrupts[i], 1 + i) for i in (0, 1)]
    tasks = [
        await opened(raising(interrupts[0], fail)),
        await opened(raising(interrupts[1], [].pop)),
    ]
    for fire in fires:
        fire()
    await araises(OSError, tasks[0])
    await araises(IndexError, tasks[1])


@needs("pin-irq")
async def test_body_that_allocates_in_a_hard_interrupt_gets_memory_error_in_the_task():
    async def task():
        nonlocal reached
        async with interrupt:
            reached = 1
            bytearray(100)
            reached = 2

    interrupt = Interrupt()
    fire = source(interrupt)
    for _ in range(2):  # the handler lives
        reached = 0
        t = await opened(task())
        fire()
        assert reached == 1
        await araises(MemoryError, t, match="inside an interrupt block")
        assert reached == 1
    bytearray(100)
    clean(interrupt)


class Plain:
    # An awaitable that is not a coroutine of asyncio's, and yields by itself.
    def __init__(self):
        self.done = False

    def __iter__(self):
        return self

    def __next__(self):
        if self.done:
            raise StopIteration
        self.done = True


async def refused(make, inside=RuntimeError, before=RuntimeError):
    # An await of the object from make(), in the body or before it, is refused in the body of a
    # block, and nothing is changed.
    async def task(early):
        aw = early and make()
        async with interrupt:
            await (aw or make())

    async def sleeper():
        nonlocal slept
        while True:
            await sleep_ms(1)
            slept += 1

    slept = 0
    other = create_task(sleeper())
    interrupt = Interrupt()
    fire = source(interrupt)
    for early, exc_type in enumerate((inside, before)):
        if exc_type:
            t = await opened(task(early))
            fire()
            await araises(exc_type, t, match="inside an interrupt block")
            clean(interrupt)
    before = slept
    for _ in range(200):
        if slept == before + 3:
            break
        await sleep_ms(1)
    else:
        raise AssertionError("the other task sleeps for ever")
    other.cancel()
    await passes(2)


# A coroutine that is made in the body takes memory; so does the await of a Task in C.
MADE = MemoryError if HARD else RuntimeError


async def test_sleep_in_a_body_is_refused():
    for make in (lambda: sleep_ms(5), lambda: sleep_ms(0), lambda: asyncio.sleep(1)):
        await refused(make, before=None)


async def test_wait_for_a_flag_or_an_event_in_a_body_is_refused():
    flag = ThreadSafeFlag()
    await refused(flag.wait, MADE)
    assert flag.task is None
    event = Event()
    await refused(event.wait, MADE)
    assert event.waiting.peek() is None


async def test_lock_and_queue_in_a_body_are_refused():
    lock = Lock()
    await lock.acquire()
    await refused(lock.acquire, MADE)
    assert lock.waiting.peek() is None
    lock.release()
    assert not lock.locked()
    queue = Queue(1)
    await refused(queue.get, MADE, MADE)
    queue.put_nowait(1)
    await refused(lambda: queue.put(2), MADE, MADE)
    assert queue._getters.peek() is queue._putters.peek() is None
    assert await queue.get() == 1 and queue.empty()


async def test_stream_read_in_a_body_is_refused():
    import io

    class Silent(io.IOBase):
        def ioctl(self, req, arg):
            return 0 if req == 3 else -1

        def read(self, n):
            return None

    reader = asyncio.StreamReader(Silent())
    await refused(lambda: reader.read(1), MADE, MADE)
    assert not core.streams


async def test_wait_for_and_gather_in_a_body_are_refused():
    async def nothing():
        pass

    me = asyncio.current_task()
    tasks = set(core.tasks)
    coro = nothing()
    await refused(lambda: asyncio.wait_for(coro, 1), MADE)
    await refused(lambda: asyncio.gather(coro), MADE)
    assert set(core.tasks) == tasks and me in tasks
    await coro


async def test_await_of_a_task_in_a_body_is_refused():
    async def last():
        await event.wait()
        return 1

    async def wait():
        return await t

    either = (MADE, RuntimeError)
    event = Event()
    t = create_task(last())
    await refused(lambda: t, either, either)
    others = [create_task(wait()) for _ in range(2)]
    await passes(2)
    await refused(lambda: t, either, either)  # others wait for it
    event.set()
    for other in others:
        assert await other == 1


async def test_body_that_yields_something_of_its_own_is_refused():
    async def stubborn():
        async with interrupt:
            for _ in range(3):
                try:
                    await thing
                except RuntimeError:
                    thing.done = False
            await thing

    await refused(Plain, MADE)
    interrupt = Interrupt()
    fire = source(interrupt)
    thing = Plain()
    t = await opened(stubborn())
    fire()
    await araises(RuntimeError, t, match="inside an interrupt block")


async def test_task_that_is_cancelled_before_the_interrupt_has_no_body_run():
    async def task():
        async with interrupt:
            out.append("body")

    out = []
    for keep in (False, True):
        interrupt = Interrupt(keep)
        fire = source(interrupt)
        t = await opened(task())
        t.cancel()
        fire()
        await araises(asyncio.CancelledError, t)
        fire()
        assert not out and interrupt.missed == 2
        clean(interrupt)
        # The next block gets a kept interrupt.
        t = await opened(task())
        assert t.done() is keep
        fire()
        await t
        assert out.pop() == "body" and not out


async def test_task_that_is_cancelled_after_the_body_does_not_go_on():
    async def task(fails):
        async with interrupt:
            out.append("body")
            if fails:
                raise error
        out.append("after")

    error = ValueError()
    out = [None, None]
    out.clear()
    interrupt = Interrupt()
    fire = source(interrupt)
    for late in (False, True):
        for fails in (False, True):
            t = await opened(task(fails))
            fire()
            if late:
                core.answer()  # the loop has seen it, and queued the task
            t.cancel()
            await araises(asyncio.CancelledError, t)
            assert out == ["body"]
            out.clear()
            clean(interrupt)
    t = await opened(task(False))
    assert not t.done()
    fire()
    await t
    assert out == ["body", "after"]


async def test_task_that_goes_on_after_a_cancelled_block_has_the_next_one():
    async def task():
        try:
            async with interrupt:
                await sleep_ms(0)
        except asyncio.CancelledError:
            async with interrupt:
                return 1

    interrupt = Interrupt()
    fire = source(interrupt)
    t = await opened(task())
    fire()
    t.cancel()
    await passes(2)
    fire()
    assert await t == 1
    clean(interrupt)


async def test_interrupt_while_no_block_is_open_is_kept_or_dropped():
    async def task(turns):
        nonlocal bodies
        for _ in range(turns):
            async with interrupt:
                bodies += 1

    for keep in (True, False):
        bodies = 0
        interrupt = Interrupt(keep)
        fire = source(interrupt)
        for _ in range(3):
            fire()
        assert interrupt.missed == 3
        t = await opened(task(4))
        await passes(8)
        assert bodies == (3 if keep else 0)
        for _ in range(4 - bodies):
            fire()
            await passes(2)
        await t
        assert bodies == 4 and interrupt.missed == 3
        clean(interrupt)


async def test_second_interrupt_before_the_task_goes_on_is_kept_or_dropped():
    async def task():
        nonlocal bodies
        while True:
            async with interrupt:
                bodies += 1

    for keep in (True, False):
        bodies = 0
        interrupt = Interrupt(keep)
        fire = source(interrupt)
        t = await opened(task())
        for _ in range(3):
            fire()
        assert bodies == 1
        await passes(10)
        assert bodies == (3 if keep else 1)
        t.cancel()
        await passes(2)
        clean(interrupt)


async def test_interrupt_while_the_block_opens_is_kept_or_dropped():
    class Early:
        # An interrupt comes when the block is open already, but its task does not wait yet.
        def __aenter__(self):
            aw = interrupt.__aenter__()
            fire()
            fire()
            return aw

        def __aexit__(self, exc_type, exc, tb):
            return interrupt.__aexit__(exc_type, exc, tb)

    async def task():
        nonlocal bodies
        async with Early():
            bodies += 1
        async with interrupt:
            bodies += 1

    for keep in (True, False):
        for cancel in (False, True):
            bodies = 0
            interrupt = Interrupt(keep)
            fire = source(interrupt)
            t = create_task(task())
            await sleep_ms(0)
            if cancel:
                t.cancel()
                await araises(asyncio.CancelledError, t)
                assert not bodies
                t = create_task(task())
            await sleep_ms(2)
            if not keep:
                assert not bodies
                for _ in range(2):
                    fire()
                    await passes(2)
            await t
            assert bodies == 2
            clean(interrupt)


async def test_await_in_the_body_of_a_kept_interrupt_is_refused_too():
    async def task():
        async with interrupt:
            await sleep_ms(1)

    interrupt = Interrupt()
    interrupt(None)
    await araises(RuntimeError, task(), match="inside an interrupt block")
    clean(interrupt)
    interrupt(None)
    await araises(ValueError, raising(interrupt, lambda: int("x")), match="invalid syntax")
    await sleep_ms(1)
    clean(interrupt)


async def test_block_can_be_given_up_and_left_open():
    async def task():
        async with interrupt:
            raise AssertionError

    interrupt = Interrupt()
    await araises(asyncio.TimeoutError, asyncio.wait_for_ms(task(), 5))
    clean(interrupt)
    create_task(task())  # run() cancels it
    await passes(2)


async def test_second_task_is_refused_until_the_first_has_had_its_interrupt():
    async def task(name):
        async with interrupt:
            if name == "fails":
                await sleep_ms(0)
        out.append(name)

    out = []
    interrupt = Interrupt()
    fire = source(interrupt)
    t = await opened(task("fails"))
    await araises(RuntimeError, task("second"), match="another task")
    second = create_task(task("second"))
    fire()
    core.answer()
    # Both go on in the next pass, the second first: each has its own.
    await passes(1)
    await araises(RuntimeError, t, match="await inside an interrupt block")
    assert not second.done()
    fire()
    await second
    assert out == ["second"]
    clean(interrupt)


async def test_task_that_is_interrupted_keeps_its_own_wait():
    async def task():
        while True:
            async with interrupt:
                pass

    async def busy():
        nonlocal n
        me = asyncio.current_task()
        while n < 20:
            fire()
            assert asyncio.current_task() is me
            await sleep_ms(1)
            assert asyncio.current_task() is me
            n += 1

    n = 0
    interrupt = Interrupt()
    fire = source(interrupt)
    t = await opened(task())
    await asyncio.gather(busy(), busy())
    assert n >= 20 and interrupt.missed <= n + 1
    t.cancel()


async def test_block_within_coroutines_within_coroutines():
    async def inner():
        async with interrupt:
            return asyncio.core.__name__

    async def middle():
        return await inner()

    async def outer():
        return [await middle(), await middle()]

    interrupt = Interrupt()
    fire = source(interrupt)
    t = await opened(outer())
    for _ in range(2):
        fire()
        await passes(2)
    assert await t == ["asyncio_alt.core"] * 2


async def test_priority_goes_on_ahead_of_the_ready_tasks():
    async def task(name):
        async with interrupts[name]:
            pass
        out.append(name)

    async def ready():
        out.append("ready")

    interrupts = {"late": Interrupt(), "urgent": Interrupt(priority=True)}
    out = []
    for name in interrupts:
        await opened(task(name))
    create_task(ready())
    for i in interrupts.values():
        i(None)
    await sleep_ms(5)
    assert out == ["urgent", "ready", "late"], out


@needs("pin-irq")
async def test_block_takes_no_memory_turn_by_turn():
    async def task():
        nonlocal bodies
        while True:
            async with interrupt:
                bodies += 1

    bodies = 0
    interrupt = Interrupt()
    fire = source(interrupt)
    t = await opened(task())
    for _ in range(3):
        fire()
        fire()  # is kept
        await sleep_ms(5)
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    for _ in range(50):
        fire()
        fire()
        await sleep_ms(5)
    after = gc.mem_alloc()
    gc.enable()
    t.cancel()
    assert bodies == 106
    assert after == before, after - before


@needs("schedule")
async def test_scheduled_callback_runs_the_body():
    import micropython

    async def task():
        async with interrupt:
            out.append("body")
        return asyncio.current_task()

    out = []
    interrupt = Interrupt()
    t = await opened(task())
    micropython.schedule(interrupt, 0)
    assert await asyncio.wait_for(t, 1) is t
    assert out == ["body"]


@needs("hwirq")
async def test_interrupt_of_another_priority_within_a_body():
    async def slow():
        nonlocal n_slow
        while True:
            async with interrupts[0]:
                n_slow += 1
                hwirq.pend(2)  # goes ahead
                assert n_fast == n_slow

    async def fast():
        nonlocal n_fast
        while True:
            async with interrupts[1]:
                n_fast += 1

    async def sleeper():
        nonlocal slept
        while True:
            await sleep_ms(1)
            slept += 1

    n_slow = n_fast = slept = 0
    interrupts = [Interrupt(), Interrupt()]
    for i in (0, 1):
        hwirq.irq(1 + i, interrupts[i], hard=True)
    hwirq.priority(2, 0x60)  # the others' is 0x80
    tasks = [await opened(slow()), await opened(fast()), create_task(sleeper())]
    for i in range(50):
        time.sleep_us(20 * i)  # at any time within a ms
        hwirq.pend(1)
        assert asyncio.current_task() not in tasks
        await sleep_ms(1)
        while any(interrupt._run is not interrupt._resume for interrupt in interrupts):
            await sleep_ms(0)  # they are not in their blocks again yet
    assert n_slow == n_fast == 50 and slept >= 25
    for t in tasks:
        assert not t.done()
        t.cancel()


FPU = """
@micropython.asm_thumb
def load(r0):
{0}
    mov(r0, 0)

@micropython.asm_thumb
def hold(r0, r1):
{0}
    label(LOOP)
    sub(r1, r1, 1)
    bne(LOOP)
{1}
    mov(r0, 0)
"""


@needs("hwirq", "fpu")
async def test_a_block_leaves_the_floating_point_registers_as_they_were():
    async def task():
        nonlocal n
        while True:
            async with interrupt:
                load(theirs)
                n += 1

    moves = [
        "\n".join("    %s(s%d, [r0, %d])" % (op, i, at + 4 * i) for i in range(16))
        for op, at in (("vldr", 0), ("vstr", 64))
    ]
    names = {"micropython": __import__("micropython")}
    exec(FPU.format(*moves), names)
    load, hold = names["load"], names["hold"]
    mine = array("f", [1.5 * i for i in range(16)] + [0] * 16)
    theirs = array("f", [-1.0] * 16)
    n = meanwhile = 0
    interrupt = Interrupt()
    t = await opened(task())
    stop = ticking(interrupt, 300)
    while meanwhile < 10:  # on a slow emulator few come in a round
        before = n
        hold(mine, 50000)
        meanwhile += n - before
        assert list(mine[16:]) == list(mine[:16]), mine
        for i in range(16, 32):
            mine[i] = 0
        await passes(3)
    stop()
    t.cancel()


def ticking(handler, us):
    # Has handler(x) called by a hard interrupt every so many us; returns a function that stops it.
    if hwirq:
        hwirq.irq(hwirq.TIMER, handler, hard=True)
        hwirq.timer(us)
        return lambda: hwirq.timer(0)
    from machine import PWM

    pin = Pin(15, Pin.OUT)
    pin.irq(handler, Pin.IRQ_RISING, hard=True)
    return PWM(pin, freq=1000000 // us, duty_u16=32768).deinit


async def storm(us, ms):
    # Interrupts while tasks enter, give up, are cancelled and sleep: no interrupt is lost.
    def handler(x):
        nonlocal n
        n += 1
        interrupt(x)

    async def body(turns):
        nonlocal bodies
        for _ in range(turns):
            async with interrupt:
                bodies += 1

    async def user():
        i = 0
        while not over:
            i += 1
            t = create_task(body(8))
            if i % 4:
                await t
                continue
            for _ in range(i % 7):
                await sleep_ms(1)
            t.cancel()
            try:
                await t
            except asyncio.CancelledError:
                pass

    async def sleeper(ms):
        nonlocal slept
        while not over:
            await sleep_ms(ms)
            slept += 1

    n = bodies = slept = 0
    over = False
    interrupt = Interrupt()
    t = create_task(user())
    tasks = [create_task(sleeper(ms)) for ms in (0, 1, 2)]
    stop = ticking(handler, us)
    await sleep_ms(ms)
    over = True
    await asyncio.wait_for_ms(t, 1000)
    stop()
    for t in tasks:
        await t
    await body((interrupt.missed - interrupt._taken) & 0xFFFFFF)
    print(n, "interrupts,", interrupt.missed, "of them while no block was open,", slept, "sleeps")
    assert n == bodies, (n, bodies)
    assert n > ms * 1000 // us * 3 // 4
    clean(interrupt)
    return interrupt.missed


@needs("pin-irq")
async def test_no_interrupt_of_a_storm_is_lost():
    await storm(2000, 1500)


@needs("hwirq")
async def test_no_interrupt_of_an_uneven_storm_is_lost():
    missed = 0
    for us in (700, 1010, 1303):
        missed += await storm(us, 500)
    assert missed
