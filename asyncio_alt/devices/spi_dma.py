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

# go(): see bus.of(). op.data: a buffer, or a byte to be sent again and again. words: 0; the
# longest transfer for machine's own call; addresses of the registers of both channels; control
# words to receive, to receive what is not wanted, to send, to send one byte; addresses of what is
# not wanted, and of all bytes. Of the DMA registers some are aliases that begin the transfer. It
# is compiled here, for the chip that runs it.
_CODE = """
@micropython.viper
def go(op, cs, words: ptr32, alone: int) -> int:
    n = int(op.n)
    if n <= words[alone]:
        return 1
    rx = ptr32(words[2])
    tx = ptr32(words[3])
    into = op.into
    if into:
        read = words[4]
        to = int(ptr8(into))
    else:
        read = words[5]
        to = words[8]
    write = words[6]
    at = int(ptr8(op.data))
    if at < 256:
        write = words[7]
        at += words[9]
    if cs:
        cs(0)
    rx[4] = read
    rx[1] = to
    rx[7] = n
    tx[4] = write
    tx[2] = n
    tx[15] = at
    return 0
"""
_names = {}
exec(_CODE, _names)


class Engine:
    def __init__(self, bus, port):
        number = int(str(port)[4])
        self.go = _names["go"]
        self._bus = bus
        self._port = port
        self._tx_dma, self._rx_dma = tx, rx = channels(2)
        self._rx = rx.registers
        self._sink = bytearray(1)  # what is read and not wanted
        request = (24 if _RP2350 else 16) + 2 * number
        text = str(port)
        baud = int(text[text.find("baudrate=") + 9 :].split(",")[0])
        self._rest = 144000000 // baud + 50  # us
        self.words = w = array("I", bytes(40))
        w[1] = baud * LEAST_US // 8000000
        w[2] = addressof(rx.registers)
        w[3] = addressof(tx.registers)

        def pack(dma, request, **fields):
            return dma.pack_ctrl(size=0, chain_to=dma.channel, treq_sel=request, **fields)

        w[4] = pack(rx, request + 1, inc_read=False, irq_quiet=False)
        w[5] = pack(rx, request + 1, inc_read=False, inc_write=False, irq_quiet=False)
        w[6] = pack(tx, request, inc_write=False)
        w[7] = pack(tx, request, inc_write=False, inc_read=False)
        w[8] = addressof(self._sink)
        w[9] = addressof(_BYTE)
        tx.config(write=port)
        rx.config(read=port)
        base = (0x40080000 + 0x8000 * number) if _RP2350 else (0x4003C000 + 0x4000 * number)
        self._regs = uctypes.struct(base, {"r": (uctypes.ARRAY, uctypes.UINT32 | 16)}).r
        rx.irq(self._ended, hard=True)

    def call(self, op):
        call(op, self._port)

    def _ended(self, _):
        # The interrupt of the receiving channel: the last bit is over. An abort may raise it, too.
        calm()
        bus = self._bus
        op = bus.op
        if op is not None and op.step == 1 and not self._rx[_COUNT]:
            cs = op.cs
            if cs and bus.held is None:
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
