"""Interrupt: a block of a coroutine that runs inside the interrupt that it waits for."""

import micropython
from micropython import const

from . import core
from .event import ThreadSafeFlag, enlist

_MASK = const(0xFFFFFF)  # counters wrap: a large int would allocate
_NO_AWAIT = "await inside an interrupt block"

# The function that an interrupt calls. While the body runs there is no cur_task, neither for
# Python nor for C code: code that would wait raises before it has changed anything. All of this is
# ahead of the body, so it is machine code where the port can make that, and has core's globals as
# its own.
_CALL = """
def call(self, arg):
    global cur_task
    t = self
    try:
        t = cur_task
        del cur_task
        self._run(None)
    except:
        return self._failed(t)
    if not self.state:
        self._insist()
    cur_task = t
    ring(b"\\0")
"""


def _compiled():
    names = {}
    try:
        exec("@micropython.viper" + _CALL, core.__dict__, names)
    except Exception:  # no code emitter
        exec(_CALL, core.__dict__, names)
    return names["call"]


def _find_shared():
    # The exception object that serves all while the heap is locked; it needs a buffer to have a
    # message.
    shared = None
    micropython.heap_lock()
    try:
        bytearray(9)
    except MemoryError as er:
        shared = er
    finally:
        micropython.heap_unlock()
    if not shared.args and hasattr(micropython, "alloc_emergency_exception_buf"):
        micropython.alloc_emergency_exception_buf(128)
    return shared


_shared = _find_shared()
_stray = RuntimeError(_NO_AWAIT)


# A task that has a block awaits this to leave the block and, where there is no wake.once, to
# enter it. Each task has its own, as another may enter before this one has gone on.
class _Wait:
    def __init__(self):
        self.parks = False  # the next __next__() yields
        self.exc_type = self.exc = None  # the exception of the body
        self.stop = StopIteration()

    def __iter__(self):
        return self

    def __next__(self):
        if self.parks:
            self.parks = False
            return
        exc = self.exc
        exc_type = self.exc_type
        self.exc = self.exc_type = None
        if exc is _stray:
            raise RuntimeError(_NO_AWAIT)
        if exc is _shared or exc_type in _UNKNOWN:
            # An interrupt since then may have raised the shared exception as something else.
            text = str(exc) if type(exc) is exc_type else ""
            if exc_type in _UNKNOWN and "cur_task" in text:
                raise RuntimeError(_NO_AWAIT)
            if exc is _shared:
                if exc_type is MemoryError:
                    raise MemoryError("allocation or await inside an interrupt block")
                # Its text is in a buffer that is shared too.
                if text and isinstance(exc.value, str):
                    raise exc_type(text)
                raise exc_type(*(exc.args if text else ()))
        self.stop.__traceback__ = None
        raise self.stop


_UNKNOWN = (AttributeError, KeyError, NameError)


class _Interrupt:
    """The handler of an interrupt and, in `async with`, the context of the body that it runs.

    The block waits for the interrupt; that runs the body to its end, at once, and the task goes
    on in the loop with the body's result or exception. A body that allocates in a hard interrupt
    raises MemoryError in the task, one that awaits RuntimeError. docs/interrupts.md has the rest.

    keep: True to keep an interrupt that comes while no block is open: the next block does not wait
    for one, and the loop runs its body. False to drop it. `missed` counts both, modulo 2**24.
    priority: True to have the task go on ahead of the ready ones.

    It is called with one argument, which it ignores, by interrupts of one priority, hard or soft,
    or by tasks; not by other threads. RuntimeError if another task waits in a block of it."""

    def __init__(self, keep=True, priority=False):
        self._run = self._miss = self._missed  # a call runs it; _miss while no block is open
        self._owner = None  # the task that had the last block
        self._resume = None  # its coroutine's send
        self._wait = None  # its _Wait
        self._once = core.once and core.bell.new_once()
        self._keep = keep
        self._inline = None  # the loop runs the body of this task, for a kept interrupt
        self.missed = 0
        self._taken = 0  # how many of these had a block since
        # As in a ThreadSafeFlag; it is in their list while a task waits. state, 1: go on.
        self.state = 0
        self.task = None
        self.priority = priority
        self.next = None

    def remove(self, task):
        # Called by Task.cancel().
        self._run = self._miss
        ThreadSafeFlag.remove(self, task)

    def __aenter__(self):
        t = core.cur_task or core.current_task()
        if self.task:
            raise RuntimeError("another task waits for this Interrupt")
        if self._owner is not t:
            self._owner = t
            self._resume = t.coro.send
            self._wait = _Wait()
        self._wait.exc_type = None
        self.state = 0
        self.task = t
        self._run = self._resume
        # An interrupt from here until the task has yielded fails: see _failed().
        if self._keep and self.missed != self._taken:
            self._run = self._miss
            self.task = None
            self._inline = t
            del core.cur_task
            return self._wait
        enlist(self)
        t.data = self
        if self._once:
            return self._once(0)
        self._wait.parks = True
        return self._wait

    def __aexit__(self, exc_type, exc, tb):
        t = self._inline
        if t:
            self._inline = None
            core.cur_task = t
        wait = self._wait
        if self._run is self._resume or not hasattr(core, "cur_task"):
            self._run = self._miss
            self.state = 1
            if exc_type is None and self._once:
                return self._once(0)
            wait.parks = True
        elif self.missed != self._taken:
            self._taken = self._taken + 1 & _MASK
        wait.exc_type = exc_type
        wait.exc = exc
        return wait

    def _missed(self, _):
        self.missed = self.missed + 1 & _MASK

    def _insist(self):
        # In the interrupt: there was no body, or it has yielded something that is not asyncio's.
        while self._run is self._resume:
            try:
                self._owner.coro.throw(_stray)
            except BaseException:
                break

    def _failed(self, t):
        # In the interrupt: there was no cur_task, or the coroutine does not wait, or has ended.
        if t is self:
            # It has interrupted the body of another block.
            try:
                self._run(None)
                self._insist()
                return core.ring(b"\0")
            except BaseException:
                pass
        self._missed(None)
        if self._keep or t is not self and t is not self.task:
            # Too early, the task does not wait yet: the loop is to run the body. Or it has ended:
            # the loop is to find out.
            self._run = self._miss
            self.state = 1
        if t is not self:
            core.cur_task = t
        core.ring(b"\0")


# Made by hand to have a class of one entry, in which the interpreter finds it without a search.
Interrupt = type("Interrupt", (_Interrupt,), {"__call__": _compiled()})
