"""What the package is on CPython: the names of CPython's asyncio; the rest says where it runs."""

import re
import sys
from asyncio import *  # noqa: F403
from asyncio import __all__ as __all__
from importlib.abc import MetaPathFinder
from pathlib import Path

_PACKAGE = __name__.rpartition(".pc.")[0]
_FOLDER = Path(__file__).parents[1]
_RUN_HERE = {"lazy", "pc", "pubsub"}


class _Finder(MetaPathFinder):
    # Is asked for modules of the package, and for names that `from asyncio_alt import` has not
    # found.
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
    if (_FOLDER / f"{name}.py").exists() or (_FOLDER / name).is_dir():
        return True
    source = (_FOLDER / "core.py").read_text("utf-8")
    return re.search(rf"^(?:async )?(?:def |class )?{re.escape(name)}\b", source, re.MULTILINE)


sys.meta_path.insert(0, _Finder())
