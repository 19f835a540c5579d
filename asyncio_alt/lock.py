"""Lock."""

from . import core


class Lock:
    """A mutual exclusion lock for tasks, handed over in the order of waiting."""

    def __init__(self):
        self.waiting = core.TaskQueue()
        # None; the Lock itself while it is taken; the task that it was handed to, until that runs.
        self._holder = None

    def acquire(self):  # async
        """Waits for the lock and takes it; returns True."""
        holder = self._holder
        if holder is self or holder and holder.state:
            me = core.cur_task or core.current_task()
            queue = self.waiting
            queue.push(me)
            me.data = queue
            try:
                yield
            except BaseException:
                if self._holder is me:
                    self._holder = self
                    self.release()
                raise
        self._holder = self
        return True

    def locked(self):
        """True (bool) if it is taken."""
        return self._holder is self

    def release(self):
        """Hands the lock to the next waiting task. RuntimeError if it is not taken."""
        if self._holder is not self:
            raise RuntimeError("Lock not acquired")
        self._holder = None
        while not self._holder and self.waiting.peek():
            t = self.waiting.pop()
            if t.state:  # it has not ended in the queue
                self._holder = t
                core._wake(t)

    def __aenter__(self):
        return self.acquire()

    async def __aexit__(self, exc_type, exc, tb):
        self.release()
