# ruff: noqa: F821
# A cancelled wait_for() does not wait until the inner task has ended.


async def t0(me):
    spawn(1)
    await nap(1)
    cancel(1)


async def t1(me):
    async def inner():
        try:
            await nap(9)
        finally:
            await nap(2)
            log(me, "inner")

    await asyncio.wait_for(inner(), 5 * UNIT)
