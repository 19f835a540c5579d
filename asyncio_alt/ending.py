"""The end of run(): it cancels the tasks that are left, and waits for them, but not for ever."""

from micropython import const

from . import core

_LOOK_MS = const(10)  # how often it looks whether they have ended

_limit = 2000


def end_limit(ms=None):
    """Sets and returns how long run() waits at its end for the tasks that it has cancelled, in ms
    (int, 0 to 2**20; at first 2000). They are cancelled again after half of it and after three
    quarters. Those that are left then are dropped, and reported to the exception handler."""
    global _limit
    if ms is not None:
        if not isinstance(ms, int):
            raise TypeError("end_limit: ms must be an int")
        if not 0 <= ms <= 1048576:
            raise ValueError("end_limit: ms must be 0 to 2**20")
        _limit = ms
    return _limit


# Stands for the coroutine of a task that ends after ms, or when the others have ended, or when
# none of them can go on by itself.
class _Watch:
    def __init__(self, ms):
        self.end = core.ticks_add(core.ticks(), ms)

    def send(self, _):
        now = core.ticks()
        left = core.ticks_diff(self.end, now)
        t = core._task_queue.peek()
        if core.tasks:
            going = t or core.streams or core.first_flag
        else:
            going = t and core.ticks_diff(t.ph_key, now) <= 0  # to be reported
        if left <= 0 or not going:
            raise StopIteration
        core.push(core.cur_task, core.ticks_add(now, min(left, _LOOK_MS)))


_turn = core.Task((0 for _ in ()))  # does nothing: when it has ended, all that was ready has run


def end():
    """Called by run(): cancels the tasks that are left, and reports those that do not end."""
    try:
        for t in core.tasks:
            t.cancel()
        for _ in "12":  # they end in the first turn; in the second their exceptions are reported
            _turn.state = True
            core._task_queue.push(_turn)
            core.run_until_complete(_turn)
            if not (core.tasks or core._task_queue.peek()):
                return
        _wait(_limit // 2)
        for _ in "23":
            for t in core.tasks:
                t.cancel()
                if t.data is core.CancelledError:
                    # It is ready, or a KeyboardInterrupt has left it in no queue.
                    core._task_queue.remove(t)
                    core._task_queue.push(t)
                    t.data = core.CancelledError
            _wait(_limit // 4)
    except MemoryError:
        pass
    finally:
        for t in list(core.tasks):
            core.report("Task dropped", RuntimeError("it did not end"), t)


def _wait(ms):
    t = core.Task(_Watch(ms), core.__dict__)
    core._task_queue.push(t)
    core.run_until_complete(t)
