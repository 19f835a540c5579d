# ruff: noqa: F821
# Needs Python 3.13. The errors of a group's tasks take the place of a cancellation, which comes
# at the next await.


async def stubborn():
    try:
        await nap(9)
    finally:
        raise V(5)


async def t0(me):
    spawn(1)
    await nap(1)
    cancel(1)


async def t1(me):
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(stubborn())
    except Exception as exc:
        log(me, "cancelled", exc)
    await nap(1)
    log(me, "never")
