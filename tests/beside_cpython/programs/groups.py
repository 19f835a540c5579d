# ruff: noqa: F821
# The rules of TaskGroup: who is cancelled, what is raised, who may create a task, and when.


async def fail(n, delay=0):
    await nap(delay)
    raise V(n)


async def stubborn(me):
    try:
        await nap(9)
    finally:
        await nap(2)
        raise V(5)


async def child(me, group):
    # Creates tasks while the group ends, and while it is cancelled.
    try:
        await nap(1)
        call(me, "sibling", group.create_task, fail(6, 1))
        await nap(5)
    finally:
        call(me, "late", group.create_task, fail(7))


async def t0(me):
    group = asyncio.TaskGroup()
    call(me, "not entered", group.create_task, fail(0))
    for body in 0, 1, 2:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(1))
                group.create_task(fail(2))
                group.create_task(stubborn(me))
                if body == 1:
                    raise V(3)
                if body == 2:
                    await nap(5)
        except Exception as exc:
            log(me, body, exc)
        call(me, "over", group.create_task, fail(0))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(me, group))
    except Exception as exc:
        log(me, "child", exc)
    try:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(stubborn(me))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fail(8, 1))
                await nap(3)
    except Exception as exc:
        log(me, "nested", exc)
        log(me, "parts", [exc.subgroup(V) is not None, exc.split(KeyError)[0] is None])
