# What tests wait for, and what is reported meanwhile; on CPython too.

import asyncio_alt as asyncio


async def passes(n=3):
    for _ in range(n):
        await asyncio.sleep(0)


async def until(condition, what="it does not come"):
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError(what)


def quiet():
    # Collects reports instead of printing them.
    reports = []
    asyncio.get_event_loop().set_exception_handler(
        lambda loop, context: reports.append(context["exception"])
    )
    return reports


async def cancel(task):
    # Cancels the task; returns [its result] if it had ended nevertheless, else [].
    task.cancel()
    try:
        return [await task]
    except asyncio.CancelledError:
        return []
