"""Task and TaskQueue in Python, for builds without the C module _asyncio."""

from . import core

# A scheduled callback may come between any two steps of this code, and push or pop tasks; a
# KeyboardInterrupt may end it there. So each step that changes a queue is one call of a list's
# method, which is C code and does all or nothing.


class TaskQueue:
    def __init__(self):
        # In the order in which the tasks are due, of equal ones in the order of arrival. The Nones
        # behind them are the end, and keep the list from giving back memory that it will need.
        self.tasks = [None] * 4
        self.spare = 4  # how many Nones
        self.changes = 0  # counts them

    def peek(self):
        return self.tasks[0]

    def push(self, task, key=None):
        task.data = None
        task.ph_key = key = core.ticks() if key is None else key
        tasks = self.tasks
        while True:
            changes = self.changes
            low = 0
            high = len(tasks)
            try:
                while low < high:
                    i = low + high >> 1
                    t = tasks[i]
                    if t is None or core.ticks_diff(t.ph_key, key) > 0:
                        high = i
                    else:
                        low = i + 1
            except IndexError:
                continue  # a scheduled callback has made it shorter
            tasks.insert(low, task)
            if self.changes == changes:
                self._changed()
                return
            # A scheduled callback came in between: this may be the wrong place.
            if not self.remove(task):
                return  # it has taken the task out

    def pop(self):
        task = self.tasks.pop(0)
        if task is None:
            self.tasks.append(None)
            raise IndexError("empty heap")
        self._changed()
        return task

    def remove(self, task):
        # Returns whether it was there.
        try:
            self.tasks.remove(task)
        except ValueError:
            return False
        self._changed()
        return True

    def _changed(self):
        self.changes = self.changes + 1 & 0xFFFF


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
        # The loop's queue may hold one more: see that there is room, while memory may be taken.
        queue = getattr(core, "_task_queue", None)
        if queue and queue.spare < len(core.tasks):
            queue.spare += 1
            queue.tasks.append(None)

    def __iter__(self):
        state = self.state
        if state is True:
            self.state = TaskQueue()
        elif not state:
            self.state = False
        elif not isinstance(state, TaskQueue):
            raise RuntimeError("can't wait")
        return self

    def __next__(self):
        queue = self.state
        if queue:
            me = core.cur_task
            queue.push(me)
            me.data = self
        else:
            raise self.data

    def done(self):
        return not self.state

    def cancel(self):
        """Has CancelledError raised in the task. Returns False if it has ended."""
        if self is core.cur_task:
            raise RuntimeError("can't cancel self")
        if not self.state:
            return False
        last = self  # of a row of tasks, each of which waits for the next
        while True:
            waits = last.data
            if not isinstance(waits, Task):
                break
            last = waits
        ready = core._task_queue
        if hasattr(waits, "remove"):
            # A scheduled callback may wake it first; then it is in the loop's queue.
            early = waits.remove(last) is not False
        else:
            early = core.ticks_diff(last.ph_key, core.ticks()) > 0
            if early:
                ready.remove(last)
        if early:
            ready.push(last)
        last.data = core.CancelledError
        return True
