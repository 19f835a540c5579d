# The us that a pass of the loop (one task is taken and resumed) takes, and the bytes it allocates.

import gc
import time

_TASKS = 10  # that are ready all the time


def measure(package, flags):
    # flags: that many more tasks wait, each for a flag of its own, which nobody sets
    aio = __import__(package)

    async def ready(turns):
        for _ in range(turns):
            await aio.sleep_ms(0)

    async def timed(turns):
        tasks = [aio.create_task(ready(turns)) for _ in range(_TASKS)]
        begin = time.ticks_us()
        for task in tasks:
            await task
        return time.ticks_diff(time.ticks_us(), begin) / turns / _TASKS

    async def pass_us():
        guess = await timed(5)
        return await timed(max(5, int(50000 / guess / _TASKS)))  # for about 50 ms

    async def pass_bytes():
        turns = 1000
        gc.collect()
        gc.disable()
        await aio.sleep_ms(0)
        before = gc.mem_alloc()
        for _ in range(turns):
            await aio.sleep_ms(0)
        after = gc.mem_alloc()
        gc.enable()
        return (after - before) / turns

    async def main():
        result = {"us": await pass_us(), "bytes": await pass_bytes()}
        waiting = [aio.create_task(aio.ThreadSafeFlag().wait()) for _ in range(flags)]
        await aio.sleep_ms(1)  # until they wait
        if waiting:
            result["us with flags"] = await pass_us()
            result["times"] = result["us with flags"] / result["us"]
        for task in waiting:
            task.cancel()
        return result

    return aio.run(main())
