# ruff: noqa: F821
# A task cancels itself.


async def t0(me):
    call(me, "cancel", asyncio.current_task().cancel)
    await nap(1)
    log(me, "goes on")
