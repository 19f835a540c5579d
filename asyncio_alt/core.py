"""The clock, the tasks and the run loop.

It is longer than other modules: C code looks for cur_task and _task_queue among the globals of
one module, and a second .mpy would take more flash.

Other modules use the names that do not begin with `_`, and _io_queue, _task_queue and
_promote_to_task, which are stock's. Who writes the variables and replaces the functions:

    name                written by                     read by
    _io_queue           core                           many
    _task_queue         core                           many
    ahead               ioqueue                        core ioqueue pubsub trace trace_read
    answer              trace                          core ioqueue trace
    asleep              core ioqueue                   core event pubsub timer
    claimed             claim core                     core loop
    cur_task            core ioqueue irq polled timer  many
    drop                ioqueue                        core
    ender               core loop                      core loop
    first_flag          core event                     core ending event
    heir                trace                          core funcs group trace
    idle                idle trace                     core trace
    io_ahead            ioqueue                        core ioqueue
    last_flag           core event                     event
    new_poller          trace                          core ioqueue trace
    poller              core ioqueue trace             core ioqueue trace
    push                core trace                     core ending funcs group ioqueue trace
    queue_methods       trace                          core trace
    run_calls           loop                           core
    run_until_complete  trace                          core ending loop trace
    running             core                           core loop runner trace
    tell                loop                           core
"""

import select
import sys
from time import ticks_add, ticks_diff
from time import ticks_ms as ticks

if sys.platform in ("linux", "darwin"):
    try:
        from . import wake_unix as bell
    except Exception:  # there are no threads, or no network, not even the loopback
        from . import wake as bell
else:
    from . import wake as bell

try:
    from _asyncio import Task, TaskQueue
except ImportError:
    from .task import Task, TaskQueue


class CancelledError(BaseException):
    """Raised in a task that is cancelled."""


class TimeoutError(Exception):
    """Raised by wait_for() and wait_for_ms()."""


cur_task = None  # the task that runs; None while the loop sleeps and outside it
running = False  # a loop is running
ender = None  # set by new_event_loop(): when this task ends, the loop ends, as with the main task
_left = False  # run() has begun, and all that it has made has not been forgotten yet
asleep = False  # it is in a poll that blocks, or is about to be
claimed = False  # no other asyncio has tasks in this program
# Every task that has not ended, and its name or a group._Child, which is called when it ends. No
# set: one that finds no memory to grow crashes MicroPython.
tasks = {}
streams = {}  # the streams that ioqueue.IOQueue waits for
first_flag = None  # first and last of the linked list of waiting ThreadSafeFlags
last_flag = None
run_calls = None  # the run() of loop.Calls, once there is a Loop
drop = None  # ioqueue._drop, once that is loaded: drops all transports and servers
idle = int  # called with how long to wait, returns how long to poll; else idle.set_idle_hook()'s
io_ahead = False  # I/O runs ahead of what is ready; False: it takes its turn, roundrobin()
ring = bell.ring
once = bell.once
ahead = -1000  # ms that a priority wake-up adds to the clock: minus the priority window


################################################################################
# Sleep


# Yields once, and allocates nothing: one object serves every sleep, because nothing runs
# between the call that arms it and the await that uses it.
class SingletonGenerator:
    def __init__(self):
        self.state = None  # the ticks at which the task is to run
        self.exc = StopIteration()

    if once:

        def __iter__(self, once=once):
            # First the state, which was just looked up: MicroPython keeps the places of names in a
            # small table, where cur_task may have the same entry.
            key = self.state
            push(cur_task, key)
            return once(0)

    else:

        def __iter__(self):
            return self

        def __next__(self):
            key = self.state
            if key is None:
                self.exc.__traceback__ = None
                raise self.exc
            self.state = None
            push(cur_task, key)


def sleep_ms(t, sgen=SingletonGenerator()):
    """Awaitable that pauses the task for t ms (int; less than 0 is as 0)."""
    try:
        # Ahead of a jump, at which a callback may take its time. It has no local of its own, as a
        # frame of more than 11 words is taken from the heap.
        sgen.state = ticks()
        if t > 0:
            sgen.state = ticks_add(sgen.state, t)
    except TypeError:
        raise TypeError("sleep: delay must be a number (ms: an int)")
    return sgen


def sleep(t):
    """Awaitable that pauses the task for t seconds (int or float; less than 0 is as 0)."""
    try:
        t = int((t + 0) * 1000)
    except (TypeError, ValueError):
        t = None
    return sleep_ms(t)


################################################################################
# Tasks


def no_loop(t, key=None):
    raise RuntimeError("no running event loop")


push = no_loop  # the task queue's push, while the loop runs


def wake(t):
    # Queue a task that waited; a scheduled callback may do so while the loop sleeps.
    _task_queue.push(t)
    if asleep:
        ring(b"\0")


def claim():
    # The C module has one context for all: from here on no other asyncio may make a task.
    global claimed
    modules = sys.modules
    if "asyncio.core" not in modules:
        # One that is imported later is this one.
        modules["asyncio"] = modules[__name__[:-5]]
        modules["asyncio.core"] = modules[__name__]
    elif __name__ != "asyncio.core":
        from .claim import claim

        claim()
    claimed = True


def _check(coro):
    if not hasattr(coro, "send"):
        raise TypeError("coroutine expected")


def create_task(coro, name=None):
    """Makes a Task that runs the coroutine coro, ready now; returns the Task. name: as for
    set_name(). May be called from a micropython.schedule callback, not from a hard interrupt."""
    _check(coro)
    if not claimed:
        claim()
    t = Task(coro, globals())
    tasks[t] = name and str(name)
    wake(t)
    return t


def _promote_to_task(aw):
    return aw if isinstance(aw, Task) else create_task(aw)


def current_task():
    """The task that runs. RuntimeError outside a task."""
    if cur_task is None:
        no_loop(None)
    return cur_task


def show(message, exc, task):
    # The work of the default exception handler.
    print(message, file=sys.stderr)
    if task:
        print("future:", task, "coro=", task.coro, file=sys.stderr)
    sys.print_exception(exc, sys.stderr)


tell = show  # loop.report, once that is loaded: a load with a full heap may crash MicroPython


def report(message, exc, task=None):
    # Tell the exception handler. Raises no Exception: the loop and the failed part go on.
    try:
        tell(message, exc, task)
    except MemoryError:
        # Without a traceback: MicroPython does not keep the memory of the one exception that it
        # has left when the heap is full.
        exc.__traceback__ = None
        sys.print_exception(exc, sys.stderr)
    except OSError:
        pass  # sys.stderr is closed


def heir(t):
    # The key for a task that goes on because t ended: priority is handed on, as from now.
    now = ticks()
    return ticks_add(now, ahead) if ticks_diff(t.ph_key, now) <= ahead else now


_last = TaskQueue()  # ended tasks pass through, and have its one task for their last child
_last.push(Task(None), 1)
_ENDS = (CancelledError, StopIteration)  # a task that ends with one of these has not failed


def _end(t, er, awaited):
    # Task t has ended with er: wake the tasks that wait for it. If a KeyboardInterrupt ends this
    # halfway, it is called again and does the rest. Whoever sees t.state false may take t.data.
    waiting = t.state
    key = tasks.pop(t, None)
    if not waiting:
        # It had ended in a queue, and has come out of that; or this is the second call.
        if t.data is None:
            t.data = er
        return
    if key and callable(key):
        key(t, er)
        awaited = True
    # Whether t is in no queue. An interrupted task may be in one; others have theirs in data.
    free = not awaited and t.data is None
    if callable(waiting):
        t.state = True
        waiting(t, er)
        awaited = True
    elif waiting is not True:
        while waiting.peek():
            if waiting.peek().state:
                key = heir(t)
                push(waiting.pop(), key)
            else:
                waiting.pop()  # it has ended in the queue
            awaited = True
    if free:
        # It holds on to its last child in a queue, which may have ended too: give it another.
        if _last.peek() is not t:
            _last.push(t, 0)
        while _last.pop() is not t:
            pass  # one that a KeyboardInterrupt has left there
    t.data = er
    if awaited:
        t.state = False
    elif isinstance(er, _ENDS):
        # None: nobody has asked for the result yet.
        t.state = None if waiting is True else False
    else:
        t.state = None
        push(t)  # to be reported when its turn comes, unless somebody asks before
        t.data = er


################################################################################
# The run loop


def answer(clear=bell.clear, buf=bytearray(1)):
    # The bell has rung: wake the tasks that wait for a flag that is set, then run the callbacks.
    # Returns the last of these tasks, or None. It is short, as it lies between an interrupt and
    # the task. A flag's truth would be looked for in its class; hence `is`.
    global first_flag, last_flag, cur_task
    clear(buf)
    prev = t = None
    f = first_flag
    while f is not None:
        nxt = f.next
        if f.state:
            if prev is None:
                first_flag = nxt
            else:
                prev.next = nxt
            t = f.task
            f.task = None
            if f.priority or io_ahead:
                push(t, ticks_add(ticks(), ahead))
            else:
                push(t)
            if nxt is None:
                break
            f.next = None
        else:
            prev = f
        f = nxt
    last_flag = prev
    if run_calls:
        cur_task = None
        run_calls()
    return t


def queue_methods():
    # A run of the loop takes from its queue with these. trace.py puts a function of its own in the
    # place of this one.
    return _task_queue.peek, _task_queue.pop, _task_queue.push


def run_until_complete(main_task=None):
    """Runs tasks until main_task has ended; returns its result or raises its exception.
    Without a main_task: until nothing is left that could go on by itself."""
    global cur_task, running, asleep, push, ender
    if running:
        raise RuntimeError("run() inside a running event loop")
    if main_task and not main_task.state:
        main_task.state = False
        if isinstance(main_task.data, StopIteration):
            return main_task.data.value
        raise main_task.data
    excs = (CancelledError, Exception)
    peek, pop, push = queue_methods()
    rung = bell.rung
    due = None  # a key that has come: a task with the same key needs no look at the clock
    # A local name is faster, and takes the same time whatever it is called.
    now = ticks
    diff = ticks_diff
    polled = streams
    ender = None
    try:
        running = True
        answer()  # for earlier flags and calls; and for a bell that Ctrl-C left ringing
        while True:
            if rung():
                answer()
            t = None if polled else peek()
            if not t or t.ph_key != due:
                # It may not be its time: look once at the streams, sleep until there is a task.
                looked = not polled
                while True:
                    t = peek()
                    if t:
                        dt = diff(t.ph_key, now())
                        if dt <= 0:
                            due = t.ph_key
                            if looked or _io_queue.wait_io_event(0):
                                break
                            looked = True
                            continue  # a callback may have taken it out of the queue
                    elif polled or first_flag is not None:
                        if not (main_task or tasks):
                            return  # there are only transports
                        dt = -1
                    elif main_task:
                        dt = bell.idle
                    else:
                        return
                    due = None
                    asleep = True
                    if peek() is not t:
                        asleep = False
                        continue  # a scheduled callback has queued it just now
                    cur_task = None
                    dt = idle(dt)
                    if polled:
                        _io_queue.wait_io_event(dt)
                        looked = True
                        asleep = False
                    else:
                        # Reckoned anew, with no jump from the clock to the poll, at which a
                        # callback could run and take its time.
                        if t:
                            dt = max(0, min(dt, diff(t.ph_key, now())))
                        if any(poller.ipoll(dt)) and answer():
                            asleep = False
                            break
                        asleep = False
            # Run it until it waits for something, which will queue it again.
            try:
                t = pop()
                cur_task = t
                if t.data is None:
                    t.coro.send(None)
                elif t.state:
                    exc = t.data
                    t.data = None
                    if hasattr(exc, "remove"):
                        # A scheduled callback woke it before it had noted its queue.
                        t.coro.send(None)
                    else:
                        t.coro.throw(exc)
                elif t.state is None:
                    report("Task exception wasn't retrieved", t.data, t)
            except excs as er:
                over = t is main_task or t is ender
                try:
                    _end(t, er, over)
                except BaseException:
                    _end(t, er, over)
                    raise
                if over:
                    if isinstance(er, StopIteration):
                        return er.value
                    raise er
            except BaseException as er:
                # A KeyboardInterrupt may have come before the coroutine had its turn.
                try:
                    t.coro.throw(er)
                except BaseException as end:
                    _end(t, end, True)
                raise
    finally:
        stopped()


def stopped():
    global cur_task, running, asleep, push
    sleep_ms(0).state = cur_task = None
    asleep = running = False
    push = no_loop


def run(coro):
    """Runs the coroutine coro as the main task; returns its result or raises its exception.
    Then the tasks that are left are cancelled, and it waits until they have ended, but not for
    longer than end_limit(): those that are left then are dropped, and reported. RuntimeError
    inside a running loop."""
    global _left
    if running:
        raise RuntimeError("run() inside a running event loop")
    _check(coro)
    if _left:
        reset()  # a KeyboardInterrupt has kept the last run() from it
    try:
        _left = True
        return run_until_complete(create_task(coro))
    finally:
        try:
            stopped()
            if tasks or _task_queue.peek():
                from .ending import end

                end()
        except MemoryError:
            pass  # no memory for that module: they are dropped
        finally:
            reset()


def new_poller():
    global poller
    poller = select.poll()
    poller.register(bell.stream, select.POLLIN)
    poller.ipoll(0)  # makes the tuple that it gives from now on


def reset():
    # Forget everything that waits.
    global _task_queue, _io_queue, _left
    stopped()
    if drop:
        drop()
    gone = CancelledError()
    while tasks:
        # Whatever it waits in may be used again: take it out, and let it have ended.
        t = tasks.popitem()[0]
        queue = t.data
        if isinstance(queue, Task):
            queue = queue.state
        t.data = gone
        t.state = False
        if hasattr(queue, "remove"):
            queue.remove(t)
    _task_queue = TaskQueue()
    _io_queue = _NoQueue()
    streams.clear()
    while first_flag:
        first_flag.remove(first_flag.task)
    new_poller()
    _left = False


# Stands for the IOQueue until something uses it: the code that only streams need is loaded then.
class _NoQueue:
    def __getattr__(self, name):
        global _io_queue
        if _io_queue is self:
            from .ioqueue import IOQueue

            _io_queue = IOQueue()
        return getattr(_io_queue, name)


reset()
