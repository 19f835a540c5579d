# ruff: noqa: F821
# Needs Python 3.13.
# Bodies of groups that raise what is no Exception; groups that grow; coroutines a group refuses.


class Other(BaseException):
    pass


def shown(exc):
    if hasattr(exc, "exceptions"):
        return [type(exc).__name__] + [shown(e) for e in exc.exceptions]
    return type(exc).__name__


async def fails(ms):
    await nap(ms)
    raise V(ms)


async def ends_as(er, ms=9):
    try:
        await nap(ms)
    finally:
        raise er


async def group(me, n, body, *coros):
    try:
        async with asyncio.TaskGroup() as g:
            for coro in coros:
                g.create_task(coro)
            await body
    except BaseException as exc:
        log(me, n, shown(exc))
    else:
        log(me, n, "over")


async def t0(me):
    await group(me, 1, ends_as(Other()), fails(1))
    await group(me, 2, ends_as(V(2)), fails(1))
    for n, er in ((3, KeyboardInterrupt()), (4, SystemExit())):
        await asyncio.create_task(group(me, n, ends_as(er), fails(1)))
    await group(me, 5, ends_as(Other(), 1), ends_as(V(5)))

    # Nested, cancelled from outside
    async def runner():
        await group(me, 6, group(me, 7, nap(20), ends_as(V(7), 20), ends_as(V(7), 20)), nap(20))

    t = asyncio.create_task(runner())
    await nap(1)
    t.cancel()
    await nap(1)
    log(me, 6, result(t))

    # One that grows while it fails
    grown = [0]

    async def hydra(g):
        grown[0] += 1
        await nap(1)
        g.create_task(hydra(g))
        g.create_task(hydra(g))

    try:
        async with asyncio.TaskGroup() as g:
            g.create_task(hydra(g))
            g.create_task(fails(4))
    except Exception as exc:
        log(me, 9, [shown(exc), grown[0] >= 7])

    # Refused
    g = asyncio.TaskGroup()
    call(me, 10, g.create_task, nap(1))
    async with g:
        try:
            async with g:
                log(me, 10, "entered twice")
        except RuntimeError as exc:
            log(me, 10, exc)
    call(me, 10, g.create_task, nap(1))
    call(me, 10, g.create_task, asyncio.sleep(0))
    try:
        async with g:
            log(me, 10, "entered again")
    except RuntimeError as exc:
        log(me, 10, exc)
