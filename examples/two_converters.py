"""Two A/D converters on two SPI buses that never wait for the program, however busy it is.

A converter says on its READY line that it has a value. The interrupt fetches the value and starts
the next conversion in one transfer, at once; the task takes the value when its turn comes. With a
flag instead, each conversion would begin only after the task that is working.

    GPIO 16, 18, 19, 17    SPI 0 (RX, SCK, TX) and CS of the first one; its READY to GPIO 20
    GPIO 12, 10, 11, 13    SPI 1 and CS of the second one; its READY to GPIO 21

Install: asyncio_alt, irq.json.
Run: mpremote run two_converters.py
On another board: change the numbers in main(). START is the command of your converter.
"""

from machine import SPI, Pin

import asyncio_alt as asyncio

START = b"\x08\x00\x00"  # a command that starts a conversion, as long as an answer

EVERY = 1  # s between two lines of output

values = {}


async def converter(name, spi, cs, ready):
    cs = Pin(cs, Pin.OUT, value=1)
    done = asyncio.Interrupt(priority=True)
    Pin(ready, Pin.IN, Pin.PULL_UP).irq(done, Pin.IRQ_FALLING, hard=True)
    buf = bytearray(len(START))

    def transfer():  # allocates nothing, as the interrupt demands
        cs(0)
        spi.write_readinto(START, buf)
        cs(1)

    transfer()
    while True:
        async with done:
            transfer()  # in the interrupt
        values[name] = int.from_bytes(buf, "big")  # in the loop
        values[name + " missed"] = done.missed


async def work():
    while True:
        sum(range(500))  # stands for a display, a file: some ms at a time
        await asyncio.sleep_ms(0)


async def main():
    for _ in range(5):
        asyncio.create_task(work())
    asyncio.create_task(converter("left", SPI(0, 1000000), 17, 20))
    asyncio.create_task(converter("right", SPI(1, 1000000), 13, 21))
    while True:
        await asyncio.sleep(EVERY)
        print(values)


asyncio.run(main())
