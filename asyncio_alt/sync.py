"""Semaphore, BoundedSemaphore, Condition and Barrier, as CPython 3.13 has them."""

from micropython import const

from . import core
from .lock import Lock, done

# The states of a Barrier: how it treats the tasks that come.
_FILLS = const(0)  # holds them back
_DRAINS = const(1)  # lets them go
_RESETS = const(2)  # raises BrokenBarrierError in them, then fills again
_BROKEN = const(3)  # raises it in all that come, until reset()


class BrokenBarrierError(RuntimeError):
    """Raised by Barrier.wait() when the barrier is reset or aborted."""


class _Waiting:
    # The tasks that wait, in the order in which they came.

    def __init__(self):
        self._queue = core.TaskQueue()
        self._woken = []  # those that were woken and have not run yet

    def remove(self, task):
        # Called by Task.cancel().
        self._queue.remove(task)

    def _wake(self):
        # Wakes the first; returns whether there was one.
        if not self._queue.peek():
            return False
        t = self._queue.pop()
        self._woken.append(t)
        core.wake(t)
        return True

    def _wait(self, ready):
        # Waits for _wake(). ready(): called when the task is in the queue, as a scheduled callback
        # may have come in between. A task that was woken, and cancelled before it ran, calls
        # self._undo().
        t = core.cur_task or core.current_task()
        try:
            self._queue.push(t)
            t.data = self
            ready()
            yield
        except BaseException:
            # It may be a KeyboardInterrupt ahead of the yield: the task may wait elsewhere now.
            self._queue.remove(t)
            t.data = None
            if t in self._woken:
                self._undo()
            raise
        finally:
            if t in self._woken:
                self._woken.remove(t)


class Semaphore(_Waiting):
    """Lets `value` (int, 0 or more) tasks in at once; the others wait in the order in which they
    came. `async with` acquires it and releases it, and allocates nothing unless it has to wait.
    release() may be called from micropython.schedule callbacks, not from hard interrupts or other
    threads."""

    def __init__(self, value=1):
        if not isinstance(value, int):
            raise TypeError("Semaphore: value must be an int")
        if value < 0:
            raise ValueError("Semaphore: value must be 0 or more")
        super().__init__()
        self._value = value

    def locked(self):
        """True (bool) if acquire() would wait."""
        return not self._value or bool(self._woken)

    def release(self):
        """Lets one more task in."""
        self._value += 1
        self._next()

    def _next(self):
        # Let the first that waits in, if there is room for it.
        if self._value and self._wake():
            self._value -= 1
            return True

    def _undo(self):
        self._value += 1

    def _ready(self):
        if not self._woken:
            self._next()

    def acquire(self):  # async
        """Waits until there is room, and takes it; returns True."""
        if self.locked():
            try:
                yield from self._wait(self._ready)
            finally:
                while self._next():
                    pass
        else:
            self._value -= 1
        return True

    def __aenter__(self):
        if self.locked():
            return self.acquire()
        self._value -= 1
        return done

    def __aexit__(self, exc_type, exc, tb):
        self.release()
        return done


class BoundedSemaphore(Semaphore):
    """A Semaphore with a release() that raises ValueError if called more often than acquire()."""

    def __init__(self, value=1):
        super().__init__(value)
        self._bound = value

    def release(self):
        """Lets one more task in. ValueError if all the room there was is free."""
        if self._value >= self._bound:
            raise ValueError("BoundedSemaphore: released too often")
        super().release()


class Condition(_Waiting):
    """Tasks that hold a lock wait in it until another task that holds the lock calls notify().
    lock: the Lock; by default a new one. `async with` acquires the lock and releases it."""

    def __init__(self, lock=None):
        super().__init__()
        self._lock = lock = Lock() if lock is None else lock
        self.locked = lock.locked
        self.acquire = lock.acquire
        self.release = lock.release

    async def __aenter__(self):
        await self.acquire()

    def __aexit__(self, exc_type, exc, tb):
        self.release()
        return done

    async def wait(self):
        """Releases the lock, waits for notify(), acquires the lock again; returns True. It also
        has the lock when it raises CancelledError. RuntimeError if the lock is not taken."""
        if not self.locked():
            raise RuntimeError("Condition: wait() without the lock")
        # With the lock released there may be no memory for these.
        wait = self._wait(_nothing)
        again = self._again(self.acquire())
        self.release()
        try:
            try:
                await wait
            finally:
                await again
        except BaseException:
            # It may have been notified: the notification is for another task.
            self._wake()
            raise
        return True

    async def _again(self, acquire):
        # Take the lock, also if that is cancelled.
        late = None
        while True:
            try:
                await acquire
                break
            except core.CancelledError as er:
                late = er
                acquire = self.acquire()
        if late:
            raise late

    async def wait_for(self, predicate):
        """Waits until predicate() (a function) returns a true value, and returns that. It is
        called with the lock held, at first and after each notify()."""
        while True:
            result = predicate()
            if result:
                return result
            await self.wait()

    def _undo(self):
        pass  # wait() does it

    def notify(self, n=1):
        """Wakes n (int) of the tasks that wait; they go on when they get the lock. RuntimeError
        if the lock is not taken."""
        if not self.locked():
            raise RuntimeError("Condition: notify() without the lock")
        while n > 0 and self._wake():
            n -= 1

    def notify_all(self):
        """Wakes all tasks that wait. RuntimeError if the lock is not taken."""
        self.notify(1 << 29)


def _nothing():
    pass


class Barrier:
    """Holds tasks back until there are `parties` (int, 1 or more) of them, and lets them all go.
    `async with` waits for that."""

    def __init__(self, parties):
        if not isinstance(parties, int):
            raise TypeError("Barrier: parties must be an int")
        if parties < 1:
            raise ValueError("Barrier: parties must be 1 or more")
        self._parties = parties
        self._changed = Condition()
        self._state = _FILLS
        self._count = 0  # tasks in wait()

    async def __aenter__(self):
        return await self.wait()

    async def __aexit__(self, exc_type, exc, tb):
        pass

    @property
    def parties(self):
        """How many tasks (int) it lets go at once."""
        return self._parties

    @property
    def n_waiting(self):
        """How many tasks (int) it holds back now."""
        return self._count if self._state == _FILLS else 0

    @property
    def broken(self):
        """True (bool) after abort(), until reset()."""
        return self._state == _BROKEN

    async def wait(self):
        """Waits until all parties have called it; returns a number (int) from 0 to parties - 1,
        each to another task. BrokenBarrierError if it is broken, or reset meanwhile."""
        async with self._changed:
            # One that comes while others go waits for the next time.
            await self._until(lambda: self._state not in (_DRAINS, _RESETS))
            self._check(_BROKEN)
            index = self._count
            self._count += 1
            try:
                if self._count == self._parties:
                    self._set(_DRAINS)
                else:
                    await self._until(lambda: self._state != _FILLS)
                    self._check(_BROKEN, _RESETS)
                return index
            finally:
                self._count -= 1
                if not self._count:
                    if self._state in (_DRAINS, _RESETS):
                        self._state = _FILLS
                    self._changed.notify_all()

    def _until(self, predicate):
        return self._changed.wait_for(predicate)

    def _check(self, *bad):
        if self._state in bad:
            raise BrokenBarrierError("Barrier: aborted or reset")

    def _set(self, state):
        self._state = state
        self._changed.notify_all()

    async def reset(self):
        """Empties the barrier: the tasks that it holds back get BrokenBarrierError, and it can be
        used again."""
        async with self._changed:
            self._set(_RESETS if self._count else _FILLS)

    async def abort(self):
        """Breaks the barrier: the tasks that it holds back, and those that come, get
        BrokenBarrierError, until reset()."""
        async with self._changed:
            self._set(_BROKEN)
