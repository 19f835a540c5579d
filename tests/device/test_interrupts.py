# Hard interrupts that come while tasks wait, cancel and sleep; nothing is lost, nothing late.

import gc
import time
from array import array

import asyncio_alt as asyncio
from asyncio_alt import Event, ThreadSafeFlag, create_task, sleep_ms


def start(us, handler):
    # Has handler(x) called by a hard interrupt every so many us; returns a function that stops it.
    try:
        import hwirq

        hwirq.irq(hwirq.TIMER, handler, hard=True)
        hwirq.timer(us)
        return lambda: hwirq.timer(0)
    except ImportError:
        # A pin that sees its own PWM.
        from machine import PWM, Pin

        pin = Pin(15, Pin.OUT)
        pin.irq(handler, Pin.IRQ_RISING, hard=True)
        return PWM(pin, freq=1000000 // us, duty_u16=32768).deinit


def once(us, handler):
    # Has handler(None) called by one hard interrupt.
    def handle(_):
        nonlocal done
        if not done:
            done = True
            handler(None)

    done = False
    return start(us, handle)


class Storm:
    # Interrupts that set flags in turn, and what the tasks make of them. The counter is published
    # before a flag is set, so a task that was woken finds in it all that is to be found.
    def __init__(self, us, n_flags):
        self.us = us
        self.flags = [ThreadSafeFlag() for _ in range(n_flags)]
        self.turn = 0  # of which flag it is
        self.count = array("i", [0] * n_flags)  # how often each was set
        self.seen = array("i", [0] * n_flags)  # what its task has seen of that
        self.late = array("i", [0] * n_flags)  # us, the worst of each
        self.times = [array("i", [0] * 64) for _ in range(n_flags)]  # of the last times set
        self.unlocked = 0  # handlers that could allocate

    def handler(self, _):
        try:
            bytearray(100)
            self.unlocked += 1
        except MemoryError:
            pass
        i = self.turn
        n = self.count[i]
        self.times[i][n & 63] = time.ticks_us()
        self.count[i] = n + 1
        self.flags[i].set()
        i += 1
        self.turn = i if i < len(self.flags) else 0

    def woken(self, i):
        # The task of flag i runs: note how late it is for what it has not seen.
        n = self.count[i]
        seen = self.seen[i]
        if n > seen:
            assert n - seen < 60, "not run for so long"
            late = time.ticks_diff(time.ticks_us(), self.times[i][seen & 63])
            self.late[i] = max(late, self.late[i])
            self.seen[i] = n

    async def task(self, i, priority):
        while True:
            await self.flags[i].wait(priority)
            self.woken(i)

    async def impatient(self, i):
        # Gives up a bit before the flag is due.
        ms = self.us * 3 // 1000
        while True:
            try:
                await asyncio.wait_for_ms(self.flags[i].wait(), ms)
                self.woken(i)
            except asyncio.TimeoutError:
                self.given_up += 1

    async def cancelled(self, i):
        # Each of its waits is a task that is cancelled sooner or later.
        ms = 0
        while not self.over:
            t = create_task(self.flags[i].wait())
            ms = (ms + 1) % (1 + self.us // 150)
            await sleep_ms(ms)
            t.cancel()
            try:
                await t
                self.woken(i)
            except asyncio.CancelledError:
                self.given_up += 1

    async def sleeper(self, ms):
        while True:
            await sleep_ms(ms)
            self.slept += 1

    async def run(self, tasks, ms):
        self.given_up = self.slept = 0
        self.over = False
        tasks = [create_task(t) for t in tasks]
        await sleep_ms(5)
        begin = time.ticks_ms()
        stop = start(self.us, self.handler)
        await sleep_ms(ms)
        t = time.ticks_us()
        gc.collect()
        self.gc = time.ticks_diff(time.ticks_us(), t)
        stop()
        n = sum(self.count)
        passed = time.ticks_diff(time.ticks_ms(), begin)
        await sleep_ms(50)
        self.over = True
        print(n, "interrupts; late by", list(self.late), "us, gc", self.gc)
        print(self.given_up, "given up,", self.slept, "sleeps")
        assert abs(n - passed * 1000 // self.us) <= 2 + n // 100, passed
        assert sum(self.count) <= n + 1
        assert self.seen == self.count, (self.seen, self.count)
        assert not self.unlocked


async def work(ms):
    # Keeps the others from running.
    start = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), start) < ms * 1000:
        pass


async def worker(ms, pause):
    while True:
        await work(ms)
        await sleep_ms(pause)



async def storm(us, ms):
    s = Storm(us, 4)
    tasks = [s.task(0, True), s.task(1, False), s.impatient(2), s.cancelled(3)]
    tasks += [s.sleeper(1), s.sleeper(3), worker(2, 10), worker(2, 11), worker(2, 12)]
    await s.run(tasks, ms)
    # A wake-up with priority waits for one slice of one task, and that may be garbage collected
    # in. The others wait until each has had a slice; or two, or for their own sleep.
    slice = (2000 + s.gc) * 5 // 4
    print("slice", slice)
    assert s.late[0] <= slice
    assert max(s.late) <= 6 * slice
    assert s.given_up > 200 and s.slept > 500


@needs("pin-irq")
async def test_flags_set_at_1_khz_while_tasks_wait_cancel_and_sleep():
    await storm(1000, 5000)


@needs("hwirq")
async def test_flags_set_at_5_khz_by_a_hardware_timer():
    await storm(200, 5000)
