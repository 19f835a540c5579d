"""Reads the command line and runs the one tool it names."""

import os
import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    # Ctrl-C ends it at once until it has begun: there is nothing to clean up yet.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

import sys

from asyncio_alt.pc import commands, ending
from tools import bootstrap

# As asyncio_alt/pc/commands.py takes them.
TOOLS = {
    "demo": ("tools.demo", "see what it does, on this PC"),
    "test": ("tools.test", "run the tests on real MicroPython"),
    "bench": ("tools.bench", "measure it, beside stock asyncio and others"),
    "size": ("tools.size", "bytes of flash and heap of each module, beside stock asyncio"),
    "topics": (
        "asyncio_alt.pc.topics",
        "watch the topics of a board or an MQTT broker, publish to them",
    ),
    "trace": ("tools.trace", "record what a script's tasks do, and draw it"),
    "top": ("tools.top", "watch a script's tasks while it runs"),
    "upstream": ("tools.upstream", "run MicroPython's own asyncio tests against it"),
    "boards": ("tools.boards", "write the page of figures that users have measured on boards"),
    "api": ("tools.api", "write the API page, from the docstrings"),
    "firmware": ("tools.build.firmware", "build firmware with it frozen in"),
    "ports": ("tools.build.ports", "build and start all kinds of firmware, from several sources"),
    "mip-index": (
        "tools.build.mip_index",
        "write a package index for mip, with it compiled to .mpy files",
    ),
    "release": (
        "tools.build.release",
        "check that versions and lists agree, and build a release",
    ),
}


_ABOUT = "Tools for developers of asyncio_alt, to run on a PC."


def main(argv):
    """Run the tool that argv names, with the arguments that follow; return the exit code."""
    return commands.run(
        "python3 -m tools", _ABOUT, TOOLS, argv, enter=lambda: bootstrap.enter(argv)
    )


if __name__ == "__main__":
    sys.exit(ending.run(main, sys.argv[1:]))
