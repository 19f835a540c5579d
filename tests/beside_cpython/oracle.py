"""CPython's asyncio on a virtual clock. Timers of one tick are called in the order in which they
were made, as MicroPython does."""

import asyncio
import selectors

clock = 0.0  # seconds
known = set()  # known differences that the program has met


class _Selector(selectors.DefaultSelector):
    def select(self, timeout=None):
        global clock
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            clock = round((clock + timeout) * 1000) / 1000
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        super().__init__(_Selector())
        self._clock_resolution = 1e-4
        self._timers = 0

    def time(self):
        return clock

    def call_at(self, when, callback, *args, context=None):
        if when <= clock:
            return self.call_soon(callback, *args, context=context)
        self._timers += 1
        return super().call_at(when + self._timers * 1e-9, callback, *args, context=context)


class Future(asyncio.Future):
    def cancel(self, msg=None):
        # The waiting tasks go on in another order.
        if len(self._callbacks or ()) > 1:
            known.add("future of several tasks cancelled")
        return super().cancel(msg)


_release = asyncio.Lock.release


def _release_past_cancelled(lock):
    # The next task has the lock a turn later.
    if lock._waiters and lock._waiters[0].cancelled():
        known.add("lock released while the next task is cancelled")
    _release(lock)


asyncio.Lock.release = _release_past_cancelled


def run(coro):
    loop = _Loop()
    loop.set_exception_handler(lambda loop, context: None)
    try:
        loop.run_until_complete(coro)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def cancelling():
    return asyncio.current_task().cancelling()


def _noting(cls):
    # Note what a task has met that does not count its cancellations.
    plain = cls.__aexit__

    async def __aexit__(self, exc_type, exc, tb):
        other = exc_type is asyncio.CancelledError and exc.args != (_LATE,)
        try:
            return await plain(self, exc_type, exc, tb)
        except TimeoutError:
            if other:
                known.add("cancelled again after the deadline")
            raise
        finally:
            if cancelling():
                known.add("cancelled, then late or failed")

    cls.__aexit__ = __aexit__


_LATE = "late"


def _on_timeout(self):
    self._task.cancel(_LATE)
    self._state = asyncio.timeouts._State.EXPIRING
    self._timeout_handler = None


if hasattr(asyncio, "timeout"):
    asyncio.Timeout._on_timeout = _on_timeout
    _noting(asyncio.Timeout)
    _noting(asyncio.TaskGroup)
