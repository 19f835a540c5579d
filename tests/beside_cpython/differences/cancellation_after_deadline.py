# ruff: noqa: F821
# After its deadline t0 awaits a task that was cancelled.


async def t0(me):
    async with asyncio.timeout(1 * UNIT):
        try:
            await nap(9)
        finally:
            spawn(1)
            cancel(1)
            await task(1)


async def t1(me):
    pass
