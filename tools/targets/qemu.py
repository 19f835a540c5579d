"""A bare-metal Cortex-M3 with ports/qemu's firmware, under QEMU, one process a script."""

import os
import select
import shutil
import time

from tools import Unavailable, firmware
from tools.targets import Result, Target
from tools.targets.child import running


class Qemu(Target):
    """The board mps2-an385; the firmware is built first, with the options of firmware.build.

    Its clock counts instructions, so that a run is repeatable, whatever else the PC does.
    """

    name = "qemu"

    def __init__(self, **options):
        self.options = options
        features = {"hwirq", "pin-irq", "schedule"}
        if options.get("c_tasks", True):
            features.add("c-tasks")
        self.features = frozenset(features)

    def start(self):
        if not shutil.which("qemu-system-arm"):
            raise Unavailable("there is no qemu-system-arm here; Debian has it in qemu-system-arm")
        self.firmware = firmware.build("qemu", **self.options)

    def run(self, source, timeout=60):
        begin = time.monotonic()
        command = ["qemu-system-arm", "-machine", "mps2-an385", "-kernel", self.firmware]
        command += ["-display", "none", "-monitor", "none", "-serial", "stdio", "-semihosting"]
        command += ["-icount", "shift=3"]  # 2**3 ns an instruction
        with running(command) as process:
            repl = _Repl(process, begin + timeout)
            out = err = ""
            ok = timed_out = False
            try:
                repl.send_script(source)
                repl.read_until(b"\4")
                out = repl.text()
                repl.read_until(b"\4")
                err = repl.text()
                ok = not err
            except TimeoutError:
                out, timed_out = repl.text(), True
            except EOFError:
                out = repl.text()
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
        self._ahead = b""  # received after what has been read
        self._read = b""  # of what is being read

    def send_script(self, source):
        """Send a script in raw-paste mode, which the board compiles as it comes."""
        self.read_until(b">>> ")
        self._in.write(b"\1")
        self.read_until(b"exit\r\n>")
        self._in.write(b"\5A\1")
        self.read_until(b"R\1")
        window = self._byte() | self._byte() << 8
        data = source.encode() + b"\4"
        while True:
            self._in.write(data[:window])
            data = data[window:]
            if self._byte() == 4:  # else 1: there is room for another window
                break
        if data:  # a syntax error
            self._in.write(b"\4")

    def read_until(self, mark):
        """Read up to `mark`; text() returns what came before it."""
        self._read = b""
        while mark not in self._read:
            self._read += self._some()
        self._read, _, self._ahead = self._read.partition(mark)

    def text(self):
        return self._read.decode(errors="replace").replace("\r\n", "\n")

    def _byte(self):
        data = self._some()
        self._ahead = data[1:]
        return data[0]

    def _some(self):
        data, self._ahead = self._ahead, b""
        if not data:
            left = max(0, self._deadline - time.monotonic())
            if not select.select([self._out], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self._out, 65536)
            if not data:
                raise EOFError
        return data
