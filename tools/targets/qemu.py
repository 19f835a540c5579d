"""Bare-metal chips with ports/qemu's firmware, under QEMU, one process a script."""

import contextlib
import math
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from typing import NamedTuple

from tools import Unavailable
from tools.build import firmware
from tools.targets import PATIENCE, Lines, Result, Target, keep
from tools.targets.child import SLICE, running


class _Chip(NamedTuple):
    machine: list  # QEMU's options for it
    # QEMU puts a script at this address, in memory that the firmware does not use. To send it
    # through the UART would take QEMU several times as long as to run it.
    script: int
    shift: int = 2  # an instruction takes 2**shift ns
    emulator: str = "qemu-system-arm"
    package: str = "qemu-system-arm"


# The names are those of firmware.build, too.
_CHIPS = {
    "qemu": _Chip(["mps2-an385"], 0x21000000, 3),  # Cortex-M3
    "qemu-m4": _Chip(["mps2-an386"], 0x21000000, 3),  # Cortex-M4F
    "qemu-m0": _Chip(  # Cortex-M0, without a VTOR, with the flash and RAM that the port asks for
        ["microbit", "-global", "nrf51-soc.flash-size=1048576"]
        + ["-global", "nrf51-soc.sram-size=262144"],
        0xC0000,
    ),
    "qemu-rv32": _Chip(
        ["virt", "-bios", "none", "-m", "32M"],
        0x81000000,
        emulator="qemu-system-riscv32",
        package="qemu-system-misc",
    ),
}
NAMES = tuple(_CHIPS)
_RUN = "exec(compile(__import__('uctypes').bytes_at({}, {}), '<stdin>', 'exec'))"
_FRAME = '  File "<stdin>", line 1, in <module>\n'  # which that line adds to a traceback


class Qemu(Target):
    """A chip, by its name in NAMES; its firmware is built first, with firmware.build's options.

    Its clock counts instructions, so that a run is repeatable, whatever else the PC does.
    """

    def __init__(self, name, **options):
        self.name = name
        self.options = options
        self._chip = _CHIPS[name]
        features = {"hwirq", "pin-irq", "schedule", "small-ids"}
        if options.get("c_tasks", True):
            features.add("c-tasks")
        if name == "qemu-m4":
            features.add("fpu")
        if name == "qemu-rv32":
            features.remove("small-ids")  # its memory begins at 0x80000000
        self.features = frozenset(features)

    def start(self):
        emulator = self._chip.emulator
        if not shutil.which(emulator):
            raise Unavailable(
                f"there is no {emulator} here; Debian has it in {self._chip.package}"
            )
        self.firmware = firmware.build(self.name, **self.options)

    def run(self, source, timeout=60, told=None):
        """Run a script for at most `timeout` seconds of the processor's time."""
        begin = time.monotonic()
        chip = self._chip
        command = [chip.emulator, "-machine", *chip.machine, "-kernel", self.firmware]
        command += ["-display", "none", "-monitor", "none", "-serial", "stdio", "-semihosting"]
        # While the CPU sleeps its time is not waited for.
        command += ["-icount", f"shift={chip.shift},sleep=off"]
        data = source.encode() + b"\n"
        with contextlib.ExitStack() as stack:
            script = stack.enter_context(tempfile.NamedTemporaryFile())
            script.write(data)
            script.flush()
            command += ["-device", f"loader,file={script.name},addr={chip.script},force-raw=on"]
            process = stack.enter_context(running(command))
            if sys.platform == "linux":
                limit = math.ceil(timeout)
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
            repl = _Repl(process, begin + PATIENCE * timeout)
            out = err = ""
            ok = timed_out = False
            try:
                repl.send(_RUN.format(chip.script, len(data)))
                repl.read_until(b"\4", told and Lines(told))
                out = repl.text()
                repl.read_until(b"\4")
                err = repl.text().replace(_FRAME, "", 1)
                ok = not err
            except TimeoutError:
                out, timed_out = repl.text(), True
            except EOFError:
                out = repl.text()
                timed_out = process.wait() == -signal.SIGKILL
                if not timed_out:
                    err = process.stderr.read().decode() + "the board has been reset\n"
        return Result(out, err, ok, time.monotonic() - begin, timed_out)


class _Repl:
    """The board's end of a pipe to its UART.

    Reading raises TimeoutError after the deadline, and EOFError once QEMU has ended.
    """

    def __init__(self, process, deadline):
        self._in = process.stdin
        self._out = process.stdout.fileno()
        self._deadline = deadline
        self._ahead = b""  # received, not read yet
        self._read = b""  # read so far

    def send(self, line):
        """Have the raw REPL run a line."""
        self.read_until(b">>> ")
        self._in.write(b"\1")
        self.read_until(b"exit\r\n>")
        self._in.write(line.encode() + b"\4")
        self.read_until(b"OK")

    def read_until(self, mark, told=None):
        """Read up to `mark`; pass the bytes to told. text() returns the text before the mark."""
        self._read = bytearray()
        at = -1
        while at < 0:
            data = self._some()
            begin = max(0, len(self._read) - len(mark))
            self._read += data
            at = self._read.find(mark, begin)
            if told:
                told.add(data.partition(mark)[0])
                if at < 0:
                    keep(self._read, b"")
        if told:
            told.end()
        self._ahead = bytes(self._read[at + len(mark) :])
        del self._read[at:]

    def text(self):
        return self._read.decode(errors="replace").replace("\r\n", "\n")

    def _some(self):
        data, self._ahead = self._ahead, b""
        if not data:
            while not select.select([self._out], [], [], SLICE)[0]:
                if time.monotonic() > self._deadline:
                    raise TimeoutError
            data = os.read(self._out, 65536)
            if not data:
                raise EOFError
        return data
