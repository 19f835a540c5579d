# ruff: noqa: F821
# t1 is cancelled, and still waits in its finally at its deadline.


async def t0(me):
    spawn(1)
    await nap(1)
    cancel(1)


async def t1(me):
    async with asyncio.timeout(2 * UNIT):
        try:
            await nap(9)
        finally:
            await nap(9)
