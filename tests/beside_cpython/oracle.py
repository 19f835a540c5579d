"""CPython's asyncio on a virtual clock. Timers of one tick are called in the order in which they
were made, as MicroPython does."""

import asyncio
import selectors

clock = 0.0  # seconds
program = None  # the one that runs


def note(difference, length=None):
    """The program has met a known difference: from here on, or from where its log had this length
    on, it may do other things."""
    if length is None:
        length = len(program.log_)
    program.known[difference] = min(length, program.known.get(difference, length))


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
        self.turns = 0

    def _run_once(self):
        self.turns += 1
        super()._run_once()

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
            note("future of several tasks cancelled")
        return super().cancel(msg)


_cancel_gather = asyncio.tasks._GatheringFuture.cancel


def _cancel(future, msg=None):
    # The task that awaits it goes on a turn or two later.
    if not future.done():
        note("gather cancelled")
    return _cancel_gather(future, msg)


asyncio.tasks._GatheringFuture.cancel = _cancel
_release = asyncio.Lock.release


def _release_past_cancelled(lock):
    # The next task has the lock a turn later.
    if lock._waiters and lock._waiters[0].cancelled():
        note("lock released while the next task is cancelled")
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
        length = len(program.log_)
        other = exc_type is asyncio.CancelledError and exc.args != (_LATE,)
        try:
            return await plain(self, exc_type, exc, tb)
        except TimeoutError:
            if other:
                note("cancelled again after the deadline")
            raise
        finally:
            if cancelling():
                note("cancelled, then late or failed", length)

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
