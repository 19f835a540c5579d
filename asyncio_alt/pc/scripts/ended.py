# How many tasks stay in memory after they have ended. `count` tasks are made, one in each pass,
# and sleep `ms`, so that they overlap. The bytes that each of them holds tell the number.

import gc

_SIZE = 100  # bytes


def measure(package, count, ms):
    aio = __import__(package)

    async def task(size):
        data = bytearray(size)
        await aio.sleep_ms(ms)
        return data

    async def taken(size):
        for _ in range(count):
            aio.create_task(task(size))
            await aio.sleep_ms(0)
        await aio.sleep_ms(2 * ms)
        gc.collect()
        return gc.mem_alloc()

    async def main():
        before = await taken(0)
        for _ in range(5):
            left.append((await taken(_SIZE) - before) / _SIZE)

    left = []
    aio.run(main())
    return {"tasks": left}
