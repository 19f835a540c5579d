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
        if self.waiting.peek():
            self.state = self.waiting.pop()
            core._wake(self.state)
        else:
            self.state = 0

    def acquire(self):  # async
        """Waits for the lock and takes it; returns True."""
        if self.state != 0:
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
