"""asyncio_alt: a MicroPython asyncio that answers interrupts and I/O first."""

import sys

if sys.implementation.name == "micropython":
    from .core import *
else:
    from asyncio import *

__version__ = (3, 0, 0)  # of the stock API that this package replaces

# What is loaded on first use: a module, and its names.
_attrs = (
    ("claim", "install"),
    ("event", "Event", "ThreadSafeFlag"),
    ("funcs", "gather", "wait_for", "wait_for_ms"),
    ("idle", "LightSleep", "power_mode", "set_idle_hook", "stay_awake"),
    ("ioqueue", "IOQueue", "POLLPRI", "priority_window", "roundrobin"),
    ("irq", "Interrupt"),
    ("lock", "Lock"),
    ("loop", "Loop", "get_event_loop", "new_event_loop"),
    (
        "protocol",
        "BufferedProtocol",
        "Protocol",
        "Transport",
        "connect_stream",
        "create_connection",
        "create_server",
    ),
    ("pubsub", "pubsub"),  # a package of its own
    ("queue", "Queue", "QueueEmpty", "QueueFull"),
    ("stream", "StreamReader", "StreamWriter", "open_connection", "start_server"),
)


def __getattr__(name):
    for names in _attrs:
        if name in names:
            value = __import__(names[0], globals(), None, (name,), 1)
            if name != names[0]:
                value = getattr(value, name)
            globals()[name] = value
            return value
    raise AttributeError(name)
