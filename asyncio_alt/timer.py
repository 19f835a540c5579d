"""Loop.time(), call_soon(), call_later() and call_at(): moments of the loop's clock, and callbacks
that the loop calls at one."""

from micropython import const

from . import core

_LIMIT = const(518400000)  # 6 days in ms: the clock goes round in twelve


class Time:
    """A moment, as Loop.time() returns it. time + s and time - s are moments s seconds (int or
    float) later or earlier, time - time is seconds (float), and moments compare. It is no float,
    which on a microcontroller tells no ms apart after five hours. Two moments must be less than
    six days apart."""

    def __init__(self, ticks):
        self.ticks = ticks  # ms, as of time.ticks_ms()

    def __add__(self, s):
        return Time(core.ticks_add(self.ticks, round(s * 1000)))

    __radd__ = __add__

    def __sub__(self, other):
        if isinstance(other, Time):
            return core.ticks_diff(self.ticks, other.ticks) / 1000
        return self + -other

    def __lt__(self, other):
        return core.ticks_diff(self.ticks, other.ticks) < 0

    def __le__(self, other):
        return core.ticks_diff(self.ticks, other.ticks) <= 0

    def __gt__(self, other):
        return other < self

    def __ge__(self, other):
        return other <= self

    def __eq__(self, other):
        return isinstance(other, Time) and self.ticks == other.ticks

    def __hash__(self):
        return self.ticks

    def __repr__(self):
        return "Time(%d)" % self.ticks


def time():
    """The moment (Time) that it is."""
    return Time(core.ticks())


def ticks_of(when, name):
    """The ticks of a Time; TypeError that has the name (str) of the argument."""
    if isinstance(when, Time):
        return when.ticks
    raise TypeError(name + " must be a time that Loop.time() has given, or such a time + s")


def ticks_in(delay, per, name):
    """The ticks in delay (int or float; less than 0 is as 0) * per ms. TypeError or ValueError
    that has the name (str) of the argument."""
    try:
        ms = max(int((delay + 0) * per), 0)
    except TypeError:
        raise TypeError(name + " must be an int or float")
    except (OverflowError, ValueError):  # infinite, or no number
        ms = _LIMIT
    if ms < _LIMIT:
        return core.ticks_add(core.ticks(), ms)
    raise ValueError(name + " must be less than 6 days")


class Alarm:
    """Stands for a coroutine in the queue of the loop, which calls _ring() when it is time."""

    def __init__(self):
        self._task = core.Task(self, core.__dict__)
        self._queue = None  # the queue that it is in

    def _set(self, ticks):
        self._stop()
        self._queue = core._task_queue
        self._queue.push(self._task, ticks)
        if core.asleep:
            core.ring(b"\0")

    def _stop(self):
        if self._queue:
            self._queue.remove(self._task)
            self._queue = None

    def send(self, _):
        # Called by the loop. The callback is no task.
        self._queue = core.cur_task = None
        try:
            self._ring()
        except Exception as er:
            core.report("Exception in callback", er)
        raise StopIteration


class Handle(Alarm):
    """A callback that waits to be called, as Loop.call_soon(), call_later() and call_at() return
    it."""

    def __init__(self, ticks, callback, args):
        if not callable(callback):
            raise TypeError("callback must be callable")
        super().__init__()
        self._ticks = ticks
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._set(ticks)

    def cancel(self):
        """Has the callback not be called. Does nothing if it was called."""
        self._cancelled = True
        self._stop()
        self._callback = self._args = None

    def cancelled(self):
        """True (bool) after cancel()."""
        return self._cancelled

    def when(self):
        """The moment (Time) at which it is to be called."""
        return Time(self._ticks)

    def _ring(self):
        self._callback(*self._args)


class WhenDone(Alarm):
    """Has fn(task) called by the loop when the task has ended, as add_done_callback() of CPython's
    tasks does; the task's exception counts as retrieved then."""

    def __init__(self, task, fn):
        super().__init__()
        self._fn = fn
        self._of = task
        self._loop = core._task_queue
        iter(task)  # makes its state a queue, or says that the exception is retrieved
        if task.state:
            task.state.push(self._task)
            self._queue = task.state
        else:
            self._set(core.ticks())

    def stop(self):
        """Has it not be called."""
        t = self._of
        if self._loop is core._task_queue:
            if not t.state:
                self._queue = self._queue and self._loop  # where the end of the task has put it
            self._stop()
            if t.state and isinstance(t, core.Task) and not t.state.peek():
                t.state = True  # nobody waits for it

    def _ring(self):
        self._fn(self._of)
