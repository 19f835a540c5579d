"""Low power on emulated RP2040 firmware: when it sleeps and wakes, and bench power.

The device's part is in tests/device/test_idle.py.
"""

import argparse
import json
import random
import subprocess
import sys

import pytest

from tools.bench import power
from tools.bench.command import RESULTS
from tools.bootstrap import ROOT

HEAD = """
import time
import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms, power_mode, ThreadSafeFlag
from machine import Pin, UART

print('#EMU {"watch": "sleep"}')
print('#EMU {"watch": 16}')
out = Pin(16, Pin.OUT, value=0)
"""


def run(rp2, script, stimuli=()):
    result = rp2.run(HEAD + script, 200, stimuli=stimuli)
    assert result.ok, result.err or "not finished in time"
    return result


def edges(result, pin, value=1):
    return [us for us, what, v in result.events if what == pin and v == value]


def depths(result, moments):
    """Return how deep the chip slept just before each moment (us)."""
    changes = [(us, depth) for us, what, depth in result.events if what == "sleep"]
    found = []
    for moment in moments:
        found.append(([depth for us, depth in changes if us < moment] or [0])[-1])
    return found


# Deadlines


def test_blink_for_a_minute(rp2):
    slept = power.run(rp2, "asyncio_alt", "blink", "sleep", 60)
    assert slept["asleep"] >= 0.995
    assert slept["sleeps"] <= 65
    assert slept["late"] <= 2
    current = power.estimate(slept["asleep"], power.PICO["awake"], power.PICO["asleep"])
    assert current <= 1.05 * power.PICO["asleep"]
    stats = slept["stats"]
    assert stats["sleeps"] == slept["sleeps"]
    assert abs(stats["asleep_ms"] / 60000 - slept["asleep"]) < 0.002
    # The board's clock is right: the emulator's shows the same minute.
    assert abs(slept["seconds"] - 60) < 0.02


def test_ten_tasks_keep_their_periods_for_a_minute(rp2):
    result = run(
        rp2,
        """
async def task(ms):
    begin = time.ticks_ms()
    n = 0
    while time.ticks_diff(time.ticks_ms(), begin) < 60000:
        await sleep_ms(ms)
        n += 1
    return ms, time.ticks_diff(time.ticks_ms(), begin) - n * ms, n

async def main():
    power_mode(True)
    for line in await asyncio.gather(*(task(ms) for ms in range(210, 1200, 100))):
        print(*line)
    print(power_mode().stats()["asleep_ms"])

asyncio.run(main())
""",
    )
    *lines, asleep = result.out.splitlines()
    assert int(asleep) > 58000
    for ms, drift, n in (map(int, line.split()) for line in lines):
        assert 0 <= drift <= 2, (ms, drift, n)


# Interrupts


# A deadline every 50 ms, and edges on a pin; its interrupt sets a flag.
PIN = """
import gc

flag = ThreadSafeFlag()
pin = Pin(5, Pin.IN)
pin.irq(lambda pin: flag.set(), Pin.IRQ_RISING, hard=HARD)

async def other():
    while True:
        await sleep_ms(50)

async def main():
    create_task(other())
    power_mode(True)
    BROKEN
    for us in range(*AT):
        gc.collect()  # not in the middle
        print('#EMU {"pin": 5, "value": 1, "after_us": %d}' % us)
        print('#EMU {"pin": 5, "value": 0, "after_us": %d}' % (us + 60))
        await flag.wait()
        out(1)
        out(0)

asyncio.run(main())
"""


def late(rp2, hard, at, broken=""):
    """Return the us from each edge to the task that it wakes, and the depth of sleep it met."""
    script = PIN.replace("HARD", str(hard)).replace("AT", str(at)).replace("BROKEN", broken)
    result = run(rp2, script)
    begin, end = edges(result, "in5"), edges(result, "pin16")
    assert len(begin) == len(end) == len(range(*at))
    return [b - a for a, b in zip(begin, end, strict=True)], depths(result, begin)


@pytest.mark.parametrize("hard", [True, False])
def test_pin_in_sleep_resumes_its_task_within_1_ms(rp2, hard):
    us, met = late(rp2, hard, (5000, 45000, 997))
    assert met.count(2) > 30
    assert max(us) < 1000


@pytest.mark.parametrize("hard", [True, False])
def test_no_interrupt_is_slept_over_while_it_falls_asleep(rp2, hard):
    us, met = late(rp2, hard, (0, 900))
    assert 0 in met and 2 in met, "not swept over the moment"
    assert max(us) < 1500


@pytest.mark.parametrize("hard", [True, False])
def test_it_is_tested_whether_one_is_slept_over(rp2, hard):
    broken = "from asyncio_alt import idle; power_mode()._sleep = idle._slice"
    us, _ = late(rp2, hard, (0, 900), broken)
    assert max(us) > 10000


# 1 to 8 soft interrupts, the first swept over the way into the sleep, the others 60 us behind it.
SOFT = """
import gc
from machine import disable_irq, enable_irq

ran = off = 0

def soft(pin):
    global ran, off
    ran += 1
    state = disable_irq()
    enable_irq(state)
    off += state
    flag.set()

flag = ThreadSafeFlag()
for i in range(8):
    Pin(2 + i, Pin.IN).irq(soft, Pin.IRQ_RISING | Pin.IRQ_FALLING)

async def main():
    global ran
    power_mode(True)
    BROKEN
    value = [0] * 8
    for n in NS:
        gc.collect()
        for us in list(range(60, 200, 4)) + list(range(200, 420, 20)):
            ran = 0
            at = time.ticks_add(time.ticks_us(), 190 * n + us)  # about as long as it prints
            for i in range(n):
                value[i] ^= 1
                after = time.ticks_diff(at, time.ticks_us())
                line = '#EMU {"pin": %d, "value": %d, "after_us": %d}'
                print(line % (2 + i, value[i], after + (60 + 3 * i if i else 0)))
            await flag.wait()
            await sleep_ms(2)
            if ran != n:
                print(n, "interrupts", us, "us:", ran, "ran")
    if off:
        print(off, "ran without interrupts")

asyncio.run(main())
"""


def test_no_soft_callback_is_lost_or_run_without_interrupts_while_it_falls_asleep(rp2):
    result = run(rp2, SOFT.replace("NS", "range(1, 9)").replace("BROKEN", ""))
    assert result.out == ""
    assert [event for event in result.events if event[1:] == ("sleep", 2)]


def test_it_is_tested_whether_soft_callbacks_are_lost(rp2):
    # The look at the scheduler's queue that fills it.
    broken = """
    from asyncio_alt import idle
    from micropython import schedule
    import machine
    def whole(n):
        state = disable_irq()
        try:
            schedule(abs, 0); schedule(abs, 0); schedule(abs, 0); schedule(abs, 0)
            schedule(abs, 0); schedule(abs, 0); schedule(abs, 0); schedule(abs, 0)
            for _ in range(8):
                pass
            idle._down(n)
        except RuntimeError:
            pass
        finally:
            enable_irq(state)
    power_mode()._sleep = whole
"""
    result = run(rp2, SOFT.replace("NS", "(6,)").replace("BROKEN", broken))
    assert " ran\n" in result.out and "without interrupts" in result.out


@pytest.mark.parametrize("mode", ["power_mode(True)", "pass"])
def test_deadline_is_not_late_by_a_callback_or_a_veto_before_the_wait(rp2, mode):
    # A callback of 10 ms, swept over the way into the wait; then a veto that takes as long.
    result = run(
        rp2,
        """
def soft(pin):
    time.sleep_ms(10)

pin = Pin(5, Pin.IN)
pin.irq(soft, Pin.IRQ_RISING | Pin.IRQ_FALLING)

async def late():
    begin = time.ticks_us()
    await sleep_ms(30)
    return time.ticks_diff(time.ticks_us(), begin) - 30000

async def main():
    MODE
    worst = 0
    for us in range(0, 500, 7):
        print('#EMU {"pin": 5, "value": %d, "after_us": %d}' % (us & 1, us))
        worst = max(worst, await late())
    print(worst)
    if power_mode():
        power_mode(asyncio.LightSleep(veto=lambda: time.sleep_ms(10)))
        print(await late())

asyncio.run(main())
""".replace("MODE", mode),
    )
    for us in result.out.split():
        assert int(us) < 2000


def test_lightsleep_after_an_interrupted_wait_misses_no_deadline(rp2):
    result = run(
        rp2,
        """
flag = ThreadSafeFlag()
pin = Pin(5, Pin.IN)
pin.irq(lambda pin: flag.set(), Pin.IRQ_RISING, hard=True)

async def main():
    # A wait with the clocks on is cut short; then the loop sleeps past that deadline.
    for _ in range(10):
        power_mode(False)
        print('#EMU {"pin": 5, "value": 1, "after_us": 20000}')
        print('#EMU {"pin": 5, "value": 0, "after_us": 20100}')
        try:
            await asyncio.wait_for_ms(flag.wait(), 50)
        except asyncio.TimeoutError:
            print("missed")
        sleep = asyncio.LightSleep()
        begin = time.ticks_ms()
        power_mode(sleep)
        await sleep_ms(100)
        late = time.ticks_diff(time.ticks_ms(), begin) - 100
        if not 0 <= late <= 2 or sleep.stats()["sleeps"] > 2:
            print(late, sleep.stats())

asyncio.run(main())
""",
    )
    assert result.out == ""


def test_without_any_deadline_it_sleeps_and_does_not_spin(rp2):
    result = run(
        rp2,
        """
flag = ThreadSafeFlag()
pin = Pin(5, Pin.IN)
pin.irq(lambda pin: flag.set(), Pin.IRQ_RISING, hard=True)

async def main():
    power_mode(True)
    create_task(asyncio.Event().wait())
    for _ in range(5):
        await flag.wait()
        print(power_mode().stats()["sleeps"])
        out(1)
        out(0)

asyncio.run(main())
""",
        [
            {"pin": 5, "value": value, "after_us": 2e6 * n + 1000 * (1 - value)}
            for n in range(1, 6)
            for value in (1, 0)
        ],
    )
    begin = edges(result, "in5")
    assert depths(result, begin) == [2] * 5
    us = [b - a for a, b in zip(begin, edges(result, "pin16"), strict=True)]
    assert max(us) < 3000  # with the time that print takes
    assert int(result.out.split()[-1]) <= 10


# Streams


UART = """
received = bytearray()
port = UART(1, BAUD, tx=Pin(4), rx=Pin(5), rxbuf=256)

async def read():
    stream = asyncio.StreamReader(port)
    while len(received) < COUNT:
        received.extend(await stream.read(64))

async def other():
    while True:
        await sleep_ms(70)

async def main():
    power_mode(asyncio.LightSleep(streams=ALLOWED))
    create_task(other())
    try:
        await asyncio.wait_for(read(), 10)
    except asyncio.TimeoutError:
        pass
    print(len(received), sum(received))
    print(power_mode().stats()["vetoes"] > 0)

asyncio.run(main())
"""


def received(rp2, baud, allowed):
    """Send at random times; return whether all was received, the events, and the last line."""
    rng = random.Random(baud)
    stimuli, at, sent = [], 200000, b""
    for _ in range(40):
        data = bytes(rng.randrange(32, 127) for _ in range(rng.randrange(1, 40)))
        stimuli.append({"uart": 1, "baud": baud, "data": data.decode(), "after_us": at})
        at += len(data) * 10000000 // baud + rng.randrange(500, 200000)
        sent += data
    script = UART.replace("BAUD", str(baud)).replace("COUNT", str(len(sent)))
    result = run(rp2, script.replace("ALLOWED", str(allowed)), stimuli)
    said, vetoed = result.out.splitlines()
    return said == f"{len(sent)} {sum(sent)}", result.events, vetoed


@pytest.mark.parametrize("baud", [9600, 115200])
def test_uart_loses_nothing_by_default(rp2, baud):
    complete, events, vetoed = received(rp2, baud, allowed=False)
    assert complete
    assert vetoed == "True"
    assert [event for event in events if event[1] == "uart1-lost"] == []


def test_uart_loses_bytes_when_that_is_allowed(rp2):
    complete, events, _ = received(rp2, 9600, allowed=True)
    assert not complete
    assert [event for event in events if event[1] == "uart1-lost"]


# The tool


def tool(*args):
    command = [sys.executable, "-m", "tools", "bench", "power", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_estimate_for_stats():
    stats = "{'asleep_ms': 59900, 'awake_ms': 100, 'sleeps': 60, 'early': 0, 'vetoes': 0}"
    said = tool(stats).stdout
    assert "99.83 % asleep in 60 sleeps" in said
    assert "Estimate: 1.02 mA" in said
    assert "Estimate: 2.03 mA" in tool(stats, "--ma", "20", "2").stdout


@pytest.mark.parametrize(
    "text, why",
    [
        ("x", ""),
        ("[1]", ""),
        ("{}", ": it lacks asleep_ms, awake_ms, sleeps"),
        ("{'asleep_ms': 1, 'awake_ms': 1}", ": it lacks sleeps"),
        ("{'asleep_ms': 0, 'awake_ms': 0, 'sleeps': 0}", ": it tells of no time"),
    ],
)
def test_what_are_no_stats_is_said_so(text, why):
    with pytest.raises(argparse.ArgumentTypeError, match=f"returns{why}$"):
        power.stats(text)


def test_no_stats_on_the_command_line_are_no_traceback():
    done = tool("{'asleep_ms': 1, 'awake_ms': 1}")
    assert done.returncode == 2
    assert "it lacks sleeps" in done.stderr and "Traceback" not in done.stderr


def test_documented_figures_are_those_of_the_last_run():
    report = json.loads((RESULTS / "power.json").read_text("utf-8"))
    text = (ROOT / "docs" / "power.md").read_text("utf-8")
    assert power.with_tables(text, report) == text
    for name, row in (("blink", 2), ("uart", 2)):
        cells = list(power.rows(report, name))[row]
        assert " | ".join(cells) in text


def test_emulated_figures_are_those_of_the_last_run(rp2):
    # Simulated time repeats itself, so the first seconds give the same as a minute.
    report = json.loads((RESULTS / "power.json").read_text("utf-8"))
    for mode, _, _, package in power.MODES:
        last = next(r for r in report["runs"] if (r["program"], r["mode"]) == ("blink", mode))
        now = power.run(rp2, package, "blink", mode, 5)
        assert abs(now["asleep"] - last["asleep"]) < 0.002
