"""timeout(), timeout_ms() and timeout_at(): a deadline for the body of an `async with`."""

from micropython import const

from . import core
from .cancel import answer, asked, request
from .timer import Alarm, Time, ticks_in, ticks_of

_NEW = const(0)
_ENTERED = const(1)
_EXPIRED = const(2)
_EXITED = const(3)


class Timeout(Alarm):
    """A deadline, as timeout() makes it. When it has passed, the task in `async with` is
    cancelled, and TimeoutError is raised where the `async with` ends; CancelledError if others
    have cancelled the task too. A Timeout serves once."""

    def __init__(self, ticks):
        super().__init__()
        self._ticks = ticks  # None: no deadline
        self._state = _NEW
        self._for = None  # the task
        self._before = 0  # what asked() was

    def when(self):
        """The deadline (Time), or None."""
        return None if self._ticks is None else Time(self._ticks)

    def reschedule(self, when):
        """Moves the deadline to when (Time; None: no deadline). One that has passed expires at the
        next await. RuntimeError outside the `async with`, and if it has expired."""
        ticks = None if when is None else ticks_of(when, "reschedule: when")
        if self._state != _ENTERED:
            raise RuntimeError("Timeout: not entered, or over")
        self._ticks = ticks
        self._begin()

    def expired(self):
        """True (bool) if the deadline has passed within the `async with`."""
        return self._state == _EXPIRED

    def _begin(self):
        ticks = self._ticks
        if ticks is None:
            self._stop()
            return
        now = core.ticks()
        self._set(ticks if core.ticks_diff(ticks, now) > 0 else now)

    def _ring(self):
        self._state = _EXPIRED
        request(self._for, self)

    async def __aenter__(self):
        if self._state != _NEW:
            raise RuntimeError("Timeout: entered twice")
        self._for = t = core.current_task()
        self._before = asked(t)
        self._state = _ENTERED
        self._begin()
        return self

    async def __aexit__(self, exc_type, exc, tb):
        self._stop()
        t = self._for
        self._for = None
        if self._state == _ENTERED:
            self._state = _EXITED
        elif answer(t, exc, self, self._before):
            raise core.TimeoutError


def timeout(delay):
    """Returns a Timeout for `async with`. delay: seconds (int or float) from now; None: no limit;
    0 or less: it expires at the first await. TypeError or ValueError for another delay."""
    return Timeout(None if delay is None else ticks_in(delay, 1000, "timeout: delay"))


def timeout_ms(delay):
    """As timeout(), with delay in ms (int)."""
    return Timeout(None if delay is None else ticks_in(delay, 1, "timeout_ms: delay"))


def timeout_at(when):
    """As timeout(), with the deadline when (Time, as Loop.time() + s)."""
    return Timeout(None if when is None else ticks_of(when, "timeout_at: when"))
