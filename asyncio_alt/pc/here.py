"""What the package is on CPython: the names of CPython's asyncio; the rest says where it runs."""

import os
import sys
from asyncio import *  # noqa: F403
from asyncio import __all__ as __all__

_PACKAGE = __name__.rpartition(".pc.")[0]
_FOLDER = os.path.dirname(os.path.dirname(__file__))
_RUN_HERE = {"lazy", "pc", "pubsub"}


class _Finder:
    # A MetaPathFinder, but importlib.abc would take longer to import than all the rest. It is
    # asked for modules of the package, and for names that `from asyncio_alt import` has not found.
    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        name = name.partition(".")[0]
        if package == _PACKAGE and name not in _RUN_HERE and _on_boards(name):
            raise ImportError(
                f"{_PACKAGE}.{name} runs on MicroPython only: on CPython {_PACKAGE} has the names "
                f"of asyncio, {_PACKAGE}.pubsub and the command asyncio-alt",
                name=fullname,
            )
        return None


def _on_boards(name):
    path = os.path.join(_FOLDER, name)
    if os.path.exists(f"{path}.py") or os.path.isdir(path):
        return True
    import re

    with open(os.path.join(_FOLDER, "core.py"), encoding="utf-8") as file:
        source = file.read()
    return re.search(rf"^(?:async )?(?:def |class )?{re.escape(name)}\b", source, re.MULTILINE)


sys.meta_path.insert(0, _Finder())
