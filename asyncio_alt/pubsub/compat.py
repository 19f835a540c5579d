"""The differences of MicroPython and CPython: the clock, const(), reports, how a task waits."""

import sys

MOST = 0xFFFFFF  # the largest number a caller may ask for: far below where sizes would overflow


def bounded(name, value, least):
    """ValueError unless value is an int from least to MOST."""
    if not isinstance(value, int) or not least <= value <= MOST:
        raise ValueError("%s must be an int, %d to %d" % (name, least, MOST))


if sys.implementation.name == "micropython":
    from time import ticks_add, ticks_diff, ticks_ms

    from micropython import const as const

    from .. import core

    report = core.report
    FAULTS = (Exception, core.CancelledError)  # user code may raise these, and they are reported

    def _yield(_):
        yield

    _once = core.once or _yield

    def soon(fn):
        """Calls fn as soon as a callback of the transport may write: at once."""
        fn()

    # A default is found sooner than a global.
    def wake(waiter, core=core, ticks_ms=ticks_ms, ticks_add=ticks_add):
        """Has the task that waits go on. There must be one."""
        t = waiter.task
        waiter.task = None
        if waiter.priority:
            core._task_queue.push(t, ticks_add(ticks_ms(), core.ahead))
        else:
            core._task_queue.push(t)
        if core.asleep:
            core.ring(b"\0")

    class Waiter:
        task = None  # the one that waits
        priority = False  # whether it runs next, ahead of the ready tasks

        def _wait(self):
            # Awaitable that ends with wake().
            if self.task:
                raise RuntimeError("another task waits for this " + type(self).__name__)
            once = _once(0)  # while it does not wait yet: there may be no memory
            self.task = t = core.cur_task or core.current_task()
            t.data = self
            return once

        def remove(self, task):
            # Called by Task.cancel().
            self.task = None

else:
    import asyncio
    import traceback
    from time import monotonic_ns

    FAULTS = (Exception, asyncio.CancelledError)

    def const(value):
        return value

    def ticks_ms():
        return monotonic_ns() // 1000000

    def ticks_diff(end, start):
        return end - start

    def report(message, exc):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            traceback.print_exception(type(exc), exc, exc.__traceback__)
        else:
            loop.call_exception_handler({"message": message, "exception": exc})

    def soon(fn):
        # A transport would end twice if a write failed within resume_writing().
        asyncio.get_running_loop().call_soon(fn)

    def wake(waiter):
        # CPython's loop knows no priority.
        future = waiter.task
        waiter.task = None
        if not future.done() and not future.get_loop().is_closed():
            future.set_result(None)

    class Waiter:
        task = None  # the Future of the one that waits

        async def _wait(self):
            if self.task:
                raise RuntimeError("another task waits for this " + type(self).__name__)
            self.task = future = asyncio.get_running_loop().create_future()
            try:
                await future
            finally:
                if self.task is future:
                    self.task = None
