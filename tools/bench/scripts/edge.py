# Rising edges on a pin. Its hard interrupt sets a flag; the task that waits for the flag writes
# another pin. The emulator records both times.

import time

from machine import Pin

_IN, _OUT = 5, 16


def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass


def measure(package, edges, busy=0, mode=""):
    # busy: tasks that work 5 ms at a time; mode: "priority" to wait with priority
    aio = __import__(package)
    flag = aio.ThreadSafeFlag()
    pin = Pin(_IN, Pin.IN)
    pin.irq(lambda pin: flag.set(), Pin.IRQ_RISING, hard=True)
    out = Pin(_OUT, Pin.OUT, value=0)

    async def work():
        while True:
            spin(5000)
            await aio.sleep_ms(0)

    async def main():
        for _ in range(busy):
            aio.create_task(work())
        print('#EMU {"watch": %d}' % _OUT)
        wait = (lambda: flag.wait(priority=True)) if mode == "priority" else flag.wait
        some = 1
        for _ in range(edges):
            # Edges come at any moment of a turn.
            some = some * 1103515245 + 12345 & 0xFFFFFF
            after = 10000 + some % 10000
            print('#EMU {"pin": %d, "value": 1, "after_us": %d}' % (_IN, after))
            print('#EMU {"pin": %d, "value": 0, "after_us": %d}' % (_IN, after + 100))
            await wait()
            out(1)
            out(0)
            await aio.sleep_ms(1)

    aio.run(main())
    pin.irq(None)
    return {}
