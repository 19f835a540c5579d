"""Lock."""

from . import core


class Lock:
    """A mutual exclusion lock for tasks, handed over in the order of waiting."""

    def __init__(self):
        # 0: free. 1: taken. A Task: given to that task, which has not run yet.
        self.state = 0
        self.waiting = core.TaskQueue()

    def locked(self):
        """True (bool) if it is taken."""
        return self.state == 1

    def release(self):
        """Hands the lock to the next waiting task. RuntimeError if it is not taken."""
        if self.state != 1:
            raise RuntimeError("Lock not acquired")
        self.state = 0
        while self.waiting.peek():
            t = self.waiting.pop()
            if t.state:  # it has not ended in the queue
                self.state = t
                core._wake(t)
                break

    def acquire(self):  # async
        """Waits for the lock and takes it; returns True."""
        holder = self.state
        if holder == 1 or holder and holder.state:
            t = core.cur_task or core.current_task()
            self.waiting.push(t)
            t.data = self.waiting
            try:
                yield
            except BaseException:
                if self.state is t:  # it was given to us: pass it on
                    self.state = 1
                    self.release()
                raise
        self.state = 1
        return True

    async def __aenter__(self):
        return await self.acquire()

    async def __aexit__(self, exc_type, exc, tb):
        self.release()
