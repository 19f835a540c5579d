# ruff: noqa: F821
# Tasks that wait for locks, semaphores and barriers, and are cancelled in the tick of their turn.


async def t0(me):
    lock = asyncio.Lock()
    semaphore = asyncio.Semaphore(0)
    queue = asyncio.Queue(1)
    order = []

    async def take(n):
        async with lock:
            order.append(n)

    async def enter(n):
        await semaphore.acquire()
        order.append(n)

    async def get(n):
        order.append([n, await queue.get()])

    async def put(n):
        await queue.put(n)
        order.append(n)

    await lock.acquire()
    for name, wait, give in (
        ("lock", take, lock.release),
        ("semaphore", enter, semaphore.release),
        ("get", get, lambda: queue.put_nowait(7)),
        ("put", put, queue.get_nowait),
    ):
        for victims in (0,), (1,), (0, 1), (2,), (0, 2):
            if name == "put":
                queue.put_nowait("full") if queue.empty() else None
            tasks = [asyncio.create_task(wait(n)) for n in range(4)]
            await nap(0)
            for first in True, False:
                if first == (victims[0] == 1):
                    give()
                else:
                    for n in victims:
                        tasks[n].cancel()
            await nap(1)
            log(me, name, order[:])
            for task in tasks:
                task.cancel()
            await nap(1)
            order.clear()
            if name == "lock" and not lock.locked():
                await lock.acquire()
            while name == "semaphore" and not semaphore.locked():
                await semaphore.acquire()
            while not queue.empty():
                queue.get_nowait()
