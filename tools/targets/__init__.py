"""Targets, the places where MicroPython runs a script: their common part."""

import argparse
import re
from dataclasses import dataclass

# The features that a target may have, as named by a test's @needs(...).
FEATURES = {
    "c-tasks": "the C module _asyncio",
    "emu": "pins and UARTs driven by the emulator around it",
    "files": "a file system that can be written to",
    "hwirq": "the module hwirq of ports/qemu",
    "lightsleep": "machine.lightsleep",
    "pc": "the speed and the memory of a PC, for a test that is the same on every target",
    "pin-irq": "interrupts, hard or soft, from machine.Pin or its like",
    "schedule": "micropython.schedule",
    "sockets": "the socket module, and a network with at least 127.0.0.1",
    "ssl": "the ssl module",
    "threads": "the _thread module",
    "urandom": "os.urandom",
}

NAMES = ("unix", "qemu", "rp2")  # those that need no hardware

KEPT = 16 << 20  # at least so many bytes of output are kept, the newest, if it goes to told
_LINE = 1 << 20  # bytes: a longer line goes to told in pieces

PATIENCE = 10  # seconds that an emulator may take to get one second of the processor's time

WANTED = ", ".join(NAMES) + ", all of these, or device=PORT for a board on a port of mpremote's"

# Goes before a script to hide the C module `_asyncio`, so that tasks in Python are used: a builtin
# module cannot be taken away, but sys.modules is looked at first, and `sys` has no Task to import.
HIDE_C_TASKS = "import sys\nsys.modules['_asyncio'] = sys\n"

# A script that prints the features that it finds; it cannot see "emu".
PROBE = """
import sys
def has(module, name=None, sub=None):
    try:
        obj = __import__(module)
    except ImportError:
        return False
    for attr in (name, sub):
        if attr:
            obj = getattr(obj, attr, None)
    return obj is not None
for feature, have in (
    ("c-tasks", has("_asyncio")),
    ("files", True),
    ("hwirq", has("hwirq")),
    ("lightsleep", has("machine", "lightsleep")),
    ("pc", sys.platform in ("linux", "darwin")),
    ("pin-irq", has("machine", "Pin", "irq")),
    ("schedule", has("micropython", "schedule")),
    ("sockets", has("socket")),
    ("ssl", has("ssl")),
    ("threads", has("_thread")),
    ("urandom", has("os", "urandom")),
):
    if have:
        print(feature)
"""


@dataclass
class Result:
    """How one script ended."""

    out: str  # its output
    err: str  # the traceback it ended with, and all else that went to stderr
    ok: bool  # it ran to its end, without an exception and in time
    seconds: float  # how long it took, on the PC's clock
    timed_out: bool  # it was stopped because its time was over


class Target:
    """One MicroPython. Use it as a context manager, or call start() and stop().

    Every run() begins with a fresh interpreter, also after a script that hung or crashed.
    """

    name = ""
    features = frozenset()  # keys of FEATURES; known once started
    slowness = 1  # time limits are multiplied by this

    def start(self):
        """Make it ready to run scripts, and find out its features."""

    def run(self, source: str, timeout: float = 60, told=None) -> Result:
        """Run a script, for at most `timeout` seconds.

        told: called with each line (str) that it prints, as it comes, a very long one in pieces;
        then the Result of a long output has only the newest part
        """
        raise NotImplementedError

    def stop(self):
        """Leave nothing running."""

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()


class Lines:
    """Cuts bytes into lines as they come, and calls told(line) with each, as a str."""

    def __init__(self, told):
        self._told = told
        self._rest = bytearray()

    def add(self, data: bytes):
        self._rest += data
        if b"\n" in data:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._told(line.decode(errors="replace").rstrip("\r") + "\n")
        if len(self._rest) >= _LINE:
            self.end()

    def end(self):
        """Pass on the rest, which has no line end."""
        rest, self._rest = self._rest, bytearray()
        if rest:
            self._told(rest.decode(errors="replace"))


def keep(kept: bytearray, data: bytes):
    """Add data; now and then drop the oldest bytes, down to KEPT."""
    kept += data
    if len(kept) > 2 * KEPT:
        del kept[:-KEPT]


def wanted(text: str) -> str:
    """Return the text of an option --target; raise argparse's error if it is invalid."""
    port = re.fullmatch("device=socket://.*:([^:]*)", text)
    if port and not (re.fullmatch("[0-9]{1,5}", port[1]) and 0 < int(port[1]) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} has an invalid port: 1 to 65535")
    if text in (*NAMES, "all") or re.fullmatch("device=.+", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of {WANTED}")


def get(name: str, **options) -> Target:
    """Return the target called `name`, not yet started; options are its class's own.

    "device=PORT" is "device" with the option port.
    """
    name, _, port = name.partition("=")
    if port:
        options["port"] = port
    if name == "unix":
        from tools.targets.unix import Unix as cls
    elif name == "qemu":
        from tools.targets.qemu import Qemu as cls
    elif name == "rp2":
        from tools.targets.rp2 import Rp2 as cls
    elif name == "device":
        from tools.targets.device import Device as cls
    else:
        raise ValueError(f"no target {name!r}: one of {', '.join(NAMES)}")
    return cls(**options)
