"""MicroPython's unix port, with the files of this repository."""

from asyncio_alt.pc import unix
from asyncio_alt.pc.unix import micropython  # noqa: F401
from tools.bootstrap import ROOT


class Unix(unix.Unix):
    """As that of the package, but imports are looked for in the repository's root."""

    def __init__(self, binary=None, args=(), path=(ROOT,)):
        super().__init__(binary, args, path)
