"""A real board, over a serial port or anything that mpremote takes in place of one.

The board runs the package that is installed on it, not the files of this PC.
"""

import contextlib
import io
import os
import struct
import time

from mpremote.transport import TransportError, TransportExecError
from mpremote.transport_serial import SerialTransport
from serial.tools import list_ports

from asyncio_alt.pc import Problem
from asyncio_alt.pc.screen import escaped
from asyncio_alt.pc.targets import PROBE, Lines, Result, Target, keep

try:
    from termios import error as _TerminalError
except ImportError:  # on Windows, where none of this has been tried
    _TerminalError = OSError

_RESTART = 30  # seconds that a soft reset may take
_FILES = 1200  # seconds that the files of the package may take
_ANSWER = 10  # seconds that a board may take to read or to answer
# What mpremote raises if a board does not answer, or answers something else.
_FAILURES = TransportError, OSError, _TerminalError, struct.error, ValueError, SyntaxError


class Device(Target):
    """The board on `port`, such as /dev/ttyACM0 or socket://127.0.0.1:5000.

    A script that hangs is stopped by Ctrl-C. If a board does not react to that, reset it by hand.
    With `resume`, scripts run in the interpreter as it is: a running program is interrupted, and
    its objects are still there. With `bare`, the board need not have the package.
    """

    name = "device"
    slowness = 3

    def __init__(self, port, resume=False, bare=False):
        self.port = port
        self.resume = resume
        self._bare = bare

    def start(self):
        try:
            self._board = SerialTransport(self.port, timeout=_ANSWER)
            self._board.serial.write_timeout = _ANSWER
        except (TransportError, OSError) as error:
            raise Problem(f"{self.port}: {escaped(error)}") from None
        except Exception as error:  # of pyserial and termios, for an invalid serial port
            raise Problem(f"{self.port}: {type(error).__name__}: {escaped(error)}") from None
        if self.resume:
            return
        for script in (PROBE, "import asyncio_alt")[: 1 if self._bare else 2]:
            result = self.run(script)
            if not result.ok:
                self.stop()
                said = escaped((result.err.strip().splitlines() or ["it says nothing"])[-1])
                more = "; asyncio-alt install puts it there" if "no module" in said else ""
                raise Problem(f"the board on {self.port}: {said}{more}")
            self.features = self.features or frozenset(result.out.split())

    def run(self, source, timeout=60, told=None):
        begin = time.monotonic()
        out = err = b""
        try:
            with self._in_time(3 * _RESTART):
                self._enter(not self.resume)
                self._board.exec_raw_no_follow(source)
            end = time.monotonic() + timeout
            out = self._read(end, told and Lines(told))
            err = self._read(end)
            timed_out = not err.endswith(b"\4")
        except _FAILURES as error:
            err = f"the board on {self.port} does not answer: {error}\n\4".encode()
            timed_out = False
        out, err = (text.removesuffix(b"\4").decode(errors="replace") for text in (out, err))
        out, err = (text.replace("\r\n", "\n") for text in (out, err))
        ok = not err and not timed_out
        return Result(out, err, ok, time.monotonic() - begin, timed_out)

    @contextlib.contextmanager
    def files(self):
        """Yield mpremote's transport, to read and write the board's files. Raises Problem if the
        board does not do what is asked for."""
        try:
            with self._in_time(_FILES):
                self._enter(False)
                yield self._board
        except TransportExecError as error:
            said = error.error_output.strip().splitlines() or ["it says nothing"]
            raise Problem(f"the board on {self.port}: {escaped(said[-1])}") from None
        except _FAILURES as error:
            said = error
            if isinstance(error, OSError) and error.errno:  # of the board: it names the file
                said = f"{error.strerror}: {os.strerror(error.errno)}"
            raise Problem(f"the board on {self.port}: {escaped(said)}") from None

    @contextlib.contextmanager
    def _in_time(self, seconds):
        # mpremote reads on as long as a board sends, as one that starts again and again does.
        end = time.monotonic() + seconds
        port = self._board.serial
        read = port.read

        def read_in_time(size=1):
            if time.monotonic() > end:
                raise TransportError("it sends on and on")
            return read(size)

        port.read = read_in_time
        try:
            yield
        finally:
            port.read = read

    def _enter(self, reset):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not expect
            self._board.enter_raw_repl(reset, timeout_overall=_RESTART)

    def stop(self):
        with contextlib.suppress(OSError, TransportError, _TerminalError):  # the board may be gone
            self._board.close()

    def _read(self, end, told=None):
        """Read up to the next Ctrl-D, or until the end; pass the bytes to told."""
        data = bytearray()
        while not data.endswith(b"\4") and time.monotonic() < end:
            if self._board.serial.in_waiting:
                byte = self._board.serial.read(1)
                data += byte
                if told:
                    keep(data, b"")
                    if byte != b"\4":
                        told.add(byte)
            else:
                time.sleep(0.001)
        if told:
            told.end()
        return bytes(data)


def connected() -> str:
    """Return the port of the one board that is connected by USB."""
    ports = [port.device for port in list_ports.comports() if port.vid is not None]
    if len(ports) == 1:
        return ports[0]
    found = f"{len(ports)} boards are connected: {escaped(', '.join(sorted(ports)))}"
    raise Problem(
        f"{found if ports else 'no board is connected by USB'}; name a port, or unix for "
        "MicroPython's unix port"
    )
