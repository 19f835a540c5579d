"""Lock."""

from . import core


class Lock:
    """A mutual exclusion lock for tasks, handed over in the order of waiting."""

    def __init__(self):
        self.waiting = core.TaskQueue()
        # 0; 1 while it is taken; the task that it was handed to, until that runs.
        self.state = 0

    def acquire(self):  # async
        """Waits for the lock and takes it; returns True."""
        holder = self.state
        if holder == 1 or holder and holder.state:
            me = core.cur_task or core.current_task()
            queue = self.waiting
            queue.push(me)
            me.data = queue
            try:
                yield
            except BaseException:
                if self.state is me:
                    self.state = 1
                    self.release()
                raise
        self.state = 1
        return True

    def locked(self):
        """True (bool) if it is taken."""
        return self.state == 1

    def release(self):
        """Hands the lock to the next waiting task. RuntimeError if it is not taken."""
        if self.state != 1:
            raise RuntimeError("Lock not acquired")
        self.state = 0
        while not self.state and self.waiting.peek():
            t = self.waiting.pop()
            if t.state:  # it has not ended in the queue
                self.state = t
                core.wake(t)

    def __aenter__(self):
        return self.acquire()

    async def __aexit__(self, exc_type, exc, tb):
        self.release()
