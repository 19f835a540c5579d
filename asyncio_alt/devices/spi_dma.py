"""The RP2's SPI controller, fed by two DMA channels."""

import sys
from array import array
from time import ticks_diff, ticks_us

import uctypes
from micropython import const
from uctypes import addressof

from .bus import calm, channels
from .spi import call

_COUNT = const(2)  # what is left, in rp2.DMA.registers

_SR = const(3)  # the controller's registers: status
_DR = const(2)  # data
_RNE = const(4)  # there is something to read
_BSY = const(16)

# A transfer by DMA and the switch to another task and back take 400 us of the processor's time
# and make others wait for 200. Up to so many on the wire, machine's own call is no worse.
LEAST_US = const(200)

_RP2350 = "RP2350" in sys.implementation._machine

_BYTE = bytes(range(256))  # what is sent to read

# Begins a transfer. a: control, address and count for the receiving channel; control and address
# for the sending one. Of the registers some are aliases that begin it.
_CODE = """
@micropython.viper
def go(rx: ptr32, tx: ptr32, a: ptr32):
    rx[4] = a[0]
    rx[1] = a[1]
    rx[7] = a[2]
    tx[4] = a[3]
    tx[2] = a[2]
    tx[15] = a[4]
"""


def _compiled():
    names = {}
    try:
        exec(_CODE, names)
    except Exception:  # no code emitter
        exec(_CODE[_CODE.find("def") :], names)
    return names["go"]


_go = _compiled()


class Engine:
    def __init__(self, bus, port):
        number = int(str(port)[4])
        self._bus = bus
        self._port = port
        self._tx_dma, self._rx_dma = tx, rx = channels(2)
        self._tx = tx.registers
        self._rx = rx.registers
        self._sink = bytearray(1)  # what is read and not wanted
        self._sink_at = addressof(self._sink)
        request = (24 if _RP2350 else 16) + 2 * number

        def pack(dma, request, **fields):
            return dma.pack_ctrl(size=0, chain_to=dma.channel, treq_sel=request, **fields)

        self._write = pack(tx, request, inc_write=False)
        self._write_none = pack(tx, request, inc_write=False, inc_read=False)
        self._read = pack(rx, request + 1, inc_read=False, irq_quiet=False)
        self._read_none = pack(rx, request + 1, inc_read=False, inc_write=False, irq_quiet=False)
        tx.config(write=port)
        rx.config(read=port)
        base = (0x40080000 + 0x8000 * number) if _RP2350 else (0x4003C000 + 0x4000 * number)
        self._regs = uctypes.struct(base, {"r": (uctypes.ARRAY, uctypes.UINT32 | 16)}).r
        text = str(port)
        baud = int(text[text.find("baudrate=") + 9 :].split(",")[0])
        self._rest = 144000000 // baud + 50  # us
        self._least = baud * LEAST_US // 8000000
        rx.irq(self._ended, hard=True)

    def prepare(self, op):
        # The values for _go().
        a = op.commands
        if not a:
            op.commands = a = array("I", bytes(20))
        data = op.data
        into = op.into
        if into is None:
            a[0] = self._read_none
            a[1] = self._sink_at
        else:
            a[0] = self._read
            a[1] = addressof(into)
        if data is None:
            a[3] = self._write_none
            a[4] = addressof(_BYTE) + op.fill
        else:
            a[3] = self._write
            a[4] = addressof(data)
        a[2] = op.n

    def start(self, op):
        if op.n <= self._least:
            return call(op, self._port)
        bus = self._bus
        bus.op = op
        cs = op.cs
        if cs and not bus.held:
            cs(0)
        _go(self._rx, self._tx, op.commands)

    def begin(self, op):
        if not op.n:
            return op.end()
        bus = self._bus
        bus.op = op
        cs = op.cs
        if cs and not bus.held:
            cs(0)
        _go(self._rx, self._tx, op.commands)

    def _ended(self, _):
        # The interrupt of the receiving channel: the last bit is over. An abort may raise it, too.
        calm()
        bus = self._bus
        op = bus.op
        if op and op.step == 1 and not self._rx[_COUNT]:
            cs = op.cs
            if cs and not bus.held:
                cs(1)
            bus.ended(op)

    def stop(self, op):
        """Stops a transfer."""
        self._tx_dma.active(0)  # first, so that the other one has less to leave behind
        self._rx_dma.active(0)
        r = self._regs
        # What has been handed over is sent: 9 bytes at most, if nobody has stopped the clock.
        begin = ticks_us()
        while r[_SR] & (_BSY | _RNE) and ticks_diff(ticks_us(), begin) < self._rest:
            if r[_SR] & _RNE:
                r[_DR]
        if op.cs and not self._bus.held:
            op.cs(1)

    def close(self):
        self._rx_dma.irq(None)
        self._tx_dma.close()
        self._rx_dma.close()
