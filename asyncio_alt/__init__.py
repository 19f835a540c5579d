"""asyncio_alt: a MicroPython asyncio that answers interrupts and I/O first."""

from .core import *

__version__ = (3, 0, 0)  # of the stock API that this package replaces

# The modules of the names that are loaded on first use.
_attrs = {
    "install": "claim",
    "Event": "event",
    "ThreadSafeFlag": "event",
    "gather": "funcs",
    "wait_for": "funcs",
    "wait_for_ms": "funcs",
    "IOQueue": "ioqueue",
    "POLLPRI": "ioqueue",
    "priority_window": "ioqueue",
    "roundrobin": "ioqueue",
    "Lock": "lock",
    "Loop": "loop",
    "get_event_loop": "loop",
    "new_event_loop": "loop",
    "Queue": "queue",
    "QueueEmpty": "queue",
    "QueueFull": "queue",
    "StreamReader": "stream",
    "StreamWriter": "stream",
    "open_connection": "stream",
    "start_server": "stream",
}


def __getattr__(name):
    if name not in _attrs:
        raise AttributeError(name)
    value = getattr(__import__(_attrs[name], globals(), None, (name,), 1), name)
    globals()[name] = value
    return value
