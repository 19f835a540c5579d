"""TaskGroup, and the exceptions of several tasks in one: ExceptionGroup, BaseExceptionGroup."""

import io
import sys

from . import core
from .cancel import CancelledError, answer, asked, repeat, request
from .timer import Alarm, Handle

_ENDS = (StopIteration, core.CancelledError)  # a task that ends with one of these has not failed


class _Group:
    # The part that both classes share. (MicroPython's classes cannot have two exceptions as
    # bases.)

    def _checked(self, message, exceptions):
        name = type(self).__name__
        if not isinstance(message, str):
            raise TypeError(name + ": message must be a str")
        try:
            exceptions = tuple(exceptions)
        except TypeError:
            raise TypeError(name + ": exceptions must be a sequence")
        if not exceptions:
            raise ValueError(name + ": exceptions must not be empty")
        for exc in exceptions:
            if not isinstance(exc, BaseException):
                raise ValueError("%s: %r in exceptions is no exception" % (name, exc))
            if isinstance(self, Exception) and not isinstance(exc, Exception):
                raise TypeError("%s: %r in exceptions is no Exception" % (name, exc))
        self.message = message
        self.exceptions = exceptions
        return message, exceptions

    def __str__(self):
        n = len(self.exceptions)
        return "%s (%d sub-exception%s)" % (self.message, n, "" if n == 1 else "s")

    def __repr__(self):
        # MicroPython shows this below a traceback.
        lines = ["%s: %s" % (type(self).__name__, self)]
        for n, exc in enumerate(self.exceptions, 1):
            out = io.StringIO()
            sys.print_exception(exc, out)
            lines.append("  +-- %d --" % n)
            lines.extend(["  | " + line for line in out.getvalue().rstrip().split("\n")])
        return "\n".join(lines)

    def derive(self, exceptions):
        """Returns a group of other exceptions (a sequence) with the same message. subgroup() and
        split() make theirs so."""
        return _of(self.message, exceptions)

    def split(self, condition):
        """Returns two groups, of the exceptions that match and of the others, each None if it
        would be empty, nested as they are here. condition: a class, a tuple of classes, or a
        function that takes an exception."""
        test = condition
        if isinstance(condition, (type, tuple)):

            def test(exc):
                return isinstance(exc, condition)

        elif not callable(condition):
            raise TypeError("split: condition must be a class, a tuple of them or a function")
        if test(self):
            return self, None
        parts = [], []
        for exc in self.exceptions:
            if isinstance(exc, _Group):
                for part, found in zip(parts, exc.split(test)):
                    if found:
                        part.append(found)
            else:
                parts[0 if test(exc) else 1].append(exc)
        return tuple([self.derive(part) if part else None for part in parts])

    def subgroup(self, condition):
        """Returns the group of the exceptions that match, or None: see split()."""
        return self.split(condition)[0]


class BaseExceptionGroup(_Group, BaseException):
    """Exceptions of any class. message: str; exceptions: a sequence, not empty. TypeError or
    ValueError for others."""

    def __init__(self, message, exceptions):
        super().__init__(*self._checked(message, exceptions))


class ExceptionGroup(_Group, Exception):
    """As BaseExceptionGroup, of exceptions that `except Exception` gets, as it gets this one."""

    def __init__(self, message, exceptions):
        super().__init__(*self._checked(message, exceptions))


def _of(message, exceptions):
    for exc in exceptions:
        if not isinstance(exc, Exception):
            return BaseExceptionGroup(message, exceptions)
    return ExceptionGroup(message, exceptions)


# The task of a group waits on this until all others have ended: it is in no queue.
class _Parked:
    @staticmethod
    def remove(task):
        pass


class _Child:
    # Called with a task of the group where that ends. It is in core.tasks, and has the name.

    def __init__(self, group, name):
        self.group = group
        self.name = name
        # Here, so that the end of a task needs no memory.
        self.task = self.er = self.next = None

    def __call__(self, t, er):
        # Nothing follows from the end of one that has not failed, but of the last.
        group = self.group
        tasks = group._tasks
        if len(tasks) > 1 and isinstance(er, _ENDS):
            del tasks[t]
        else:
            self.task = t
            self.er = er
            group._alarm.add(self)


class _Over(Alarm):
    # Calls _over() for the tasks that have ended: a turn later, as in CPython.
    def __init__(self, group):
        super().__init__()
        self._group = group
        self._first = self._last = None  # a chain of _Child

    def add(self, child):
        if self._first:
            self._last.next = child
        else:
            self._first = child
            self._set(core.heir(child.task))
        self._last = child

    def _ring(self):
        while self._first:
            child = self._first
            self._first = child.next
            self._group._over(child.task, child.er, core.heir(self._task))


class TaskGroup:
    """Tasks that end together. `async with` waits for all tasks of create_task(). If one of them
    or the body raises, the others are cancelled; when they have ended, an ExceptionGroup of all
    that they have raised is raised. If the task in `async with` is cancelled, they are too."""

    def __init__(self):
        self._parent = None
        self._exiting = False
        self._aborting = False
        self._requested = False  # the parent is cancelled because a task has failed
        self._tasks = {}
        self._errors = []
        self._alarm = _Over(self)

    async def __aenter__(self):
        if self._parent:
            raise RuntimeError("TaskGroup: entered twice")
        self._parent = core.current_task()
        return self

    def create_task(self, coro, *, name=None):
        """Makes a Task of the group that runs the coroutine coro; returns the Task. RuntimeError
        if the group was not entered, has ended, or is cancelling its tasks. name: as for
        set_name()."""
        if self._parent and not self._aborting and (self._tasks or not self._exiting):
            t = core.create_task(coro)
            try:
                core.tasks[t] = _Child(self, name and str(name))
                self._tasks[t] = None
            except BaseException:  # MemoryError: nobody would tell of its end
                core.tasks[t] = None
                t.cancel()
                raise
            return t
        if not self._parent:
            why = "not entered"
        elif self._exiting and not self._tasks:
            why = "over"
        else:
            why = "cancelling its tasks"
        coro.close()
        raise RuntimeError("TaskGroup: " + why)

    def _abort(self):
        self._aborting = True
        for t in self._tasks:
            t.cancel()

    def _over(self, t, er, key):
        self._tasks.pop(t, None)
        parent = self._parent
        if not self._tasks and parent.data is _Parked:
            core.push(parent, key)
        if isinstance(er, _ENDS):
            return
        self._errors.append(er)
        if not parent.state:
            core.report("A task of a group whose parent has ended raised", er, t)
        elif not self._aborting and not self._requested:
            self._abort()
            self._requested = True
            request(parent, self)

    async def __aexit__(self, exc_type, exc, tb):
        self._exiting = True
        cancelled = exc if isinstance(exc, core.CancelledError) else None
        outside = cancelled and not isinstance(exc, CancelledError)
        if exc_type is not None and not self._aborting:
            self._abort()
        while self._tasks:
            try:
                await _Parking(self._parent)
            except core.CancelledError as er:
                outside = outside or not isinstance(er, CancelledError)
                if not self._aborting:
                    cancelled = er
                    self._abort()
        for er in [exc] + self._errors:
            if isinstance(er, (KeyboardInterrupt, SystemExit)):
                raise er
        parent = self._parent
        if answer(parent, cancelled, self):
            cancelled = None
        if cancelled and not self._errors:
            raise cancelled
        if exc_type and not isinstance(exc, core.CancelledError):
            self._errors.append(exc)
        if self._errors:
            if outside or asked(parent):
                # The errors take the place of the cancellation, which comes at the next await.
                Handle(core.ticks(), repeat, (parent, outside))
            errors = self._errors
            self._errors = []
            raise _of("unhandled errors in a TaskGroup", errors)


class _Parking:
    # Awaitable that waits until _ended() has seen the last task.
    def __init__(self, parent):
        self._parent = parent

    def __iter__(self):
        self._parent.data = _Parked
        yield
