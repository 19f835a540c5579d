"""Future, and the waits for several tasks or futures: wait, as_completed, shield."""

from . import core
from .event import Event
from .timer import Handle, WhenDone, ticks_in

FIRST_COMPLETED = "FIRST_COMPLETED"
FIRST_EXCEPTION = "FIRST_EXCEPTION"
ALL_COMPLETED = "ALL_COMPLETED"


class InvalidStateError(Exception):
    """Raised by a Future if its result is set twice, or asked for before it is set."""


class Future:
    """A result that somebody sets later. `await future` waits for it. A task that is cancelled
    while it awaits a future cancels the future too, as in CPython: shield() prevents that. The
    methods may be called from tasks and from micropython.schedule callbacks, not from hard
    interrupts. Another thread calls Loop.call_soon_threadsafe(future.set_result, result)."""

    def __init__(self):
        # As in a Task: state is the queue of the tasks that wait, then False; data is None, then
        # the exception that holds the result.
        self.state = core.TaskQueue()
        self.data = None
        self._callbacks = []  # (WhenDone, function)

    def __iter__(self):
        if self.state:
            t = core.cur_task or core.current_task()
            queue = self.state
            try:
                queue.push(t)
                t.data = self
                if not self.state:
                    t.data = None  # a scheduled callback has set it, and queued the task
                yield
            except BaseException:
                # It may be a KeyboardInterrupt ahead of the yield: see Event.wait().
                queue.remove(t)
                t.data = None
                raise
        return self.result()

    __await__ = __iter__

    def remove(self, task):
        # Called by Task.cancel().
        self.state.remove(task)
        self._end(core.CancelledError())

    def _end(self, exc):
        if not self.state:
            raise InvalidStateError("Future: its result is set already")
        waiting = self.state
        self.data = exc
        self.state = False
        while waiting.peek():
            core.wake(waiting.pop())

    def done(self):
        """True (bool) if the result is set, or the future cancelled."""
        return not self.state

    def cancelled(self):
        """True (bool) if it is cancelled."""
        return isinstance(self.data, core.CancelledError)

    def cancel(self):
        """Raises CancelledError in the tasks that wait. Returns False if it is done already."""
        if not self.state:
            return False
        self._end(core.CancelledError())
        return True

    def set_result(self, result):
        """Sets the result (any object). InvalidStateError if it is done."""
        self._end(StopIteration(result))

    def set_exception(self, exception):
        """Sets the exception (or its class) that is raised in the tasks that wait.
        InvalidStateError if it is done."""
        if isinstance(exception, type):
            exception = exception()
        if not isinstance(exception, BaseException) or isinstance(exception, StopIteration):
            raise TypeError("set_exception: exception must be one, and no StopIteration")
        self._end(exception)

    def result(self):
        """The result; raises the exception that is set. InvalidStateError if it is not done."""
        if self.state:
            raise InvalidStateError("Future: its result is not set")
        if isinstance(self.data, StopIteration):
            return self.data.value
        raise self.data

    def exception(self):
        """The exception that is set, or None. CancelledError if it is cancelled,
        InvalidStateError if it is not done."""
        if self.state:
            raise InvalidStateError("Future: its result is not set")
        if self.cancelled():
            raise self.data
        return None if isinstance(self.data, StopIteration) else self.data

    def add_done_callback(self, fn):
        """Has the loop call fn(future) when it is done."""
        self._callbacks.append((WhenDone(self, fn), fn))

    def remove_done_callback(self, fn):
        """Undoes all add_done_callback(fn); returns how many (int) those were."""
        found = [entry for entry in self._callbacks if entry[1] == fn]
        for entry in found:
            entry[0].stop()
            self._callbacks.remove(entry)
        return len(found)


def isfuture(obj):
    """True (bool) for a Future or a Task."""
    return isinstance(obj, (Future, core.Task))


async def _await(aw):
    return await aw


_Coroutine = type(_await(None))


def iscoroutine(obj):
    """True (bool) for a coroutine, as calling an `async def` returns it. It is True for a
    generator too: MicroPython does not tell them apart."""
    return isinstance(obj, _Coroutine)


def ensure_future(aw):
    """A Task that runs the coroutine or other awaitable aw; aw itself if it is a Task or Future.
    TypeError if it cannot be awaited."""
    if isfuture(aw):
        return aw
    if not iscoroutine(aw):
        if not (hasattr(aw, "__iter__") or hasattr(aw, "__await__")):
            raise TypeError("an awaitable is required, not %r" % aw)
        aw = _await(aw)
    return core.create_task(aw)


def _futures(name, aws, coroutines=False):
    # A list of the different tasks and futures in aws.
    if isfuture(aws) or iscoroutine(aws):
        raise TypeError(name + ": aws must be an iterable of awaitables")
    found = []
    for aw in aws:
        if not coroutines and not isfuture(aw):
            raise TypeError(name + ": aws must be Tasks or Futures")
        if aw not in found:
            found.append(aw)
    return [ensure_future(aw) for aw in found]


def _failed(future):
    return not isinstance(future.data, (StopIteration, core.CancelledError))


class _Completed:
    # Collects those of some futures that have ended, and sets an event when they are enough.

    def __init__(self, futures, delay, name, when):
        self._done = []
        self._left = len(futures)
        self._when = when
        self._changed = Event()
        self._late = False
        self._timer = None
        if delay is not None:
            delay = ticks_in(delay, 1000, name + ": timeout")
        self._watches = [WhenDone(f, self._ended) for f in futures]
        if delay is not None:
            self._timer = Handle(delay, self._expired, ())

    def _ended(self, future):
        self._left -= 1
        self._done.append(future)
        if (
            not self._left
            or self._when == FIRST_COMPLETED
            or self._when == FIRST_EXCEPTION
            and _failed(future)
        ):
            self._changed.set()

    def _expired(self):
        self._late = True
        self._stop()
        self._changed.set()

    def _stop(self):
        while self._watches:
            self._watches.pop().stop()
        if self._timer:
            self._timer.cancel()


async def wait(aws, *, timeout=None, return_when=ALL_COMPLETED):
    """Waits for Tasks and Futures; returns two sets of them: those that have ended, the others.

    aws: an iterable, not empty; timeout: seconds (int or float), None for no limit: then it
    returns, and cancels nothing; return_when: ALL_COMPLETED, FIRST_COMPLETED, or FIRST_EXCEPTION,
    which ends at the first that raises. TypeError for coroutines, ValueError for an empty aws or
    another return_when."""
    futures = _futures("wait", aws)
    if not futures:
        raise ValueError("wait: aws must not be empty")
    if return_when not in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED):
        raise ValueError("wait: return_when must be one of the three constants")

    completed = _Completed(futures, timeout, "wait", return_when)
    try:
        await completed._changed.wait()
    finally:
        completed._stop()
    for f in futures:
        if not f.state:
            iter(f)  # its exception is for the caller
    return {f for f in futures if not f.state}, {f for f in futures if f.state}


class _AsCompleted(_Completed):
    # Both an iterator of awaitables and an asynchronous iterator of futures.

    def __init__(self, futures, delay):
        super().__init__(futures, delay, "as_completed", FIRST_COMPLETED)
        self._given = len(futures)

    def __iter__(self):
        return self

    def __next__(self):
        if not self._given:
            raise StopIteration
        self._given -= 1
        return self._result()

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self._given:
            raise StopAsyncIteration
        self._given -= 1
        return await self._next()

    async def _result(self):
        return await (await self._next())

    async def _next(self):
        while not self._done:
            if self._late:
                raise core.TimeoutError
            self._changed.clear()
            await self._changed.wait()
        return self._done.pop(0)


def as_completed(aws, *, timeout=None):
    """Runs awaitables side by side. `async for task in as_completed(aws)` gives their Tasks in the
    order in which they end; `for aw in as_completed(aws)` gives as many awaitables, of which each
    gives the next result. TimeoutError after timeout seconds (int or float; None: no limit)."""
    return _AsCompleted(_futures("as_completed", aws, True), timeout)


def shield(aw):
    """Runs aw (an awaitable), and returns a Future of its result: if the task that awaits this is
    cancelled, aw goes on."""
    inner = ensure_future(aw)
    if not inner.state:
        return inner
    outer = Future()

    def ended(inner):
        if outer.state:
            outer._end(inner.data)

    WhenDone(inner, ended)
    return outer
