"""One asyncio in a program: install() makes it this one, claim() shuts the stock one off.

The C module _asyncio keeps one context for all packages that use it, so tasks of two of them in
one program crash the interpreter."""

from . import core
import sys

_USE = "asyncio_alt runs this program's tasks: call asyncio_alt.install() before other imports"


def _refuse(*args):
    raise RuntimeError(_USE)


def claim():
    """Shuts the stock package off, if it was imported: what needs its loop raises RuntimeError
    from now on. RuntimeError if it has tasks."""
    stock = sys.modules.get("asyncio.core")
    if stock in (None, core) or stock.create_task is _refuse:
        return
    if stock.cur_task or stock._task_queue.peek() or stock._io_queue.map:
        raise RuntimeError("the stock asyncio has tasks: call asyncio_alt.install() before")
    # Without these names its loop, its awaits and its objects end in __getattr__ or NameError.
    del stock.cur_task, stock._task_queue, stock._io_queue
    stock.create_task = stock.run_until_complete = stock.run = stock.Task = _refuse
    stock.__getattr__ = _refuse
    pkg = sys.modules.get("asyncio")
    for name in ("create_task", "run_until_complete", "run", "Task"):
        setattr(pkg, name, _refuse)


def install():
    """Makes `import asyncio` and `import uasyncio` mean this package from now on, everywhere in
    the program. RuntimeError if the stock package has tasks."""
    claim()
    core._claimed = True
    package = __name__[: __name__.rfind(".")]
    for name in ("asyncio", "uasyncio"):
        sys.modules[name] = sys.modules[package]
        for sub in ("core", "event", "funcs", "lock", "queue", "stream"):
            sys.modules.pop(name + "." + sub, None)
        sys.modules[name + ".core"] = core
