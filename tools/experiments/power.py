# Two programs that wait most of the time, each with one of three ways to wait:
#   "awake"   as stock asyncio does
#   "slices"  in machine.lightsleep, 20 ms at a time, whatever else waits
#   "sleep"   power_mode(True)

import time

from machine import UART, Pin, lightsleep


def slices(ms, polled):
    if ms > 1 or ms < 0:
        lightsleep(min(ms, 20) if ms > 0 else 20)
    else:
        return ms


def measure(package, program, mode, seconds):
    aio = __import__(package)
    led = Pin(25, Pin.OUT, value=0)
    received = late = 0
    reply = "reply".center(60) + "\\n"

    async def blink():
        # Once a second.
        nonlocal late
        begin = time.ticks_ms()
        for n in range(1, seconds + 1):
            led.toggle()
            await aio.sleep_ms(n * 1000 - time.ticks_diff(time.ticks_ms(), begin))
            late = max(late, time.ticks_diff(time.ticks_ms(), begin) - n * 1000)

    async def uart():
        # Every other second asks a device, which answers 61 bytes after 100 ms.
        nonlocal received
        port = UART(1, 9600, tx=Pin(4), rx=Pin(5))
        stream = aio.StreamReader(port)
        begin = time.ticks_ms()
        for n in range(2, seconds + 1, 2):
            port.write(b"?")
            print('#EMU {"uart": 1, "data": "%s", "baud": 9600, "after_us": 100000}' % reply)
            try:
                received += len(await aio.wait_for_ms(stream.readexactly(61), 500))
            except aio.TimeoutError:
                received += port.any()
                port.read()
            await aio.sleep_ms(n * 1000 - time.ticks_diff(time.ticks_ms(), begin))

    sleep = None
    if mode == "slices":
        aio.set_idle_hook(slices)
    elif mode == "sleep":
        sleep = aio.power_mode(True)
    print('#EMU {"watch": "sleep"}')
    begin = time.ticks_us()
    aio.run({"blink": blink, "uart": uart}[program]())
    us = time.ticks_diff(time.ticks_us(), begin)
    return {
        "begin": begin,
        "end": begin + us,
        "late": late,
        "lost": seconds // 2 * 61 - received if program == "uart" else 0,
        "stats": sleep and sleep.stats(),
    }
