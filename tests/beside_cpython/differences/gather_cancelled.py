# ruff: noqa: F821
# A task that awaits gather() is cancelled before what it gathers has begun.


async def t0(me):
    spawn(1)
    spawn(2)


async def t1(me):
    async def inner():
        log(me, "inner")

    await asyncio.gather(inner(), inner())


async def t2(me):
    cancel(1)
