"""Queue."""

from . import core


class QueueEmpty(Exception):
    """Raised by get_nowait()."""


class QueueFull(Exception):
    """Raised by put_nowait()."""


class QueueShutDown(Exception):
    """Raised by put() and put_nowait() after shutdown(), by get() and get_nowait() once the queue
    is empty, too."""


class Queue:
    """A first-in first-out queue between tasks. maxsize: the number of items it holds (int),
    0 or less for no limit. The _nowait methods may be called from micropython.schedule
    callbacks, not from hard interrupts or other threads."""

    _over = False  # after shutdown()

    def __init__(self, maxsize=0):
        if not isinstance(maxsize, int):
            raise TypeError("Queue: maxsize must be an int")
        self.maxsize = maxsize
        self._items = []
        self._first = 0  # those before it were taken
        self._getters = core.TaskQueue()
        self._putters = core.TaskQueue()
        self._joiners = core.TaskQueue()
        self._unfinished = 0
        self._zeros = 0  # counts the moments at which that was 0
        self._woken = False  # a task has been woken
        self._turns = []  # the tasks that were woken and have not run yet

    def qsize(self):
        """How many items (int) are in the queue."""
        return len(self._items) - self._first

    def empty(self):
        """True (bool) if the queue is empty."""
        return not self.qsize()

    def full(self):
        """True (bool) if there is no room for another."""
        return 0 < self.maxsize <= self.qsize()

    # MicroPython runs scheduled callbacks at jumps. Steps that belong together have none between.

    def put_nowait(self, item):
        """Puts item in the queue. QueueFull if it is full, QueueShutDown after shutdown()."""
        if self._over:
            raise QueueShutDown
        self._append(item)
        self._unfinished += 1
        if 0 < self.maxsize < self.qsize():
            # Looked at afterwards, as a scheduled callback may put too.
            self._items.pop()
            self._unfinished -= 1
            raise QueueFull
        self._wake_one(self._getters)

    def get_nowait(self):
        """Takes the oldest item. QueueEmpty if the queue is empty, QueueShutDown if it was shut
        down, too."""
        try:
            item = self._take()
        except IndexError:
            raise QueueShutDown if self._over else QueueEmpty
        self._wake_one(self._putters)
        return item

    def _append(self, item):
        self._items.append(item)

    def _take(self):
        # The list is moved up once in a while, not for each item.
        items = self._items
        i = self._first
        item = items[i]
        items[i] = None
        self._first = i + 1
        if i > 14 and 2 * i > len(items):
            del items[: self._first]
            self._first = 0
        return item

    def shutdown(self, immediate=False):
        """Ends the queue: no item can be put any more; those in it can still be taken. immediate:
        True to drop them; they count as done for join(). Tasks that wait in put() or, once it is
        empty, in get() get QueueShutDown."""
        self._over = True
        if immediate:
            try:
                while True:
                    self._take()
                    if self._unfinished:
                        self.task_done()
            except IndexError:
                pass
        for queue in (self._getters, self._putters):
            while self._wake_one(queue):
                pass

    def _no_room(self):
        return self.full() and not self._over

    def _no_item(self):
        return self.empty() and not self._over

    def put(self, item):  # async
        """Puts item in the queue when there is room. QueueShutDown after shutdown()."""
        while True:
            while self._no_room():
                yield from self._wait(self._putters, self._no_room)
            try:
                return self.put_nowait(item)
            except QueueFull:
                pass  # a scheduled callback was faster

    def get(self):  # async
        """Takes the oldest item when there is one. QueueShutDown if the queue was shut down and is
        empty."""
        while True:
            while self._no_item():
                yield from self._wait(self._getters, self._no_item)
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
                self._turns.append(t)
                core.wake(t)
                return True

    def _wait(self, queue, blocked):
        # Wait in the queue; a task that was woken and then cancelled passes its turn on.
        t = core.cur_task or core.current_task()
        self._woken = False
        try:
            queue.push(t)
            t.data = queue
            if self._woken or not blocked():
                # A scheduled callback came in between, and may have woken this one: it must not
                # wait, nor be removed from the queue. The others look again.
                while self._wake_one(queue):
                    pass
                t.data = None
            yield
        except BaseException:
            # It may be a KeyboardInterrupt ahead of the yield: the task may wait elsewhere now.
            queue.remove(t)
            t.data = None
            if t in self._turns and not blocked():
                self._wake_one(queue)
            raise
        finally:
            if t in self._turns:
                self._turns.remove(t)
