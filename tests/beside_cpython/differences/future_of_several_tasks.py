# ruff: noqa: F821
# A task that awaits a future is cancelled, and the future with it: the others go on first.


async def t0(me):
    spawn(1)
    spawn(2)
    await nap(1)
    cancel(1)


async def t1(me):
    await future


async def t2(me):
    await future


future = asyncio.Future()
