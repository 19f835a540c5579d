# ruff: noqa: F821
# Needs Python 3.13.
# t1 is cancelled, and still waits in its finally when a task of its group fails.


async def t0(me):
    spawn(1)
    await nap(1)
    cancel(1)


async def t1(me):
    async def fails():
        await nap(2)
        raise V(1)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            try:
                await nap(9)
            finally:
                await nap(9)
    except Exception as exc:
        log(me, "group", exc)
    await nap(1)
    log(me, "goes on")
