"""Event and ThreadSafeFlag."""

import io

from . import core


class Event:
    """An event that any number of tasks wait for. set() and clear() may be called from tasks
    and from micropython.schedule callbacks, not from hard interrupts or other threads."""

    def __init__(self):
        self.state = False
        self.waiting = core.TaskQueue()

    def is_set(self):
        """True (bool) if the event is set."""
        return self.state

    def clear(self):
        """Clears the event: wait() waits again."""
        self.state = False

    def set(self):
        """Sets the event and wakes all tasks that wait for it."""
        self.state = True
        queue = self.waiting
        try:
            while queue.peek():
                # In place of a third local, with which the frame would not fit on the C stack.
                self = queue.pop()
                if self.state:  # it has not ended in the queue
                    core._task_queue.push(self)
        except IndexError:
            pass  # a scheduled callback that set it too was faster
        if core.asleep:
            _ring(b"\0")

    def wait(self):  # async
        """Waits until the event is set; returns True."""
        if self.state:
            return True
        me = core.cur_task or core.current_task()
        queue = self.waiting
        try:
            queue.push(me)
            me.data = queue
            if self.state:
                # A scheduled callback has set it since it was looked at.
                self.set()
                me.data = None
            yield
        except BaseException:
            # It may be a KeyboardInterrupt ahead of the yield: the task may wait elsewhere now.
            queue.remove(me)
            me.data = None
            raise
        return True


def enlist(flag):
    """Puts a flag, or an object with the same fields, at the end of the loop's list."""
    if core.first_flag is None:
        core.first_flag = flag
    else:
        core.last_flag.next = flag
    core.last_flag = flag


class ThreadSafeFlag(io.IOBase):
    """A flag that an interrupt or another thread sets and one task waits for.

    A waiting flag costs nothing while the loop runs; set() rings the loop's bell and the loop
    looks at the flags. Polled by hand (select.poll) it is readable while it is set."""

    def __init__(self):
        self.state = 0  # 1: set
        self.task = None  # the task that waits
        self.priority = False  # how the task asked to be woken
        self.next = None  # the next waiting flag in the loop's list

    def ioctl(self, req, arg):
        return self.state * arg if req == 3 else -1  # MP_STREAM_POLL

    def set(self):
        """Sets the flag and wakes the task that waits for it. May be called from anywhere: hard
        interrupts, other threads; never allocates."""
        self.state = 1
        _ring(b"\0")

    def clear(self):
        """Clears the flag. May be called from anywhere."""
        self.state = 0

    def wait(self, priority=False):  # async
        """Waits until the flag is set and clears it. priority: True to run next when it is set,
        ahead of the ready tasks. RuntimeError if another task waits for it."""
        if not self.state:
            if self.task:
                if self.task.state:
                    raise RuntimeError("another task waits for this ThreadSafeFlag")
                self.remove(None)  # a KeyboardInterrupt has ended it while it was about to wait
            self.task = t = core.cur_task or core.current_task()
            try:
                self.priority = priority
                enlist(self)
                t.data = self
                yield
            except BaseException:
                if self.task is t:  # a KeyboardInterrupt came ahead of the yield
                    self.remove(t)
                    t.data = None
                raise
        self.state = 0

    def remove(self, task):
        # Called by Task.cancel(): leave the loop's list, unless a KeyboardInterrupt has kept it
        # out of that.
        prev = None
        f = core.first_flag
        while f and f is not self:
            prev = f
            f = f.next
        if f:
            if prev:
                prev.next = self.next
            else:
                core.first_flag = self.next
            if not self.next:
                core.last_flag = prev
        self.next = self.task = None


_ring = core.ring
