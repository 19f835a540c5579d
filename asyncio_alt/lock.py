"""Lock."""

from . import core

# `async with` awaits this where there is nothing to wait for: a generator that has ended. A
# coroutine would take memory, so that with a full heap a lock would stay taken.
done = (0 for _ in ())
list(done)


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
            try:
                queue.push(me)
                me.data = queue
                yield
            except BaseException:
                # It may be a KeyboardInterrupt ahead of the yield: the task may wait elsewhere.
                queue.remove(me)
                me.data = None
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

    def __aexit__(self, exc_type, exc, tb):
        self.release()
        return done
