"""Reads the command line and runs the one tool it names."""

import os
import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    # Until it has begun: there is nothing yet to put away.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

import argparse
import importlib
import sys

from tools import WrongArgument, bootstrap, ending

# A tool by its name: the module that has add_arguments(parser) and main(args) -> exit code, or
# TOOLS of its own; and what it does.
TOOLS = {
    "demo": ("tools.demo", "see what it does, on this PC"),
    "test": ("tools.test", "run the tests on real MicroPython"),
    "bench": ("tools.bench", "measure it, beside stock asyncio and others"),
    "size": ("tools.size", "bytes of flash and heap of each module, beside stock asyncio"),
    "topics": ("tools.topics", "watch the topics of a board or an MQTT broker, publish to them"),
    "trace": ("tools.trace", "record what a script's tasks do, and draw it"),
    "top": ("tools.top", "watch a script's tasks while it runs"),
    "upstream": ("tools.upstream", "run MicroPython's own asyncio tests against it"),
    "api": ("tools.api", "write the API page, from the docstrings"),
    "firmware": ("tools.build.firmware", "build firmware with it frozen in"),
    "stubs": ("tools.build.stubs", "build a wheel of its types, for editors and type checkers"),
    "mip-index": (
        "tools.build.mip_index",
        "write a package index for mip, with it compiled to .mpy files",
    ),
    "release": (
        "tools.build.release",
        "check that versions and lists agree, and build a release",
    ),
}


_ABOUT = "What a developer or a user of asyncio_alt does on a PC."


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        raise WrongArgument(f"{message} ({self.prog} --help tells more)")


def main(argv):
    """Run the tool that argv names, with the arguments that follow; return the exit code."""
    prog, about, tools, rest = "python3 -m tools", _ABOUT, TOOLS, argv
    while tools:
        names = _names(prog, about, tools)
        if not rest:
            names.print_help()
            return 2
        name, *rest = names.parse_args(rest[:1]).name, *rest[1:]
        bootstrap.enter(argv)
        tool = importlib.import_module(tools[name][0])
        prog, about, tools = f"{prog} {name}", tool.__doc__, getattr(tool, "TOOLS", None)
    parser = Parser(
        prog=prog,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tool.add_arguments(parser)
    args, rest = parser.parse_known_args(rest)
    if rest and not hasattr(args, "rest"):  # a tool that hands options on sets this default
        parser.error("unrecognized arguments: " + " ".join(rest))
    args.rest = rest
    return tool.main(args)


def _names(prog, about, tools):
    # A parser of the name of one of these tools.
    lines = [f"  {name:10}{text}" for name, (_, text) in tools.items()]
    parser = Parser(
        prog=prog,
        description=about,
        epilog="\n".join(["tools:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s NAME [options]   (NAME --help lists its options)",
    )
    parser.add_argument("name", metavar="NAME", choices=tools, help="one of the tools below")
    return parser


if __name__ == "__main__":
    sys.exit(ending.run(main, sys.argv[1:]))
