# Bytes that a StreamReader of a UART at 115200 baud loses, with the default receive buffer, among
# ten tasks that work 5 ms at a time.

import time

from machine import UART, Pin

_BLOCK = "0123456789abcdef" * 64


def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass


def measure(package, blocks, mode=""):
    # blocks: of 1024 bytes, sent without a pause; mode: "priority" for a priority stream
    aio = __import__(package)
    uart = UART(1, 115200, tx=Pin(4), rx=Pin(5))
    received = 0

    async def work():
        while True:
            spin(5000)
            await aio.sleep_ms(0)

    async def read(reader):
        nonlocal received
        while True:
            received += len(await reader.read(256))

    async def main():
        for _ in range(10):
            aio.create_task(work())
        args = (uart, {}, True) if mode == "priority" else (uart,)
        reader = aio.StreamReader(*args)
        print('#EMU {"uart": 1, "after_us": 50000, "data": "%s", "repeat": %d}' % (_BLOCK, blocks))
        task = aio.create_task(read(reader))
        before = -1
        while before != received:
            before = received
            await aio.sleep_ms(500)
        task.cancel()
        return {"lost": blocks * len(_BLOCK) - received}

    return aio.run(main())
