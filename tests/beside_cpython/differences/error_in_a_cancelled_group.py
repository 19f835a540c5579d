# ruff: noqa: F821
# Needs Python 3.13. t1 is cancelled, and its body makes an error of that.


async def t0(me):
    spawn(1)
    await nap(1)
    cancel(1)


async def t1(me):
    try:
        async with asyncio.TaskGroup():
            try:
                await nap(9)
            except asyncio.CancelledError:
                raise V(1)
    except Exception as exc:
        log(me, "group", exc)
    await nap(1)
    log(me, "goes on")
