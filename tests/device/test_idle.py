# The idle hook, and the chip's sleep in it: LightSleep, power_mode, stay_awake.

import io
import sys
import time

import machine
import micropython

import asyncio_alt as asyncio
from asyncio_alt import ThreadSafeFlag, core, create_task, sleep_ms

if not hasattr(machine, "lightsleep"):
    # Stands for lightsleep where it is missing: an interrupt ends it, which here is a ring of the
    # bell; and sometimes it ends early for no reason.
    class Machine:
        n = 0

        def lightsleep(ms):
            Machine.n += 1
            end = time.ticks_add(time.ticks_ms(), ms if Machine.n % 5 else ms // 2)
            while time.ticks_diff(end, time.ticks_ms()) > 0 and not core.bell.rung():
                time.sleep_ms(1)

    sys.modules["machine"] = Machine

from asyncio_alt import LightSleep, idle, power_mode, set_idle_hook, stay_awake

set_idle_hook(None)

BUSY = 1000 if sys.platform in ("linux", "darwin") else 0  # ms that a PC may be busy for
LATE = BUSY or 2  # ms that a deadline may be missed by


def sleeping(**args):
    # Switches a new LightSleep on and returns it.
    return power_mode(LightSleep(**args))


async def ticker(ms, n):
    # Sleeps n times; returns by how much the worst was late.
    worst = 0
    at = time.ticks_ms()
    for _ in range(n):
        at = time.ticks_add(at, ms)
        await sleep_ms(time.ticks_diff(at, time.ticks_ms()))
        worst = max(worst, time.ticks_diff(time.ticks_ms(), at))
    return worst


class Stream(io.IOBase):
    # Written in Python; can be read once `ready`.
    ready = False

    def ioctl(self, req, arg):
        if req != 3:  # MP_STREAM_POLL
            return -1
        return arg & 1 if self.ready else 0

    def read(self, n):
        return b"."


async def reading(s):
    return await asyncio.StreamReader(s).read(1)


async def readied(s, ms):
    await sleep_ms(ms)
    s.ready = True


# Streams are loaded, which takes its time on a board.
_stream = Stream()
_stream.ready = True
asyncio.run(reading(_stream))


# The hook


async def test_hook_is_told_the_time_to_the_deadline_and_whether_streams_wait():
    def hook(ms, polled):
        calls.append((ms, polled))
        return ms

    calls = []
    set_idle_hook(hook)
    await sleep_ms(50 + BUSY)
    assert 45 <= calls[0][0] <= 50 + BUSY and calls[0][1] is False, calls
    del calls[1:]
    s = Stream()
    t = create_task(reading(s))
    await sleep_ms(50 + BUSY)
    assert 40 <= calls[1][0] <= 50 + BUSY and calls[1][1] is True, calls
    s.ready = True
    await t


async def test_hook_may_wait_or_have_the_loop_wait():
    for answer in (None, 0, 1, 7, 10000, -1):
        set_idle_hook(lambda ms, polled: answer)
        begin = time.ticks_ms()
        await sleep_ms(20)
        passed = time.ticks_diff(time.ticks_ms(), begin)
        assert 20 <= passed < 30 + BUSY, (answer, passed)


async def test_hook_that_raises_is_reported_and_dropped():
    def broken(ms, polled):
        raise ValueError("broken")

    reports = []
    asyncio.get_event_loop().set_exception_handler(
        lambda loop, context: reports.append(repr(context["exception"]))
    )
    for hook in (broken, lambda: None, lambda ms, polled: "x", lambda ms, polled: (1,)):
        set_idle_hook(hook)
        await sleep_ms(20)
        assert len(reports) == 1, reports
        reports.clear()
    assert core.idle is int


async def test_answer_of_a_hook_may_be_any_number():
    for answer in (2**31, -(2**31), 2**64, True, False, 1e9, 2.5, 2**29):
        set_idle_hook(lambda ms, polled: answer)
        begin = time.ticks_ms()
        await sleep_ms(20)
        assert 20 <= time.ticks_diff(time.ticks_ms(), begin) < 30 + BUSY, answer
        assert core.idle is not int, answer
        n = idle._idle(-1)
        assert -1 <= n <= 4000000, (answer, n)
        assert idle._idle(7) <= 7


async def test_hook_that_returns_no_number_is_reported():
    reports = []
    asyncio.get_event_loop().set_exception_handler(lambda loop, context: reports.append(context))
    for i, answer in enumerate((float("nan"), float("inf"), "x", b"", [1], object)):
        set_idle_hook(lambda ms, polled: answer)
        await sleep_ms(5)
        if answer:
            assert reports and core.idle is int, answer
            reports.clear()


async def test_hook_that_sets_another_and_raises_drops_itself_alone():
    def other(ms, polled):
        nonlocal n
        n += 1
        return ms

    def broken(ms, polled):
        set_idle_hook(other)
        raise ValueError

    n = 0
    reports = []
    asyncio.get_event_loop().set_exception_handler(lambda loop, context: reports.append(context))
    set_idle_hook(broken)
    await sleep_ms(20)
    assert len(reports) == 1 and n
    assert idle._hook is other


async def test_hook_may_go_away_at_any_moment():
    def gone(ms, polled):
        set_idle_hook(None)
        return ms

    set_idle_hook(gone)
    while core.idle is not int:  # until the loop has had to wait
        await sleep_ms(5)
    # The loop has read it before a scheduled callback took it away.
    assert idle._idle(5) == 5
    assert idle._idle(-1) == -1


def test_keyboard_interrupt_in_a_hook_ends_the_loop():
    def hook(ms, polled):
        raise KeyboardInterrupt

    set_idle_hook(hook)
    raises(KeyboardInterrupt, asyncio.run, ticker(20, 1))
    set_idle_hook(None)
    asyncio.run(ticker(1, 1))


def test_what_is_no_hook_is_refused():
    for hook in (0, "x", ()):
        raises(TypeError, set_idle_hook, hook, match="hook")


# Bad input


def test_arguments_of_lightsleep_are_checked():
    def make(**args):
        return LightSleep(**args)

    for args, exc in (
        ({"slice_ms": 1}, ValueError),
        ({"slice_ms": 4000001}, ValueError),
        ({"slice_ms": 20.0}, TypeError),
        ({"min_ms": 2}, ValueError),
        ({"min_ms": 5000000}, ValueError),
        ({"min_ms": None}, TypeError),
        ({"veto": 1}, TypeError),
    ):
        raises(exc, lambda: make(**args), match=list(args)[0])
    make(slice_ms=2, min_ms=3)
    make(slice_ms=4000000, min_ms=4000000)


def test_port_without_a_lightsleep_that_serves_is_refused():
    def missing(ms):
        raise NotImplementedError

    lightsleep = idle._lightsleep
    idle._lightsleep = None
    raises(ValueError, power_mode, True, match="no machine.lightsleep")
    if sys.platform != "rp2":  # where there is no trial
        idle._lightsleep = missing
        raises(ValueError, power_mode, True, match="not implemented")
        idle._lightsleep = lambda ms: None
        raises(ValueError, power_mode, True, match="ticks_ms stands still")
    assert power_mode() is False
    idle._lightsleep = lightsleep
    assert power_mode(True)


# Sleep


async def test_sleeps_to_the_deadline():
    s = sleeping()
    begin = time.ticks_ms()
    assert await ticker(100, 5) <= LATE
    passed = time.ticks_diff(time.ticks_ms(), begin)
    stats = s.stats()
    assert -10 <= stats["asleep_ms"] + stats["awake_ms"] - passed <= 10 + BUSY, stats
    assert stats["asleep_ms"] > (100 if BUSY else 450), stats
    if sys.platform == "rp2":
        assert stats["sleeps"] == 5 and not stats["early"], stats


async def test_early_return_costs_a_pass_and_no_deadline():
    def lightsleep(ms):
        nonlocal calls
        calls += 1
        return real(ms if calls % 2 else ms // 2)

    s = sleeping()
    calls = 0
    real = idle._lightsleep
    idle._lightsleep = lightsleep
    assert await ticker(100, 5) <= LATE
    idle._lightsleep = real
    assert (1 if BUSY else 4) <= s.stats()["early"] <= s.stats()["sleeps"] == calls


def test_wait_too_long_for_one_sleep_is_cut():
    slept = []
    real = idle._lightsleep
    s = LightSleep(slice_ms=4000000)
    idle._lightsleep = slept.append
    for ms in (4000001, 4000000, 536870911, -1):
        assert s(ms, False) is None
    idle._lightsleep = real
    assert slept == [4000000, 3999999, 4000000, 4000000]


async def test_two_ms_are_no_sleep():
    s = sleeping()
    for _ in range(10):
        await sleep_ms(2)
    assert s.stats()["sleeps"] == 0


async def test_ready_task_keeps_it_awake():
    async def spin():
        while True:
            await sleep_ms(0)

    s = sleeping()
    t = create_task(spin())
    await sleep_ms(100)
    t.cancel()
    stats = s.stats()
    assert stats["sleeps"] == 0 and stats["awake_ms"] >= 98, stats


async def test_streams_keep_it_awake():
    stream = Stream()
    s = sleeping()
    create_task(readied(stream, 100))
    assert await reading(stream) == b"."
    stats = s.stats()
    assert stats["sleeps"] == 0 and stats["vetoes"] > 0, stats


async def test_streams_that_are_allowed_are_looked_at_between_slices():
    stream = Stream()
    for how in ("stream", "mode"):
        stream.ready = False
        s = sleeping(slice_ms=10, streams=how == "mode")
        if how == "stream":
            s.allow(stream)
        create_task(readied(stream, 100))
        begin = time.ticks_ms()
        assert await reading(stream) == b"."
        assert 100 <= time.ticks_diff(time.ticks_ms(), begin) < 120 + BUSY
        assert (1 if BUSY else 8) <= s.stats()["sleeps"] <= 25, s.stats()


async def test_one_stream_that_is_not_allowed_keeps_it_awake():
    ours, other = Stream(), Stream()
    s = sleeping()
    s.allow(ours)
    tasks = [create_task(reading(x)) for x in (ours, other)]
    await sleep_ms(50)
    assert s.stats()["sleeps"] == 0
    other.ready = True
    await tasks[1]
    while not s.stats()["sleeps"]:
        await sleep_ms(50)
    ours.ready = True
    await tasks[0]


async def test_veto_keeps_it_awake_and_is_asked_again():
    s = sleeping(veto=lambda: time.ticks_diff(time.ticks_ms(), begin) < 100)
    begin = time.ticks_ms()
    await sleep_ms(200)
    stats = s.stats()
    assert stats["asleep_ms"] <= 100 + BUSY, stats
    assert (1 if BUSY else 3) <= stats["vetoes"] <= 7, stats
    while s.stats()["asleep_ms"] <= 60:
        await sleep_ms(50)


async def test_veto_that_raises_is_reported_and_ends_power_mode():
    reports = []
    asyncio.get_event_loop().set_exception_handler(lambda loop, context: reports.append(context))
    sleeping(veto=lambda: 1 // 0)
    await sleep_ms(20)
    assert len(reports) == 1 and isinstance(reports[0]["exception"], ZeroDivisionError)
    assert power_mode() is False


async def test_stay_awake_keeps_it_awake_also_nested_and_left_by_an_exception():
    s = sleeping()
    with stay_awake():
        try:
            with stay_awake():
                await sleep_ms(30)
                raise OSError
        except OSError:
            pass
        await sleep_ms(30)
        assert s.stats()["sleeps"] == 0 and s.stats()["vetoes"] > 0
    while not s.stats()["sleeps"]:
        await sleep_ms(30)


async def test_power_mode_is_switched_while_it_runs():
    assert power_mode() is False
    t = create_task(ticker(30, 10))
    s = power_mode(True)
    assert power_mode() is power_mode(True) is s
    await sleep_ms(100)
    assert power_mode(False) is False
    n = s.stats()["sleeps"]
    await sleep_ms(100)
    assert s.stats()["sleeps"] == n > 0
    assert power_mode(s) is s
    assert await t <= LATE
    assert s.stats()["sleeps"] > n


async def test_power_mode_leaves_another_hook_alone():
    def hook(ms, polled):
        return ms

    set_idle_hook(hook)
    power_mode(False)
    assert idle._hook is hook
    power_mode(True)
    assert idle._hook is not hook


async def test_nothing_is_allocated():
    s = LightSleep(veto=lambda: False, streams=True)
    s(10, False)
    micropython.heap_lock()
    try:
        for polled in (False, True):
            s(10, polled)
            s(-1, True)
    finally:
        micropython.heap_unlock()
    assert s.stats()["sleeps"] == 5


def test_sums_of_long_times_stay_small():
    s = LightSleep()
    for _ in range(5):
        for i, ms in ((0, 900000), (1, 800000)):
            s._since = time.ticks_add(time.ticks_ms(), -ms)
            s._count(i)
            assert s._ms[i] < 1000000
    stats = s.stats()
    assert 0 <= stats["awake_ms"] - 4500000 < 100 + BUSY, stats
    assert 0 <= stats["asleep_ms"] - 4000000 < 100 + BUSY, stats


def test_sums_stay_small_after_sleeps_of_an_hour():
    s = LightSleep()
    for _ in range(500):
        s._since = time.ticks_add(time.ticks_ms(), -4000000)
        s._count(1)
        assert s._ms[1] < 1000000
    assert 0 <= s.stats()["asleep_ms"] - 2000000000 < 2000 + BUSY


async def test_loop_never_waits_for_so_long_that_the_clock_wraps():
    s = LightSleep()
    create_task(reading(Stream()))
    await sleep_ms(0)
    assert 0 < s(-1, True) <= 4000000


@needs("hwirq")
async def test_clock_may_wrap():
    import hwirq

    s = sleeping()
    hwirq.set_ticks(2**30 - 150)
    s._since = time.ticks_ms()
    assert await ticker(50, 6) <= LATE
    stats = s.stats()
    assert 290 <= stats["asleep_ms"] + stats["awake_ms"] <= 350, stats


# Wake-ups


@needs("threads", "sockets")
async def test_thread_ends_it_when_flags_and_streams_are_all_that_waits():
    import _thread
    import socket

    def thread():
        nonlocal n
        for _ in range(5):
            time.sleep_ms(30)
            n += 1
            flag.set()

    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(socket.getaddrinfo("127.0.0.1", 0)[0][-1])
    flag = ThreadSafeFlag()
    for streams in (False, True):
        s = sleeping(streams=True)
        if streams:
            create_task(reading(udp))
        n = 0
        _thread.start_new_thread(thread, ())
        while n < 5:
            await flag.wait()
        stats = s.stats()
        assert 0 < stats["asleep_ms"] and stats["sleeps"] < 60, stats
    udp.close()


@needs("schedule")
async def test_scheduled_callback_just_before_it_is_not_slept_over():
    # The veto is the last that runs before the look at the bell.
    def veto():
        micropython.schedule(callback, None)

    def callback(_):
        if done:
            done.pop().set()

    for make in (asyncio.Event, ThreadSafeFlag):
        event = make()
        done = []
        sleeping(veto=veto)
        waiting = create_task(event.wait())
        await sleep_ms(20)
        done.append(event)
        begin = time.ticks_ms()
        await waiting
        assert time.ticks_diff(time.ticks_ms(), begin) < 5 + BUSY


@needs("lightsleep")
def test_callback_that_waits_to_be_called_prevents_it():
    def callback(_):
        nonlocal called
        called += 1

    called = 0
    LightSleep()  # finds the scheduler's state
    begin = time.ticks_ms()
    micropython.heap_lock()
    micropython.schedule(callback, 1)
    idle._whole(1000)
    micropython.heap_unlock()
    assert time.ticks_diff(time.ticks_ms(), begin) < 5
    assert called == 1
    for _ in range(8):
        pass  # the callback that it has scheduled runs
    idle._whole(50)
    assert time.ticks_diff(time.ticks_ms(), begin) >= 50


@needs("lightsleep")
def test_power_mode_switched_on_in_a_callback_sleeps_in_one_go():
    def callback(_):
        idle._state = None
        power_mode(True)

    async def main():
        micropython.schedule(callback, None)
        await sleep_ms(20)
        await sleep_ms(100)
        assert power_mode()._sleep is idle._whole
        n = power_mode().stats()["sleeps"]
        await sleep_ms(100)
        assert power_mode().stats()["sleeps"] - n <= 2

    asyncio.run(main())


@needs("lightsleep")
async def test_scheduler_whose_state_is_not_found_has_it_sleep_in_slices():
    search = idle._search
    idle._state = None
    idle._search = lambda: False
    try:
        s = sleeping()
        await sleep_ms(200)
        stats = s.stats()
        assert s._sleep is idle._slice and stats["sleeps"] >= 9, stats
    finally:
        idle._search = search
        assert search()


@needs("lightsleep")
async def test_stopped_timer_does_not_keep_it_awake():
    from machine import Timer

    for _ in range(2):
        timer = Timer(-1, mode=Timer.ONE_SHOT, period=5000, callback=lambda t: None)
        timer.deinit()
        s = sleeping()
        await sleep_ms(100)
        stats = s.stats()
        assert stats["asleep_ms"] >= 95 and stats["vetoes"] == 0, stats


@needs("lightsleep")
async def test_timers_go_on_through_sleeps():
    from machine import Timer

    def tick(timer):
        nonlocal n
        n += 1

    n = 0
    s = sleeping()
    late = []
    begin = time.ticks_ms()
    one = Timer(
        -1, mode=Timer.ONE_SHOT, period=130, callback=lambda t: late.append(time.ticks_ms())
    )
    timer = Timer(-1, mode=Timer.PERIODIC, period=50, callback=tick)
    assert await ticker(70, 10) <= LATE
    timer.deinit()
    one.deinit()
    assert 13 <= n <= 15, n
    assert 129 <= time.ticks_diff(late[0], begin) <= 133
    assert s.stats()["asleep_ms"] > 500, s.stats()


@needs("lightsleep")
async def test_timer_is_not_late():
    # Until 1.25 lightsleep takes its alarm; later it ends the sleep.
    from machine import Timer

    flag = ThreadSafeFlag()
    s = sleeping()
    for _ in range(2):
        begin = time.ticks_ms()
        timer = Timer(-1, mode=Timer.ONE_SHOT, period=100, callback=lambda t: flag.set())
        await flag.wait()
        assert 99 <= time.ticks_diff(time.ticks_ms(), begin) <= 103
        timer.deinit()
        n = s.stats()["asleep_ms"]
        await sleep_ms(100)
        assert s.stats()["asleep_ms"] - n >= 95


@needs("emu")
async def test_usb_keeps_it_awake():
    from machine import mem32

    s = sleeping()
    for address, vetoes in ((0, False), (5, True), (0, False)):
        mem32[0x50110000] = address  # as the host has given it: it is mounted
        before = s.stats()
        await sleep_ms(100)
        after = s.stats()
        assert (after["vetoes"] > before["vetoes"]) == vetoes
        assert (after["asleep_ms"] - before["asleep_ms"] > 90) != vetoes


@needs("emu")
async def test_nothing_is_allocated_with_a_usb_host_or_a_timer():
    from machine import Timer, mem32

    s = LightSleep(streams=True)
    timer = None
    try:
        for address in (5, 0):
            mem32[0x50110000] = address
            if not address:
                timer = Timer(-1, period=1000, callback=lambda t: None)
            s(10, False)
            micropython.heap_lock()
            try:
                for polled in (False, True):
                    s(10, polled)
                    s(1, polled)
            finally:
                micropython.heap_unlock()
    finally:
        mem32[0x50110000] = 0
        if timer:
            timer.deinit()


@needs("lightsleep")
async def test_wifi_keeps_it_awake():
    class Wlan:  # this board has no WiFi
        up = False

        def active(self):
            return self.up

    wlan = Wlan()
    idle._wlans = (Wlan(), wlan)
    s = sleeping()
    for wlan.up in (False, True, False):
        before = s.stats()
        await sleep_ms(100)
        after = s.stats()
        assert (after["vetoes"] > before["vetoes"]) == wlan.up
        assert (after["asleep_ms"] - before["asleep_ms"] > 90) != wlan.up


@needs("emu")
async def test_pin_ends_it_when_flags_are_all_that_waits():
    from machine import Pin

    flag = ThreadSafeFlag()
    pin = Pin(5, Pin.IN)
    for hard in (True, False):
        pin.irq(lambda pin: flag.set(), Pin.IRQ_RISING, hard=hard)
        s = sleeping()
        for i in range(1, 6):
            print('#EMU {"pin": 5, "value": 1, "after_us": 100000}')
            print('#EMU {"pin": 5, "value": 0, "after_us": 100100}')
            await flag.wait()
            stats = s.stats()
            assert stats["sleeps"] <= i + 1 and stats["asleep_ms"] >= 98 * i, stats
