"""wait_for and gather."""

from . import core


# The data of a task while it waits for the tasks aws: Task.cancel() calls remove().
class _Wait:
    def __init__(self, aws):
        self.aws = aws
        self.queue = None  # the one that the task is in, or None
        self.running = ()  # which of aws to cancel with it
        self.left = 0  # for gather: how many to wait for
        self.failed = None  # for gather: the exception to raise

    def remove(self, task):
        # One that has been cancelled just now, as at the end of run(), is not cancelled twice:
        # by its turn it may have awaited something in its own finally.
        self.running = [t for t in self.aws if t.state and t.data is not core.CancelledError]
        if self.queue:
            self.queue.remove(task)

    def cancel(self):
        for t in self.running:
            if t.state:
                t.cancel()


# Stands for a coroutine in a Task that runs behind aw, waits for it if it has not ended by then,
# and ends the sleep of the task that waits.
class _Waker:
    def __init__(self, me, wait, aw):
        self.me = me
        self.wait = wait
        self.aw = aw

    def send(self, _):
        if self.aw.state:
            self.aw.state.push(core.cur_task)
            core.cur_task.data = self.aw.state
            return
        iter(self.aw)  # its exception is retrieved: it goes to the waiting task
        if self.me.data is self.wait:
            self.wait.queue.remove(self.me)
            core.push(self.me, core.heir(core.cur_task))
        raise StopIteration


def wait_for(aw, timeout, sleep=core.sleep):  # async
    """Runs aw (a coroutine or Task) and returns its result or raises its exception. After timeout
    seconds (None: no limit; 0 or less: at once, and a coroutine does not start) aw is cancelled,
    and TimeoutError is raised when it has ended; but a result other than None that it returns all
    the same is returned, and another exception than the cancellation raised. Cancelling wait_for
    cancels aw; when aw has just ended that drops its result: give a Task to keep it."""
    if timeout is not None:
        sgen = sleep(timeout)
        key = sgen.state
        sgen.state = None
    me = core.cur_task or core.current_task()
    if not isinstance(aw, core.Task):
        aw = core.create_task(aw)
        core._task_queue.remove(aw)
        core.push(aw, core.heir(me))
        if timeout is not None and core.ticks_diff(key, aw.ph_key) < 0:
            key = aw.ph_key  # the clock has ticked since: aw runs first all the same
    if timeout is None or not aw.state:
        return (yield from aw)
    iter(aw)  # makes its state a queue
    wait = _Wait((aw,))
    waker = None
    try:
        if timeout > 0:
            wait.queue = queue = core._task_queue
            waker = core.Task(_Waker(me, wait, aw), core.__dict__)
            core.push(waker, core.heir(me))
            core.push(me, key)
            me.data = wait
            yield
        late = bool(aw.state)
        if late:
            aw.cancel()
            wait.queue = aw.state
            aw.state.push(me)
            me.data = wait
            yield
    except core.CancelledError:
        wait.cancel()
        raise
    finally:
        if waker and waker.state:
            (waker.data or queue).remove(waker)
    if late:
        er = aw.data
        if (
            isinstance(er, core.CancelledError)
            or isinstance(er, StopIteration)
            and er.value is None
        ):
            raise core.TimeoutError
    return (yield from aw)


def wait_for_ms(aw, timeout):
    """As wait_for, with timeout in ms."""
    return wait_for(aw, timeout, core.sleep_ms)


def gather(*aws, return_exceptions=False):  # async
    """Runs the awaitables aws (coroutines or Tasks) side by side and returns the list of their
    results. An exception of one is raised at once, and the others go on; with return_exceptions
    it stands in the list. Cancelling it cancels those that run, and is raised when they have
    ended (without return_exceptions: when the first has). RuntimeError if another task waits for
    one of them."""
    me = core.cur_task or core.current_task()
    wait = _Wait(())

    # With more than three variables of gather() its call would take memory, in the loop.
    def done(t, er):
        wait.left -= 1
        if not (return_exceptions or wait.failed or isinstance(er, StopIteration)):
            wait.failed = er
        elif wait.left:
            return
        if me.data is wait:
            core.push(me, core.heir(t))

    made = {}  # one that is given twice runs once
    tasks = []
    for aw in aws:
        k = id(aw)
        if k not in made:
            made[k] = core._promote_to_task(aw)
        tasks.append(made[k])
    wait.aws = tasks
    cancelled = None
    try:
        for t in tasks:
            if t.state is True:
                t.state = done
                wait.left += 1
            elif t.state:
                if t.state is not done:
                    raise RuntimeError("can't gather")
            elif not (return_exceptions or wait.failed or isinstance(t.data, StopIteration)):
                wait.failed = t.data
        while wait.left and not wait.failed:
            me.data = wait
            try:
                yield
            except core.CancelledError as er:
                cancelled = er
                wait.cancel()
    finally:
        for t in tasks:
            if t.state is done:
                t.state = True
    if wait.failed or cancelled:
        raise wait.failed or cancelled
    return [t.data.value if isinstance(t.data, StopIteration) else t.data for t in tasks]
