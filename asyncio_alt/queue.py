"""Queue."""

from . import core


class QueueEmpty(Exception):
    """Raised by get_nowait()."""


class QueueFull(Exception):
    """Raised by put_nowait()."""


class Queue:
    """A first-in first-out queue between tasks. maxsize: the number of items it holds (int),
    0 or less for no limit. The _nowait methods may be called from micropython.schedule
    callbacks, not from hard interrupts or other threads."""

    def __init__(self, maxsize=0):
        if not isinstance(maxsize, int):
            raise TypeError("Queue: maxsize must be an int")
        self.maxsize = maxsize
        self._items = []
        self._getters = core.TaskQueue()
        self._putters = core.TaskQueue()
        self._joiners = core.TaskQueue()
        self._unfinished = 0
        self._zeros = 0  # counts the moments at which that was 0
        self._woken = False  # a task has been woken

    def qsize(self):
        """How many items (int) are in the queue."""
        return len(self._items)

    def empty(self):
        """True (bool) if the queue is empty."""
        return not self._items

    def full(self):
        """True (bool) if there is no room for another."""
        return 0 < self.maxsize <= len(self._items)

    def put_nowait(self, item):
        """Puts item in the queue. QueueFull if it is full."""
        items = self._items
        self._unfinished += 1
        items.append(item)
        if 0 < self.maxsize < len(items):  # looked at afterwards: a scheduled callback may put too
            items.pop()
            self._unfinished -= 1
            raise QueueFull
        self._wake_one(self._getters)

    def get_nowait(self):
        """Takes the oldest item. QueueEmpty if the queue is empty."""
        try:
            item = self._items.pop(0)
        except IndexError:
            raise QueueEmpty
        self._wake_one(self._putters)
        return item

    def put(self, item):  # async
        """Puts item in the queue when there is room."""
        while True:
            while self.full():
                yield from self._wait(self._putters, self.full)
            try:
                return self.put_nowait(item)
            except QueueFull:
                pass  # a scheduled callback was faster

    def get(self):  # async
        """Takes the oldest item when there is one."""
        while True:
            while not self._items:
                yield from self._wait(self._getters, self.empty)
            try:
                return self.get_nowait()
            except QueueEmpty:
                pass  # a scheduled callback was faster

    def task_done(self):
        """Says that an item that was taken has been dealt with. ValueError if called more often
        than items were put."""
        if not self._unfinished:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        if not self._unfinished:
            self._zeros = self._zeros + 1 & 0xFFFF
            while self._wake_one(self._joiners):
                pass

    def join(self):  # async
        """Waits until task_done() has been called for every item: for one moment of that, even if
        a put has followed at once."""
        zeros = self._zeros

        def blocked():
            return self._unfinished and self._zeros == zeros

        while blocked():
            yield from self._wait(self._joiners, blocked)

    def _wake_one(self, queue):
        while queue.peek():
            self._woken = True
            try:
                t = queue.pop()
            except IndexError:
                return True  # a scheduled callback was faster
            if t.state:  # it has not ended in the queue
                core._wake(t)
                return True

    def _wait(self, queue, blocked):
        # Wait in the queue; a task that was woken and then cancelled passes its turn on.
        t = core.cur_task or core.current_task()
        self._woken = False
        queue.push(t)
        t.data = queue
        if self._woken or not blocked():
            # A scheduled callback came in between, and may have woken this one: it must not wait,
            # nor be removed from the queue. The others look again.
            while self._wake_one(queue):
                pass
            t.data = None
        try:
            yield
        except core.CancelledError:
            if not blocked():
                self._wake_one(queue)
            raise
