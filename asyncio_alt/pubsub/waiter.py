"""Waiter: one task that waits until it is woken, on MicroPython and on CPython."""

import sys

if sys.implementation.name == "micropython":
    from .. import core

    report = core._report

    class Waiter:
        task = None  # the one that waits

        def _wait(self):  # async
            if self.task:
                raise RuntimeError("another task waits for this " + type(self).__name__)
            self.task = t = core.cur_task or core.current_task()
            t.data = self
            yield

        def _wake(self, priority):
            t = self.task
            if t:
                self.task = None
                if priority:
                    core._push(t, core.ticks_add(core.ticks(), core._ahead))
                    if core._asleep:
                        core._ring(b"\0")
                else:
                    core._wake(t)

        def remove(self, task):
            # Called by Task.cancel().
            self.task = None

else:
    import asyncio
    import traceback

    def report(message, exc):
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            traceback.print_exception(type(exc), exc, exc.__traceback__)
        else:
            loop.call_exception_handler({"message": message, "exception": exc})

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

        def _wake(self, priority):
            # CPython's loop knows no priority.
            future = self.task
            if future:
                self.task = None
                if not future.done():
                    future.set_result(None)
