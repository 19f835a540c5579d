"""wait_for and gather."""

from . import core


# Stands for a coroutine in the Task that cancels another task at the deadline.
class _Deadline:
    def __init__(self, task):
        self.task = task
        self.exc = core.CancelledError()  # tells our cancellation from anybody else's

    def send(self, _):
        t = self.task
        while isinstance(t.data, core.Task):
            t = t.data  # a task that waits for a task passes the cancellation on to it
        if t.data is not core.CancelledError:
            self.task.cancel()
            t.data = self.exc
        raise StopIteration


async def wait_for(aw, timeout, sleep=core.sleep):
    """Awaits aw (a coroutine or Task) for timeout seconds at most, None: without limit. At the
    deadline aw is cancelled, and TimeoutError is raised when it has ended, unless it ended with
    a result or an exception of its own: then that is what is returned or raised."""
    if timeout is None:
        return await aw
    if not (hasattr(aw, "send") or isinstance(aw, core.Task)):
        raise TypeError("coroutine expected")
    if sleep is core.sleep:
        timeout = int(timeout * 1000)
    deadline = _Deadline(core.cur_task)
    timer = core.Task(deadline, core.__dict__)
    core._task_queue.push(timer, core.ticks_add(core.ticks(), max(0, timeout)))
    try:
        return await aw
    except core.CancelledError as er:
        if er is deadline.exc:
            raise core.TimeoutError
        raise
    finally:
        if timer.state is True:
            core._task_queue.remove(timer)


def wait_for_ms(aw, timeout):
    """As wait_for, with timeout in ms."""
    return wait_for(aw, timeout, core.sleep_ms)


# What a gathering task waits on: Task.cancel() has nothing to remove it from.
class _Gather:
    @staticmethod
    def remove(task):
        pass


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
        if me.data is _Gather:
            core._push(me)

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
            me.data = _Gather
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
