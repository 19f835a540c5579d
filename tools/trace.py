"""The command asyncio-alt trace, on emulated boards too."""

from asyncio_alt.pc import trace
from asyncio_alt.pc.trace import main  # noqa: F401
from tools import targets

__doc__ = trace.__doc__


def add_arguments(parser):
    trace.add_arguments(parser, **targets.ONE)
