# Edges that the emulator makes for `seconds` beside ten tasks of 1 ms, for asyncio_alt.devices
# only: stock has nothing like it.

import time

from machine import Pin

ticks_us, ticks_diff = time.ticks_us, time.ticks_diff


def spin(us):
    begin = ticks_us()
    while ticks_diff(ticks_us(), begin) < us:
        pass


def drive(pin, after_us, count, every_us):
    # Returns how long it took to say so.
    begin = ticks_us()
    text = '#EMU {"pin": %d, "value": 1, "after_us": %d, "count": %d, "every_us": %d}'
    print(text % (pin, after_us, count, every_us))
    return ticks_diff(ticks_us(), begin)


def measure(package, what, seconds):
    # what: "edges" on one pin, 2000 a second; or "encoder", 5000 a second on both pins together
    if package != "asyncio_alt":
        return {}
    aio = __import__(package)
    from asyncio_alt.devices import Edges, Encoder

    async def work():
        while True:
            spin(1000)
            await aio.sleep_ms(0)

    async def edges():
        # The latest stamp of each second, as [the edge's number, us].
        stamps = []
        n = 2000 * seconds
        async with Edges(Pin(5, Pin.IN), size=64, priority=True) as source:
            drive(5, 50000, n, 500)
            i = first = worst = 0
            async for us, _ in source:
                first = first or us
                late = ticks_diff(us, first) - 500 * i
                if not i % 2000:
                    stamps.append([i, us])
                    worst = late
                elif late > worst:
                    stamps[-1] = [i, us]
                    worst = late
                i += 1
                if i + source.overruns == n:
                    return {"stamps": stamps, "lost": source.overruns}

    async def encoder():
        n = 2500 * seconds
        async with Encoder(Pin(5, Pin.IN), Pin(6, Pin.IN)) as source:
            us = drive(5, 50000, n, 400)
            drive(6, 50200 - us, n, 400)
            await aio.sleep_ms(1000 * seconds + 100)
            return {"wrong": abs(source.position - 2 * n) + source.errors}

    async def main():
        for _ in range(10):
            aio.create_task(work())
        return await (encoder() if what == "encoder" else edges())

    return aio.run(main())
