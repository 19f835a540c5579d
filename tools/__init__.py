"""The command line `python3 -m tools`, for everything that is done on a PC."""

import sys

# Ahead of every other import, and in syntax that Python 2 reads too, so that the message is seen.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit("asyncio_alt's tools need Python 3.10 or newer; this is " + sys.version.split()[0])

from asyncio_alt.pc import Problem, WrongArgument  # noqa: E402, F401


class Unavailable(Problem):
    """Something that is needed is not on this machine and cannot be fetched; tests skip then."""
