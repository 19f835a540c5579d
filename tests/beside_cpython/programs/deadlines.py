# ruff: noqa: F821
# Whose exception arrives: of a deadline, of a task that others cancel, of the body.


async def t0(me):
    for delay in 0, 1, 2:
        try:
            async with asyncio.timeout(delay * UNIT) as deadline:
                deadline.reschedule(moment(1))
                await nap(1)
                raise V(delay)
        except (asyncio.TimeoutError, V) as exc:
            log(me, delay, exc)
        log(me, delay, deadline.expired())
    try:
        async with asyncio.timeout(None) as deadline:
            deadline.reschedule(moment(0))
            log(me, "body", deadline.expired())
            await nap(0)
            log(me, "never")
    except asyncio.TimeoutError:
        call(me, "over", deadline.reschedule, None)
    spawn(1)
    await nap(1)
    cancel(1)
    await nap(3)


async def t1(me):
    # It is cancelled in the tick of its deadline: the cancellation arrives.
    async with asyncio.timeout(1 * UNIT):
        try:
            await asyncio.Event().wait()
        finally:
            await nap(0)
