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

# A tool is tools/<name>.py, with "_" for "-", that has add_arguments(parser) and
# main(args) -> exit code.
TOOLS = {
    "demo": "see what it does, on this PC",
    "test": "run the tests on real MicroPython",
    "bench": "measure it beside stock asyncio",
    "frames": "measure FramedProtocol on CPython beside its streams",
    "messages": "measure messages to another process, with streams and with a Protocol",
    "shared": "measure large payloads to another process, through TCP and shared memory",
    "soak": "serve clients that behave badly, and see what is left",
    "pubsub": "measure publish/subscribe, beside trio and a set of queues",
    "hops": "measure each hop from a pin of an emulated board to MQTT, and back",
    "size": "bytes of flash and heap of each module, beside stock asyncio",
    "trace": "record what a script's tasks do, and draw it",
    "top": "watch a script's tasks while it runs",
    "power": "estimate the current of a board that sleeps while nothing is due",
    "report": "gather all that was measured into one page",
    "upstream": "run MicroPython's own asyncio tests against it",
    "api": "write the API page, from the docstrings",
    "firmware": "build firmware with it frozen in",
    "topics": "watch the topics of a board or an MQTT broker, publish to them",
    "stubs": "build a wheel of its types, for editors and type checkers",
    "mip-index": "write a package index for mip, with it compiled to .mpy files",
    "release": "check that versions and lists agree, and build a release",
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        raise WrongArgument(f"{message} ({self.prog} --help tells more)")


def main(argv):
    """Run the tool argv[0] with the arguments that follow; return the exit code."""
    top = Parser(
        prog="python3 -m tools",
        description="What a developer or a user of asyncio_alt does on a PC.",
        epilog="\n".join(["tools:"] + [f"  {name:10}{text}" for name, text in TOOLS.items()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s NAME [options]   (NAME --help lists its options)",
    )
    top.add_argument("name", metavar="NAME", choices=TOOLS, help="one of the tools below")
    if not argv:
        top.print_help()
        return 2
    name = top.parse_args(argv[:1]).name

    bootstrap.enter(argv)
    tool = importlib.import_module("tools." + name.replace("-", "_"))
    parser = Parser(
        prog=f"python3 -m tools {name}",
        description=tool.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tool.add_arguments(parser)
    args, rest = parser.parse_known_args(argv[1:])
    if rest and not hasattr(args, "rest"):  # a tool that hands options on sets this default
        parser.error("unrecognized arguments: " + " ".join(rest))
    args.rest = rest
    return tool.main(args)


if __name__ == "__main__":
    sys.exit(ending.run(main, sys.argv[1:]))
