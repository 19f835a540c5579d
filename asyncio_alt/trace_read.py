"""The records in the ring of trace.py, as a story, as sums and as text for a PC.

Its names are to be had from trace."""

from time import ticks_ms, ticks_us

from micropython import const

from . import core, trace
from .ioqueue import IOQueue

_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_HEAD = const(8)  # of the ring; see trace.py
_LAPS = const(2)
_SIZE = const(3)
_PRIORITY = const(1)
_HANDED_ON = const(2)
_NEAR = const(100)  # us
_MS = const(1000)
_new = object()


def lost():
    """How many events (int) have been overwritten by later ones since start()."""
    p = trace._ring
    return ((p[_LAPS] - 1) * p[_SIZE] + trace._next()) // 2 if p and p[_LAPS] else 0


def _now():
    # The same moment by both clocks, in us and ms: when ms changes.
    for _ in range(9):
        us = ticks_us()
        ms = now = ticks_ms()
        while now == ms:
            before = us
            us = ticks_us()
            now = ticks_ms()
        us = ticks_us()
        if us - before < _NEAR:
            break  # else something came in between
    return us & _MASK, now & _MASK


def records():
    """Yields the records, oldest first, as tuples `(what, begin, length, task, why, late)`.
    begin is in us since the oldest event, length in us.

        "run"    the Task task ran; why: "start" (for the first time since start()), "yield" (it
                 had let others run), "timer", "flag", "io", "priority flag", "priority io", "task"
                 (woken by another task or a callback), "priority task" (it waited for one that
                 had priority), None (not known any more); late: for how many us it was ready
                 before, which for "start", "task" and at times for "io" is known in whole ms only
        "wake"   a flag made the Task task ready, why as above
        "poll"   the loop looked for I/O
        "sleep"  the loop waited for something to do

    The time between them is the loop's own, and that of callbacks. It must be less than 18
    minutes. Don't await between two tuples in a loop that is recorded."""
    p = trace._ring
    objs = trace._objs
    # How old the oldest event is, to have keys, which are in ms, on the same scale.
    us, ms = _now()
    age = 0
    t = None
    for i in trace._places():
        prev = t
        t = p[_HEAD + i]
        if prev is not None:
            age += (t - prev) & _MASK
    if t is None:
        return
    age += (us - t) & _MASK
    seen = {}  # Task -> (since when it is ready, why) or (when its last run ended, its data)
    handed_on = {}  # key -> when
    run = None  # the one of which the end comes next
    polled = 0  # when the last poll ended
    window = -1000 * core.ahead
    now = 0
    t = p[_HEAD + next(trace._places())]
    for i in trace._places():
        prev = t
        t = p[_HEAD + i]
        now += (t - prev) & _MASK
        key = p[_HEAD + 1 + i]
        task = objs[i]
        what = objs[i + 1]
        told = task and isinstance(what, int)  # else it is a run, if there is a task
        if told and what == _HANDED_ON:
            handed_on[key] = now
            continue
        begin = now if task else max(0, now - ((t - key) & _MASK))
        if run:
            yield _ended(run, begin, seen)
            run = None
        if not task:
            if what is not None:
                polled = now
                yield "sleep" if what else "poll", begin, now - begin, None, None, 0
        elif told:
            why = "priority flag" if what == _PRIORITY else "flag"
            seen[task] = now, why
            yield "wake", now, 0, task, why, 0
        else:
            due = age + (((key - ms + _HALF) & _MASK) - _HALF) * 1000
            since, why = seen.get(task, (0, _new))
            if isinstance(why, str):
                pass
            elif handed_on.get(key, -1) >= since:
                since = handed_on[key]
                why = "priority task"
            elif why is None:
                why = "yield"
                if due > since + _NEAR:
                    since = due
                    why = "timer"
            elif isinstance(why, IOQueue):
                why = "io"
                if 0 <= polled - due - window < _MS:
                    due += window
                    why = "priority io"
                since = polled if 0 <= polled - due < _MS else max(since, due + _MS)
            else:
                since = max(since, due + _MS)
                why = "task" if why is not _new else None if p[_LAPS] else "start"
            run = now, task, why, max(0, now - since), what
    if run:
        yield _ended(run, age, seen)


def _ended(run, end, seen):
    begin, task, why, late, data = run
    seen[task] = end, data
    return "run", begin, end - begin, task, why, late


def name(task):
    """The name (str) of the coroutine that the Task task runs."""
    try:
        text = repr(task.coro)
    except Exception:  # a class of the program's own
        text = "'" + type(task.coro).__name__
    return text.split("'")[1] if "'" in text else text[1:].split(" ")[0]


def stats():
    """Sums up the ring: returns a dict with us, the time from the oldest event to the
    newest; sleep, how much of it the loop waited; and tasks, a dict from names of coroutines to
    tuples: how many tasks, how many runs, us of them all, us of the longest, median and longest us
    that one was ready before it ran."""
    tasks = {}
    end = sleep = 0
    for what, begin, length, task, why, late in records():
        end = begin + length
        if what == "sleep":
            sleep += length
        elif what == "run":
            row = tasks.setdefault(name(task), (set(), [], []))
            row[0].add(task)
            row[1].append(length)
            row[2].append(late)
    for key, (who, runs, lates) in tasks.items():
        lates.sort()
        half = lates[len(lates) // 2]
        tasks[key] = len(who), len(runs), sum(runs), max(runs), half, lates[-1]
    return {"us": end, "sleep": sleep, "tasks": tasks}


def dump():
    """Prints the ring, for `python3 -m tools trace`, which makes a picture of it."""
    ids = {}
    print("#TRACE begin", lost())
    for what, begin, length, task, why, late in records():
        if task is None:
            print("#TRACE", what, begin, length)
            continue
        if task not in ids:
            ids[task] = len(ids) + 1
            print("#TRACE task", ids[task], repr(name(task)))  # which may be anything
        if what == "run":
            print("#TRACE run", begin, length, ids[task], str(why).replace(" ", "-"), late)
        else:
            print("#TRACE wake", begin, ids[task], why.replace(" ", "-"))
    print("#TRACE end")
