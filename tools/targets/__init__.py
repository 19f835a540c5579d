"""The places where the tools run MicroPython; those of the package, and emulators."""

import argparse
import re

from asyncio_alt.pc import targets
from asyncio_alt.pc.targets import PROBE, Lines, Result, Target, keep  # noqa: F401

# The features that a target may have, as named by a test's @needs(...).
FEATURES = {
    "c-tasks": "the C module _asyncio",
    "emu": "pins and UARTs driven by the emulator around it",
    "files": "a file system that can be written to",
    "fpu": "floating-point registers, and inline assembler for them",
    "hwirq": "the module hwirq of ports/qemu",
    "lightsleep": "machine.lightsleep",
    "pc": "the speed and the memory of a PC, for a test that is the same on every target",
    "pin-irq": "interrupts, hard or soft, from machine.Pin or its like",
    "schedule": "micropython.schedule",
    "small-ids": "objects with an id() that is a small int; else poll allocates",
    "sockets": "the socket module, and a network with at least 127.0.0.1",
    "ssl": "the ssl module",
    "threads": "the _thread module",
    "urandom": "os.urandom",
}

# Those that need no hardware; "qemu" is a Cortex-M3.
NAMES = ("unix", "qemu", "qemu-m4", "qemu-m0", "qemu-rv32", "rp2")

PATIENCE = 10  # seconds that an emulator may take to get one second of the processor's time

WANTED = ", ".join(NAMES) + ", all of these, or device=PORT for a board on a port of mpremote's"

# Goes before a script to hide the C module `_asyncio`, so that tasks in Python are used: a builtin
# module cannot be taken away, but sys.modules is looked at first, and `sys` has no Task to import.
HIDE_C_TASKS = "import sys\nsys.modules['_asyncio'] = sys\n"


def wanted(text: str) -> str:
    """Return the text of an option --target; raise argparse's error if it is invalid."""
    if text in (*NAMES, "all"):
        return text
    if re.fullmatch("device=.+", text):
        return targets.wanted(text)
    raise argparse.ArgumentTypeError(f"{text!r} is none of {WANTED}")


def get(name: str, **options) -> Target:
    """Return the target called `name`, or "device=PORT", not yet started; options are its class's
    own."""
    if name.partition("=")[0] == "device":
        return targets.get(name, **options)
    if name == "unix":
        from tools.targets.unix import Unix as cls
    elif name in NAMES and name.startswith("qemu"):
        from tools.targets.qemu import Qemu as cls

        options["name"] = name
    elif name == "rp2":
        from tools.targets.rp2 import Rp2 as cls
    else:
        raise ValueError(f"no target {name!r}: one of {', '.join(NAMES)}")
    return cls(**options)


def _one(text):
    if wanted(text) == "all":
        raise argparse.ArgumentTypeError("one target, not all")
    return text


# For add_arguments() of the package's commands trace and top.
ONE = {
    "get": get,
    "type": _one,
    "default": "unix",
    "help": f"{', '.join(NAMES)}, or device=PORT for a board on a port of mpremote's "
    "(default: unix)",
}
