"""The recent past of the loop: a ring that records runs of tasks, wake-ups, polls and sleeps.

The loop knows nothing of it, so it costs nothing while it is off: start() puts recording functions
in the place of those that the loop takes when it begins to run, and of those that it looks up when
it waits. This module records; trace_read.py makes sense of it."""

import sys
from array import array
from time import ticks_us

from micropython import const

from . import core

try:
    from .idle import _idle as _loops_idle

    _idle_module = sys.modules[core.__name__[:-4] + "idle"]
except ImportError:  # not installed: the loop sleeps in its poll only
    _idle_module = None

_MASK = const(0x3FFFFFFF)  # times are kept modulo 2**30, the period of ticks on small ports
_MAX_MS = const(500000)
_MAX_SIZE = const(100000)

# The ring is an array and a list, with two places each for a record:
#   _ring   after a head of 8: when a run began, a wake-up was, a poll or sleep ended, in us;
#           the key of the task that runs, or that is handed on; when the poll or sleep began
#   _objs   the task, None for a poll or sleep;
#           a run: the object that the task has waited for since, its data; a wake-up: one of the
#           ints below; a poll or sleep: for how many ms, an int; only the end of a run: None
# At the end of _objs are the function that tells of a run that took too long, and a spare place.
_HEAD = const(8)
_NEXT = const(0)  # place of the next record; _SIZE: nothing is recorded
_DATA = const(1)  # place in _objs for the data of the task that runs; the spare one: none does
_LAPS = const(2)  # how often the ring went round
_SIZE = const(3)  # places in a lap
_SINCE = const(4)  # begin of the current run, poll or sleep
_LIMIT = const(5)  # how long that may take, in us
_LAST = const(6)  # _NEXT when recording was stopped

_FLAG = const(0)  # a flag woke the task
_PRIORITY = const(1)  # so, with priority
_HANDED_ON = const(2)  # the task has ended, and hands its priority on with this key

_makers = None  # trace_code.makers(), once it was called

_ring = None
_objs = None
_push = None  # the task queue's push, for the loop that runs
_tapped = False  # the loop that runs calls our run()


class _Nobody:
    data = None  # stands for the task that ran last, before there is one


def _make(maker, *args):
    return _makers[maker](*args, _makers["address"](_ring), _objs, ticks_us)


def _blocked(us):
    # Allocates nothing, as the heap may be locked.
    i = _ring[_DATA]
    who = _objs[i - 1].coro if i < _ring[_SIZE] else "callbacks"
    print("trace: blocked for", us // 1000, "ms by", who, file=sys.stderr)


def _recording():
    return _ring is not None and _ring[_NEXT] < _ring[_SIZE]


def _begin():
    # Something else than a run begins; returns when.
    p = _ring
    now = ticks_us() & _MASK
    passed = (now - p[_SINCE]) & _MASK
    if passed > p[_LIMIT]:
        _blocked(passed)
    i = p[_DATA]
    if i < p[_SIZE]:
        _objs[i] = _objs[i - 1].data
        p[_DATA] = p[_SIZE] + 1
    p[_SINCE] = now
    return now


def _put(task, what, now, begin):
    # Add a record of something else than a run.
    p = _ring
    i = p[_NEXT]
    if i == p[_SIZE]:
        return  # stopped by a callback just now
    _objs[i] = task
    _objs[i + 1] = what
    p[_HEAD + i] = now
    p[_HEAD + 1 + i] = begin
    i += 2
    if i == p[_SIZE]:
        i = 0
        p[_LAPS] += 1
    p[_NEXT] = i


################################################################################
# Functions that are put in the place of parts of the loop, and call these


def _queue_methods():
    global _push
    peek, pop, _push = _loops_queue_methods()
    return peek, _make("make_run", pop, _Nobody), _push


class _Poller:
    def __init__(self, poller):
        self.poller = poller
        self.register = poller.register
        self.modify = poller.modify
        self.unregister = poller.unregister
        self.ipoll = _make("make_poll", poller.ipoll)


def _run(main_task=None):
    global _tapped
    if core.running:
        return _loops_run(main_task)  # which raises
    _tapped = True
    _ring[_SINCE] = ticks_us() & _MASK  # the time before is no part of the loop
    try:
        return _loops_run(main_task)
    finally:
        _tapped = False
        if _recording():
            _mark()
        else:
            _uninstall()


def _mark():
    # The last run has ended.
    now = _begin()
    _put(None, None, now, now)


def _new_poller():
    _loops_new_poller()
    core.poller = _Poller(core.poller)


def _push_flag(task, key=None):
    now = _begin()
    if key is None:
        _push(task)
        _put(task, _FLAG, now, 0)
    else:
        _push(task, key)
        _put(task, _PRIORITY, now, 0)


def _heir(task):
    key = _loops_heir(task)
    if core.ticks_diff(key, core.ticks()) <= core.ahead:
        _put(task, _HANDED_ON, ticks_us() & _MASK, key & _MASK)
    return key


def _answer():
    _mark()  # so that the callbacks are not taken for a part of the run
    push = core.push
    core.push = _push_flag
    woken = _loops_answer()
    core.push = push
    return woken


def _idle(ms):
    begin = _begin()
    n = _loops_idle(ms)
    now = _begin()
    _put(None, ms, now, begin)
    return n


_loops_run = core.run_until_complete
_loops_queue_methods = core.queue_methods
_loops_new_poller = core.new_poller
_loops_heir = core.heir
_loops_answer = core.answer


def _install():
    core.run_until_complete = _run
    core.queue_methods = _queue_methods
    core.heir = _heir
    core.answer = _answer
    core.new_poller = _new_poller
    core.poller = _Poller(core.poller)
    if _idle_module:
        _idle_module._idle = _idle
        if core.idle is _loops_idle:
            core.idle = _idle


def _uninstall():
    if not _tapped:
        core.run_until_complete = _loops_run
        core.queue_methods = _loops_queue_methods
    core.heir = _loops_heir
    core.answer = _loops_answer
    core.new_poller = _loops_new_poller
    if isinstance(core.poller, _Poller):
        core.poller = core.poller.poller
    if _idle_module:
        _idle_module._idle = _loops_idle
        if core.idle is _idle:
            core.idle = _loops_idle


################################################################################
# Switching it on and off, and reading the ring


def start(size=256, threshold_ms=None):
    """Empties the ring and records from now on, the last size events (int, 16 to 100000), each of
    which takes 16 bytes on a 32-bit port. Call it before the loop runs; in a loop that runs with
    it, it may be called again, with the same size. A task that runs for more than threshold_ms
    (int, 1 to 500000; None: no limit) without an await is named on sys.stderr when it has.
    TypeError, ValueError for other arguments; RuntimeError in a loop that it was not started
    before. Not to be called from an interrupt."""
    global _ring, _objs, _makers
    _int("size", size, 16, _MAX_SIZE)
    if threshold_ms is not None:
        _int("threshold_ms", threshold_ms, 1, _MAX_MS)
    size *= 2
    if core.running:
        if not _tapped:
            raise RuntimeError("trace.start: call it before the loop runs")
        if size != _ring[_SIZE]:
            raise ValueError("trace.start: the size cannot change while the loop runs")
    elif _ring is None or size != _ring[_SIZE]:
        stop()
        _ring = array("i", bytes(4 * (_HEAD + size)))
        _objs = [None] * size
        _objs += (_blocked, None)
        _ring[_SIZE] = _ring[_NEXT] = size
    if not _makers:
        from .trace_code import makers

        _makers = makers()
    for i in range(size):
        _objs[i] = None
    p = _ring
    p[_LAPS] = 0
    p[_LIMIT] = _MASK if threshold_ms is None else threshold_ms * 1000
    p[_SINCE] = ticks_us() & _MASK
    p[_DATA] = size + 1
    if not _recording():
        _install()
    p[_NEXT] = 0


def stop():
    """Stops recording; the ring stays as it is. In a loop that runs, a call that does nothing is
    left in each pass until it ends. Not to be called from an interrupt."""
    if _recording():
        _mark()
        _ring[_LAST] = _ring[_NEXT]
        _ring[_NEXT] = _ring[_SIZE]
        _uninstall()


def _next():
    p = _ring
    return p[_NEXT] if _recording() else p[_LAST]


def _places():
    # Yields the places of the records, oldest first.
    if _ring:
        if _ring[_LAPS]:
            yield from range(_next(), _ring[_SIZE], 2)
        yield from range(0, _next(), 2)


def __getattr__(attr):
    # records(), stats(), dump(), lost(), name()
    return getattr(__import__("trace_read", globals(), None, (attr,), 1), attr)


def _int(what, value, least, most):
    if not isinstance(value, int):
        raise TypeError("trace.start: %s must be an int" % what)
    if not least <= value <= most:
        raise ValueError("trace.start: %s must be %d to %d" % (what, least, most))
