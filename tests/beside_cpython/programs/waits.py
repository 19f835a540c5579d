# ruff: noqa: F821
# wait() and as_completed() of what is given twice, of iterators, out of turn.


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


async def collect(iterator, most=9):
    got = []
    for aw in iterator:
        got.append(await raised(aw))
        if len(got) == most:
            break
    return got


async def t0(me):
    # wait
    a, b, c = tasks((1, "a"), (2, "b"), (3, "c"))
    for _ in range(2):
        log(me, 1, results(await asyncio.wait([b, a, b, a])))
    log(me, 1, results(await asyncio.wait(iter([a, b]))))
    for how in (asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION, asyncio.ALL_COMPLETED):
        all = tasks((1, "a"), (2, V(2)), (3, "c"))
        log(me, 2, results(await asyncio.wait(all, return_when=how)))
        log(me, 2, results(await asyncio.wait(all)))
        log(me, 2, results(await asyncio.wait(all, return_when=how)))
    all = tasks((1, "a"), (3, "b"))
    log(me, 3, results(await asyncio.wait(all, timeout=2 * UNIT)))
    log(me, 3, results(await asyncio.wait(all, timeout=0)))
    log(me, 3, results(await asyncio.wait(all, timeout=-1)))
    log(me, 3, results(await asyncio.wait(all, timeout=9 * UNIT)))
    future = asyncio.Future()
    log(me, 4, results(await asyncio.wait([future], timeout=0)))
    for wrong in ([], set(), future):
        log(me, 4, await raised(asyncio.wait(wrong)))
    log(me, 4, await raised(asyncio.wait([future], return_when=-1)))
    waits = asyncio.create_task(asyncio.wait([future]))
    await nap(1)
    waits.cancel()
    await nap(1)
    log(me, 4, [result(waits), future.done()])

    # as_completed
    log(me, 5, await collect(asyncio.as_completed([gives(2, "a"), gives(1, V(5)), gives(3, 3)])))
    coro = gives(1, "twice")
    log(me, 5, await collect(asyncio.as_completed([coro, coro, gives(2, "once")])))
    iterator = asyncio.as_completed(tasks((1, 1), (2, 2), (3, 3), (4, 4)))
    log(me, 6, await collect(iterator, 2))
    log(me, 6, await collect(iterator))
    first, second = asyncio.as_completed([gives(1, "a"), gives(2, "b")])
    log(me, 7, await second)
    log(me, 7, await first)
    both = [asyncio.create_task(raised(aw)) for aw in asyncio.as_completed(tasks((1, 1), (1, 2)))]
    log(me, 7, results(await asyncio.wait(both)))
    log(me, 8, await collect(asyncio.as_completed(tasks((1, "a"), (3, "b")), timeout=2 * UNIT)))
    log(me, 8, await collect(asyncio.as_completed(tasks((1, "a")), timeout=5 * UNIT)))
    await nap(5)  # the deadline passes
    log(me, 8, await collect(asyncio.as_completed([])))
    for wrong in (future, gives(1, 1)):
        try:
            next(asyncio.as_completed(wrong))
        except Exception as exc:
            log(me, 9, exc)
