# The time from a flag that a thread sets while the loop sleeps to the resumed task, in us; and the
# bytes that a wait for a flag allocates.

import gc
import random
import time


def measure(package, repeats):
    import _thread

    aio = __import__(package)
    flag = aio.ThreadSafeFlag()
    resumed = 0
    at = 0

    def thread():
        nonlocal at
        for i in range(repeats):
            while resumed < i:
                time.sleep_us(100)
            time.sleep_us(1000 + random.randrange(1000))
            at = time.ticks_us()
            flag.set()

    async def wait():
        nonlocal resumed
        us = []
        _thread.start_new_thread(thread, ())
        for _ in range(repeats):
            await flag.wait()
            us.append(time.ticks_diff(time.ticks_us(), at))
            resumed += 1
        return us

    async def set_often():
        while True:
            flag.set()
            await aio.sleep_ms(0)

    async def wait_bytes():
        turns = 100
        task = aio.create_task(set_often())
        await flag.wait()
        gc.collect()
        gc.disable()
        before = gc.mem_alloc()
        for _ in range(turns):
            await flag.wait()
        after = gc.mem_alloc()
        gc.enable()
        task.cancel()
        return (after - before) / turns

    async def main():
        return {"us": await wait(), "bytes": await wait_bytes()}

    return aio.run(main())
