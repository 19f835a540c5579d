"""Targets, the places where MicroPython runs a script: their common part."""

import argparse
import re
from dataclasses import dataclass

KEPT = 16 << 20  # at least so many bytes of output are kept, the newest, if it goes to told
_LINE = 1 << 20  # bytes: a longer line goes to told in pieces

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
    ("fpu", getattr(sys.implementation, "_mpy", 0) >> 10 & 15 in (7, 8)),  # armv7emsp, -dp
    ("files", True),
    ("hwirq", has("hwirq")),
    ("lightsleep", has("machine", "lightsleep")),
    ("pc", sys.platform in ("linux", "darwin")),
    ("pin-irq", has("machine", "Pin", "irq")),
    ("schedule", has("micropython", "schedule")),
    ("small-ids", id([]) <= sys.maxsize // 2),
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
    """Return the text of an option --target, or of a PORT; raise argparse's error if it is
    invalid."""
    if text == "unix":
        return text
    return f"device={port(text.removeprefix('device='))}"


def port(text: str) -> str:
    """Return a name of a port, as mpremote takes it; raise argparse's error if it is invalid."""
    number = re.fullmatch("socket://.*:([^:]*)", text)
    if number and not (re.fullmatch("[0-9]{1,5}", number[1]) and 0 < int(number[1]) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} has an invalid port: 1 to 65535")
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: it must be a port, or unix")
    return text


def get(name: str | None, **options) -> Target:
    """Return a target, not yet started; options are its class's own.

    name: "unix", "device=PORT", "device" with the option port; None for the one board that is
    connected
    """
    if name == "unix":
        from asyncio_alt.pc.unix import Unix

        return Unix(**options)
    from asyncio_alt.pc.device import Device, connected

    if not name:
        options["port"] = connected()
    elif name != "device":
        options["port"] = name.removeprefix("device=")
    return Device(**options)
