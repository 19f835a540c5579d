"""asyncio_alt: a MicroPython asyncio that answers interrupts and I/O first."""

import sys

if sys.implementation.name == "micropython":
    # The names that programs use most; lazy.py has the others. What is left of core's names is for
    # the modules of this package.
    from .core import (
        CancelledError,
        create_task,
        cur_task,
        run,
        sleep,
        sleep_ms,
    )
else:
    from .pc.here import *

__version__ = (3, 0, 0)  # of the stock API that this package replaces


def __getattr__(name):
    if name == "cur_task":  # core has none inside an interrupt, where nothing may be loaded
        raise AttributeError(name)
    from .lazy import load

    return load(globals(), name)


if sys.implementation.name == "micropython":
    sys.modules[__name__ + ".core"].__getattr__ = __getattr__  # stock has those names there
