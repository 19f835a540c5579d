# Rising edges on a pin. Its hard interrupt writes another pin: stock's is a plain handler, ours
# runs the body of an interrupt block. The emulator records both times.

import time

from machine import Pin

_IN, _OUT = 5, 16


def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass


def measure(package, edges, busy=0):
    # busy: tasks that work 1 ms at a time
    aio = __import__(package)
    pin = Pin(_IN, Pin.IN)
    out = Pin(_OUT, Pin.OUT, value=0)
    flag = aio.ThreadSafeFlag()

    def handler(pin):
        out(1)
        out(0)
        flag.set()

    async def work():
        while True:
            spin(1000)
            await aio.sleep_ms(0)

    async def main():
        for _ in range(busy):
            aio.create_task(work())
        context = aio.Interrupt() if package == "asyncio_alt" else None
        pin.irq(context or handler, Pin.IRQ_RISING, hard=True)
        print('#EMU {"watch": %d}' % _OUT)
        some = 1
        for _ in range(edges):
            # Edges come at any moment of a turn.
            some = some * 1103515245 + 12345 & 0xFFFFFF
            after = 15000 + some % 10000
            print('#EMU {"pin": %d, "value": 1, "after_us": %d}' % (_IN, after))
            print('#EMU {"pin": %d, "value": 0, "after_us": %d}' % (_IN, after + 100))
            if context:
                async with context:
                    out(1)
                    out(0)
            else:
                await flag.wait()

    aio.run(main())
    pin.irq(None)
    return {}
