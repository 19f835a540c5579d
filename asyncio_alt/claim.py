"""One asyncio in a program: install() makes it this one, claim() shuts the stock one off.

The C module _asyncio keeps one context for all packages that use it, so tasks of two of them in
one program crash the interpreter."""

import sys

from . import core

_USE = "asyncio_alt runs this program's tasks: call asyncio_alt.install() before other imports"


def _refuse(*args):
    raise RuntimeError(_USE)


class _Refuse:
    __getattr__ = _refuse


def claim():
    """Shuts the stock package off, if it was imported: calls that need its loop raise
    RuntimeError from now on. RuntimeError if it has tasks."""
    stock = sys.modules.get("asyncio.core")
    if stock in (None, core) or stock.create_task is _refuse:
        return
    if stock.cur_task or stock._task_queue.peek() or stock._io_queue.map:
        raise RuntimeError("the stock asyncio has tasks: call asyncio_alt.install() before")
    for name in (
        "create_task",
        "current_task",
        "new_event_loop",
        "run",
        "run_until_complete",
        "Task",
        "_promote_to_task",
    ):
        for module in (stock, sys.modules["asyncio"]):
            setattr(module, name, _refuse)
    # Its awaits look for these. No current task at all: C code would take any other for one.
    stock._task_queue = stock._io_queue = _Refuse()
    del stock.cur_task
    stock.__getattr__ = _refuse


class _Module:
    # Stands for a module of this package that is loaded on first use.
    def __getattr__(self, name):
        return getattr(_loaded(self), name)

    # A build without this keeps the value in the instance, where lazy.load() finds it.
    def __setattr__(self, name, value):
        setattr(_loaded(self), name, value)


_names = {}  # id(_Module) to the name of the module that it stands for


def _loaded(module):
    return __import__(_names[id(module)], None, None, ("core",))


def install():
    """Makes `import asyncio` and `import uasyncio` mean this package from now on, everywhere in
    the program. RuntimeError if the stock package has tasks."""
    claim()
    core.claimed = True
    modules = sys.modules
    package = __name__[: __name__.rfind(".")]
    for sub in ("", ".core", ".event", ".funcs", ".lock", ".queue", ".stream"):
        name = package + sub
        module = modules.get(name)
        if not module:
            module = _Module()
            _names[id(module)] = name
            setattr(modules[package], sub[1:], module)
        for alias in ("asyncio", "uasyncio"):
            if alias != package:
                modules[alias + sub] = module
