# Two programs that wait most of the time, with the clocks on or in power mode.

import time

from machine import UART, Pin


def measure(package, program, power, seconds):
    aio = __import__(package)
    led = Pin(25, Pin.OUT, value=0)
    replies = late = 0
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
        nonlocal replies
        port = UART(1, 9600, tx=Pin(4), rx=Pin(5))
        stream = aio.StreamReader(port)
        begin = time.ticks_ms()
        for n in range(2, seconds + 1, 2):
            port.write(b"?")
            print('#EMU {"uart": 1, "data": "%s", "baud": 9600, "after_us": 100000}' % reply)
            try:
                await aio.wait_for_ms(stream.readexactly(61), 500)
                replies += 1
            except aio.TimeoutError:
                port.read()
            await aio.sleep_ms(n * 1000 - time.ticks_diff(time.ticks_ms(), begin))

    sleep = aio.power_mode(True) if power else None
    print('#EMU {"watch": "sleep"}')
    begin = time.ticks_us()
    aio.run({"blink": blink, "uart": uart}[program]())
    us = time.ticks_diff(time.ticks_us(), begin)
    return {
        "begin": begin,
        "end": begin + us,
        "late": late,
        "replies": replies,
        "stats": sleep and sleep.stats(),
    }
