"""Task and TaskQueue in Python, for builds without the C module _asyncio."""

from . import core

# A TaskQueue is a pairing heap: the task with the earliest key is the root, and each task holds
# a list of children with later keys. Among equal keys the order of arrival stays: in every list
# what came first is on the left, and of two equal ones the left becomes the parent.


def _meld(left, right):
    # One heap of two; either may be None. All of left came before all of right.
    if left is None:
        return right
    if right is None:
        return left
    if core.ticks_diff(right.ph_key, left.ph_key) < 0:
        # left becomes the first child of right
        left.ph_next = right.ph_child
        if right.ph_child:
            right.ph_child.ph_prev = left
        else:
            right.ph_last = left
        left.ph_prev = right
        right.ph_child = left
        return right
    # right becomes the last child of left
    if left.ph_child:
        left.ph_last.ph_next = right
        right.ph_prev = left.ph_last
    else:
        left.ph_child = right
        right.ph_prev = left
    left.ph_last = right
    return left


def _pair(node):
    # One heap of a list of siblings.
    heap = None
    while node:
        left = node
        right = node.ph_next
        left.ph_next = left.ph_prev = None
        if right:
            node = right.ph_next
            right.ph_next = right.ph_prev = None
        else:
            node = None
        heap = _meld(heap, _meld(left, right))
    return heap


class TaskQueue:
    def __init__(self):
        self.heap = None

    def peek(self):
        return self.heap

    def push(self, task, key=None):
        task.data = None
        task.ph_key = core.ticks() if key is None else key
        self.heap = _meld(self.heap, task)

    def pop(self):
        task = self.heap
        if task is None:
            raise IndexError("empty heap")
        self.heap = _pair(task.ph_child)
        task.ph_child = None
        return task

    def remove(self, task):
        if task is self.heap:
            self.pop()
            return
        # Put the heap of its children in its place among its siblings.
        prev = task.ph_prev
        nxt = task.ph_next
        heap = _pair(task.ph_child)
        task.ph_child = task.ph_next = task.ph_prev = None
        first = prev.ph_child is task  # then prev is the parent
        if heap:
            heap.ph_prev = prev
            heap.ph_next = nxt
            if nxt:
                nxt.ph_prev = heap
        elif nxt:
            nxt.ph_prev = prev
        if first:
            prev.ph_child = heap or nxt
        else:
            prev.ph_next = heap or nxt
        if not nxt:
            # The last child has changed: find the parent.
            last = heap or prev
            if first:
                prev.ph_last = heap
                return
            while prev.ph_prev.ph_child is not prev:
                prev = prev.ph_prev
            prev.ph_prev.ph_last = last


class Task:
    """A coroutine that the loop runs; awaiting it gives its result."""

    def __init__(self, coro, globals=None):
        self.coro = coro
        # None, the queue or Task that it waits on, the exception to throw into it next, or, when
        # it has ended, the exception that it ended with (StopIteration holds the result).
        self.data = None
        # True: runs. A TaskQueue: runs, and these tasks wait for it. A function: runs, and this
        # is called when it ends. None: has ended, nobody has asked. False: has ended.
        self.state = True
        self.ph_key = 0  # ticks at which it is to run
        self.ph_child = None  # first child
        self.ph_last = None  # last child, if there is a first
        self.ph_next = None  # next sibling
        self.ph_prev = None  # previous sibling, or the parent of a first child

    def __iter__(self):
        if not self.state:
            self.state = False
        elif self.state is True:
            self.state = TaskQueue()
        elif not isinstance(self.state, TaskQueue):
            raise RuntimeError("can't wait")
        return self

    def __next__(self):
        if not self.state:
            raise self.data
        t = core.cur_task
        self.state.push(t)
        t.data = self

    def done(self):
        return not self.state

    def cancel(self):
        """Has CancelledError raised in the task. Returns False if it has ended."""
        if not self.state:
            return False
        if self is core.cur_task:
            raise RuntimeError("can't cancel self")
        t = self
        while isinstance(t.data, Task):
            t = t.data
        if hasattr(t.data, "remove"):
            t.data.remove(t)
            core._task_queue.push(t)
        elif core.ticks_diff(t.ph_key, core.ticks()) > 0:
            core._task_queue.remove(t)
            core._task_queue.push(t)
        t.data = core.CancelledError
        return True
