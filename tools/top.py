"""The command asyncio-alt top, on emulated boards too."""

from asyncio_alt.pc import top
from asyncio_alt.pc.top import main  # noqa: F401
from tools import targets

__doc__ = top.__doc__


def add_arguments(parser):
    top.add_arguments(parser, **targets.ONE)
