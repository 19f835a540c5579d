"""wait_for and gather."""

from . import core


# What a parked task waits on: Task.cancel() has nothing to remove it from.
class _Park:
    @staticmethod
    def remove(task):
        pass


# Stands for a coroutine in a Task that waits with others for a task, and then ends our sleep.
class _Waker:
    def __init__(self, task):
        self.task = task

    def send(self, _):
        if self.task.data is None:
            core._task_queue.remove(self.task)
            core._push(self.task, core._heir(core.cur_task))
        raise StopIteration


def wait_for(aw, timeout, sleep=core.sleep):  # async
    """Runs aw (a coroutine or Task) and returns its result or raises its exception. After timeout
    seconds (None: no limit) aw is cancelled, and TimeoutError is raised when it has ended; but a
    result that it had by then is returned, and another exception than the cancellation raised.
    Cancelling wait_for when aw has just ended drops its result: give a Task to keep that."""
    if timeout is not None:
        sgen = sleep(timeout)
        key = sgen.state
        sgen.state = None
    me = core.cur_task or core.current_task()
    if not isinstance(aw, core.Task):
        aw = core.create_task(aw)
        core._task_queue.remove(aw)
        core._push(aw, core._heir(me))
        if timeout is not None and core.ticks_diff(key, aw.ph_key) < 0:
            key = aw.ph_key  # the clock has ticked since: aw runs first all the same
    if timeout is None or not aw.state:
        return (yield from aw)
    iter(aw)  # makes its state a queue
    waiting = aw.state
    waker = core.Task(_Waker(me), core.__dict__)
    waiting.push(waker)
    waker.data = waiting
    late = False
    try:
        core._push(me, key)
        yield
        if aw.state:
            late = True
            aw.cancel()
            waiting.push(me)
            me.data = waiting
            yield
    except core.CancelledError:
        if aw.state:
            aw.cancel()
        raise
    finally:
        if waker.state:
            (waker.data or core._task_queue).remove(waker)
    if late and isinstance(aw.data, (StopIteration, core.CancelledError)):
        raise core.TimeoutError
    return (yield from aw)


def wait_for_ms(aw, timeout):
    """As wait_for, with timeout in ms."""
    return wait_for(aw, timeout, core.sleep_ms)


def gather(*aws, return_exceptions=False):  # async
    """Runs the awaitables aws (coroutines or Tasks) side by side and returns the list of their
    results. An exception of one is raised at once, and the others go on; with return_exceptions
    it stands in the list. Cancelling it cancels those that run. RuntimeError if another task
    waits for one of them."""
    me = core.cur_task or core.current_task()
    left = 0  # how many to wait for
    failed = None  # the exception to raise

    def done(t, er):
        nonlocal left, failed
        left -= 1
        if not (return_exceptions or failed or isinstance(er, StopIteration)):
            failed = er
        elif left:
            return
        if me.data is _Park:
            core._push(me, core._heir(t))

    tasks = [core._promote_to_task(aw) for aw in aws]
    try:
        for t in tasks:
            if t.state is True:
                t.state = done
                left += 1
            elif t.state:
                raise RuntimeError("can't gather")
            elif not (return_exceptions or failed or isinstance(t.data, StopIteration)):
                failed = t.data
        if left and not failed:
            me.data = _Park
            try:
                yield
            except core.CancelledError:
                for t in tasks:
                    if t.state is done:
                        t.state = True
                        t.cancel()
                raise
    finally:
        for t in tasks:
            if t.state is done:
                t.state = True
    if failed:
        raise failed
    return [t.data.value if isinstance(t.data, StopIteration) else t.data for t in tasks]
