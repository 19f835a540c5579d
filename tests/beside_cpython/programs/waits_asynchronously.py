# ruff: noqa: F821
# Needs Python 3.13. `async for` over as_completed().


async def gives(ms, value):
    await nap(ms)
    if isinstance(value, Exception):
        raise value
    return value


def tasks(*pairs):
    return [asyncio.create_task(gives(ms, value)) for ms, value in pairs]


async def raised(aw):
    try:
        return await aw
    except BaseException as exc:
        return type(exc).__name__


async def collect_async(iterator):
    got = []
    try:
        async for t in iterator:
            got.append(await raised(t))
    except asyncio.TimeoutError:
        got.append("late")
    return got


async def t0(me):
    all = tasks((2, "a"), (1, V(5)), (3, 3))
    log(me, 1, await collect_async(asyncio.as_completed(all)))
    log(me, 2, await collect_async(asyncio.as_completed(tasks((1, 1), (3, 3)), timeout=2 * UNIT)))
    found = []
    async for t in asyncio.as_completed(all):
        found.append(t in all)
    log(me, 3, found)
    iterator = asyncio.as_completed(tasks((1, 1), (2, 2)))
    async for t in iterator:
        log(me, 4, await t)
        break
    log(me, 4, await collect_async(iterator))
