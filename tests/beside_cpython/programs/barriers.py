# ruff: noqa: F821
# Barriers of five tasks: half of them are through when it is reset, aborted or waited for again.


async def all_of(name, coro):
    # Runs five of coro(), and logs how many of its marks there were, and the barriers' states.
    marks = []
    tasks = [asyncio.create_task(coro(marks)) for _ in range(5)]
    try:
        async with asyncio.timeout(4 * UNIT):
            for t in tasks:
                await t
    except asyncio.TimeoutError:
        marks.append("late")
    kinds = sorted(set(marks))
    log(name, 0, [[kind, marks.count(kind)] for kind in kinds])


def state(b):
    return [b.n_waiting, b.broken, b.parties]


async def t0(me):
    b = asyncio.Barrier(5)

    async def nested(marks):
        async with b:
            marks.append("outer")
            async with b as place:
                marks.append("inner")
                marks.append("place " + str(place))

    await all_of("nested", nested)
    log(me, 1, state(b))

    some = asyncio.Barrier(3)
    left = [2]

    async def again_while_others_leave(marks):
        await b.wait()
        if left[0]:
            left[0] -= 1
        else:
            await some.wait()
        await b.wait()
        marks.append("through")

    await all_of("again", again_while_others_leave)
    log(me, 2, [state(b), state(some)])

    count = [0]

    async def reset_half_way(marks):
        try:
            await b.wait()
        except asyncio.BrokenBarrierError:
            marks.append("broken at first")
            await b.wait()
        else:
            count[0] += 1
            if count[0] > 2:
                await b.reset()
                marks.append("reset")
                await b.wait()
            else:
                try:
                    await b.wait()
                except asyncio.BrokenBarrierError:
                    marks.append("broken later")
        marks.append("over")

    await all_of("reset half-way", reset_half_way)
    log(me, 3, state(b))

    count[0] = 0

    async def reset_by_the_last(marks):
        await b.wait()
        count[0] += 1
        if count[0] == 5:
            await b.reset()
            await b.wait()
        else:
            try:
                await b.wait()
                marks.append("second")
            except asyncio.BrokenBarrierError:
                marks.append("broken")
        await b.wait()
        marks.append("third")

    await all_of("reset by the last", reset_by_the_last)
    log(me, 4, state(b))

    async def fails(marks):
        try:
            async with b as place:
                if place == 2:
                    raise V(place)
            async with b:
                marks.append("no")
        except asyncio.BrokenBarrierError:
            marks.append("broken")
        except V:
            await b.abort()
            marks.append("aborted")

    await all_of("fails", fails)
    log(me, 5, state(b))

    both = asyncio.Barrier(5)

    async def aborted_and_reset(marks):
        try:
            await b.wait()
            marks.append("no")
        except asyncio.BrokenBarrierError:
            marks.append("broken")
        if await both.wait() == 2:
            await b.reset()
        await both.wait()
        await b.wait()
        marks.append("through")

    await all_of("aborted and reset", aborted_and_reset)
    log(me, 6, [state(b), state(both)])

    count[0] = 0

    async def abort_half_way(marks):
        try:
            await b.wait()
        except asyncio.BrokenBarrierError:
            marks.append("waits to leave")
        else:
            count[0] += 1
            if count[0] > 2:
                await b.abort()
                marks.append("aborts")
            else:
                try:
                    await b.wait()
                except asyncio.BrokenBarrierError:
                    marks.append("waits to enter")

    await all_of("abort half-way", abort_half_way)
    log(me, 7, state(b))
    await b.reset()

    async def again_in_finally(marks):
        try:
            await b.wait()
        except asyncio.BrokenBarrierError:
            marks.append("broken")
        finally:
            await b.wait()
            marks.append("through")

    tasks = []
    marks = []
    for _ in range(4):
        tasks.append(asyncio.create_task(again_in_finally(marks)))
    await nap(1)
    log(me, 8, state(b))
    await b.reset()
    await nap(1)
    log(me, 8, state(b))
    await b.wait()
    await nap(1)
    log(me, 8, [marks, state(b)])

    one = asyncio.Barrier(1)
    log(me, 9, [await one.wait(), await one.wait(), state(one)])
    await one.abort()
    log(me, 9, state(one))

    three = asyncio.Barrier(3)
    tasks = [asyncio.create_task(three.wait()) for _ in range(2)]
    await nap(1)
    tasks[0].cancel()
    await nap(1)
    log(me, 10, state(three))
    tasks += [asyncio.create_task(three.wait()) for _ in range(2)]
    await nap(1)
    log(me, 10, [state(three), [result(t) for t in tasks]])
