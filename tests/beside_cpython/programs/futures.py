# ruff: noqa: F821
# Futures where a coroutine or a task may stand: gather, wait_for, shield; their callbacks.


async def raised(aw):
    try:
        return await aw
    except BaseException as exc:
        return type(exc).__name__


async def later(future, ms, value):
    await nap(ms)
    if not future.done():
        future.set_result(value)


def futures(n):
    return [asyncio.Future() for _ in range(n)]


async def t0(me):
    # wait_for
    future = asyncio.Future()
    setters = [asyncio.create_task(later(future, 2, "set"))]
    log(me, 1, await raised(asyncio.wait_for(future, 5 * UNIT)))
    log(me, 1, await raised(asyncio.wait_for(future, 0)))
    log(me, 1, await raised(asyncio.wait_for(future, None)))
    for limit in (2, 0, -1):
        future = asyncio.Future()
        log(me, 2, await raised(asyncio.wait_for(future, limit * UNIT)))
        log(me, 2, [future.cancelled(), future.done()])
    future = asyncio.Future()
    future.set_exception(V(3))
    log(me, 3, await raised(asyncio.wait_for(future, 1 * UNIT)))
    future = asyncio.Future()
    waits = asyncio.create_task(asyncio.wait_for(future, 9 * UNIT))
    await nap(1)
    waits.cancel()
    await nap(1)
    log(me, 4, [result(waits), result(future)])

    # shield in wait_for
    for limit in (1, 0, 5, None):
        inner = asyncio.create_task(nap(3))
        limit = limit if limit is None else limit * UNIT
        outer = asyncio.shield(inner)
        log(me, 5, await raised(asyncio.wait_for(outer, limit)))
        log(me, 5, [outer.cancelled(), inner.done()])
        await nap(4)
        log(me, 5, result(inner))

    # gather
    a, b, c = futures(3)
    setters += [asyncio.create_task(later(f, ms, ms)) for ms, f in ((3, a), (1, b), (2, c))]
    log(me, 6, await raised(asyncio.gather(a, b, c, b)))
    a, b, c, d, e = futures(5)
    a.set_result(1)
    b.cancel()
    log(me, 7, await raised(asyncio.gather(a, b, c, d, e)))
    log(me, 7, [f.done() for f in (c, d, e)])
    a, b, c, d = futures(4)
    a.set_result(1)
    b.set_exception(V(8))
    c.cancel()
    setters.append(asyncio.create_task(later(d, 1, 4)))
    log(me, 8, await raised(asyncio.gather(a, b, c, d, return_exceptions=True)))
    a, b = futures(2)
    inners = [asyncio.shield(a), asyncio.shield(b)]

    async def parent():
        return await asyncio.gather(*inners)

    t = asyncio.create_task(parent())
    await nap(1)
    t.cancel()
    await nap(1)
    log(me, 9, [result(t), [result(f) for f in inners], a.done(), b.done()])
    a.set_result(1)
    b.set_result(2)
    child1, child2 = futures(2)

    async def pair():
        return await asyncio.gather(child1, child2)

    t = asyncio.create_task(pair())
    outer = asyncio.shield(t)
    await nap(1)
    outer.cancel()
    await nap(1)
    child1.set_result(1)
    child2.set_result(2)
    await nap(1)
    log(me, 10, [outer.cancelled(), result(t)])

    # shield
    inner = asyncio.Future()
    outer = asyncio.shield(inner)
    inner.cancel()
    await nap(1)
    log(me, 11, [outer.done(), outer.cancelled()])
    inner = asyncio.Future()
    outer = asyncio.shield(inner)
    inner.set_exception(V(11))
    await nap(1)
    log(me, 11, outer.exception())
    log(me, 11, await raised(asyncio.shield(inner)))

    # What is done stays so.
    for end in ("set_result", "set_exception", "cancel"):
        future = asyncio.Future()
        if end == "cancel":
            future.cancel()
        else:
            getattr(future, end)(V(12))
        call(me, 12, future.set_result, None)
        call(me, 12, future.set_exception, None)
        call(me, 12, future.cancel)
        log(me, 12, [await raised(future), await raised(future)])
    future = asyncio.Future()
    future.set_exception(V)
    log(me, 12, isinstance(future.exception(), V))
    future = asyncio.Future()
    future.set_result((1, 2))
    log(me, 12, await future)

    # Callbacks
    def calls(n):
        return lambda future: log("callback", n, result(future))

    one, two, three = calls(1), calls(2), calls(3)
    future = asyncio.Future()
    for fn in (one, two, one):
        future.add_done_callback(fn)
    log(me, 13, [future.remove_done_callback(fn) for fn in (two, three, two)])
    future.add_done_callback(two)
    log(me, 13, future.remove_done_callback(one))
    future.add_done_callback(three)
    future.set_result("done")
    log(me, 13, "set")
    await nap(1)
    future.add_done_callback(one)
    log(me, 14, "added")
    await nap(1)
    future = asyncio.Future()

    def removes(future):
        log("callback", 4, future.remove_done_callback(one))

    for fn in (removes, one, two):
        future.add_done_callback(fn)
    future.cancel()
    await nap(1)
