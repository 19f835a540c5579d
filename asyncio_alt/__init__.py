"""asyncio_alt: a MicroPython asyncio that answers interrupts and I/O first."""

__version__ = (3, 0, 0)  # of the stock API that this package replaces

# Where each public name lives; a name that is not here is core's.
_attrs = {
    "install": "install",
    "IOQueue": "ioqueue",
    "POLLPRI": "ioqueue",
    "priority_window": "ioqueue",
    "roundrobin": "ioqueue",
    "Loop": "loop",
    "get_event_loop": "loop",
    "new_event_loop": "loop",
    "gather": "funcs",
    "wait_for": "funcs",
    "wait_for_ms": "funcs",
    "Event": "event",
    "ThreadSafeFlag": "event",
    "Lock": "lock",
    "Queue": "queue",
    "QueueEmpty": "queue",
    "QueueFull": "queue",
    "StreamReader": "stream",
    "StreamWriter": "stream",
    "open_connection": "stream",
    "start_server": "stream",
}


def __getattr__(name):
    # Load the module that holds the name, and keep the name here for the next time.
    mod = _attrs.get(name, "core")
    value = __import__(mod, globals(), None, (name,), 1)
    if name != mod:
        value = getattr(value, name)
    globals()[name] = value
    return value
