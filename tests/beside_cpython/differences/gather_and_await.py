# ruff: noqa: F821
# A task is given to gather(), and another task awaits it.


async def t0(me):
    spawn(1)
    await task(2)


async def t1(me):
    log(me, "gather", await asyncio.gather(task(2)))


async def t2(me):
    await nap(1)
