"""Writing to a UART without waiting: on RP2 the bytes go out by DMA, beside the loop."""

import io
import sys

from micropython import const

from .. import core
from . import bus

_POLL = const(3)  # MP_STREAM_POLL
_POLLOUT = const(4)

# Places of the registers in rp2.DMA.registers.
_COUNT = const(2)
_READ_ADDR_TRIG = const(15)


class UARTWriter(io.IOBase):
    """A stream for StreamWriter that sends over a machine.UART. write() takes what its buffer has
    room for and returns at once, where machine.UART's waits for all but the first few hundred
    bytes. StreamWriter.drain() waits until the rest has been taken.

    uart: machine.UART, to which nothing else is to write, and from which you read as ever; size:
    of the buffer (int, 2 to 65535 bytes). TypeError or ValueError for other values, OSError
    (EBUSY) if there is no DMA channel. On ports without DMA write() is machine.UART's."""

    holds = None  # as of a Transfer

    def __init__(self, uart, size=1024):
        if not hasattr(uart, "write"):
            raise TypeError("uart must be a machine.UART")
        if not isinstance(size, int):
            raise TypeError("size must be an int")
        if not 2 <= size <= 65535:
            raise ValueError("size must be 2 to 65535")
        self.op = None  # as of a Bus: not None while bytes are on their way
        self._uart = uart
        self._dma = None
        if not bus.blocking:
            self._start(size)

    def _start(self, size):
        import uctypes

        number = int(str(self._uart)[5])
        dma = bus.channels(1)[0]
        rp2350 = "RP2350" in sys.implementation._machine
        base, step, request = (0x40070000, 0x8000, 28) if rp2350 else (0x40034000, 0x4000, 20)
        self._buf = bytearray(size)
        self._at = uctypes.addressof(self._buf)
        self._in = 0  # how many bytes have been taken, modulo twice the size; changed by write()
        self._out = 0  # how many have been sent; changed by the interrupt
        self._n = 0  # how many are under way
        self._registers = dma.registers
        dma.config(
            write=base + step * number,
            ctrl=dma.pack_ctrl(
                size=0,
                inc_write=False,
                treq_sel=request + 2 * number,
                chain_to=dma.channel,
                irq_quiet=False,
            ),
        )
        dma.irq(self._sent, hard=True)
        self._dma = dma
        bus._buses[self] = self

    def ioctl(self, req, arg):
        if req != _POLL:
            return -1
        return arg & _POLLOUT if not self._dma or self._held() < len(self._buf) else 0

    def _held(self):
        return (self._in - self._out) % (2 * len(self._buf))

    def write(self, buf):
        """Takes as many bytes of buf as there is room for; returns their number, None if that is
        0."""
        if not self._dma:
            return self._uart.write(buf)
        data = memoryview(bus.readable(buf.encode() if isinstance(buf, str) else buf, "buf"))
        size = len(self._buf)
        taken = 0
        while taken < len(data):
            begin = self._in % size
            n = min(len(data) - taken, size - self._held(), size - begin)
            if not n:
                break
            self._buf[begin : begin + n] = data[taken : taken + n]
            taken += n
            self._in = (self._in + n) % (2 * size)
            if not self.op:
                self.op = self
                self._next()
        return taken or None

    def _next(self):
        # Send on, up to the end of the buffer at most.
        size = len(self._buf)
        begin = self._out % size
        self._n = n = min(self._held(), size - begin)
        if n:
            r = self._registers
            r[_COUNT] = n
            r[_READ_ADDR_TRIG] = self._at + begin
        else:
            self.op = None

    def _sent(self, _):
        # The interrupt: the UART has taken what was under way.
        bus.calm()
        if self._n and not self._registers[_COUNT]:
            self._out = (self._out + self._n) % (2 * len(self._buf))
            self._next()
            core.ring(b"\0")

    def txdone(self):
        """Whether all has been sent (bool)."""
        return not self.op and self._uart.txdone()

    def close(self):
        """Gives the DMA channel back, at once: what was not sent is dropped."""
        if self._dma:
            self._n = 0
            self._dma.active(0)
            self._dma.irq(None)
            self._dma.close()
            self._dma = self.op = None
            bus._buses.pop(self, None)
