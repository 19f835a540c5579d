"""The RP2's I2C controller, fed by DMA.

A transfer is a list of commands, which one DMA channel hands over; another one takes the bytes
that are read. A third, paced by the bits' time, is an alarm: Python has no interrupt of the
controller.
"""

import sys
import time
from array import array
from errno import EIO, ETIMEDOUT

import machine
import uctypes
from micropython import const

from .bus import calm, channels

# Places in rp2.DMA.registers: the count, and its alias that begins the transfer.
_COUNT = const(2)
_COUNT_TRIG = const(7)

# The controller's registers.
_DATA_CMD = const(0x10)
_RAW = const(13)
_CLR_INTR = const(16)
_ENABLE = const(27)
_STATUS = const(28)

_TX_ABRT = const(1 << 6)  # in RAW
_STOP_DET = const(1 << 9)
_ABORT = const(2)  # in ENABLE
_ACTIVE = const(32)  # in STATUS

_RP2350 = "RP2350" in sys.implementation._machine

# The engine's words: addresses of the controller's registers and of those of the channels for
# commands, bytes and the alarm; how many bits after the expected end the alarm has gone off; the
# bits until it does so again.
_LATE = const(4)
_WAIT = const(5)

# A list of commands begins with: the device's address, the bytes of its register's, 1 if some are
# to be read. A command is a byte to be sent, or 0x100 to read one; and 0x200 to send a STOP behind
# it, 0x400 to send a START ahead of it.
_HEAD = const(3)

_len = len  # so it is found sooner

# go(): see bus.of(). fill() makes a list of op.n commands. Of the DMA registers some are aliases
# that begin the transfer. Compiled here, for the chip that runs it.
_CODE = """
@micropython.viper
def go(op, cs, words: ptr32, alone: int) -> int:
    n = int(op.n)
    c = ptr16(op.data)
    i2c = ptr32(words[0])
    cmd = ptr32(words[1])
    rx = ptr32(words[2])
    alarm = ptr32(words[3])
    words[4] = 0
    words[5] = 9
    i2c[27] = 0
    i2c[1] = c[0]
    i2c[27] = 1
    bits = i2c[16]
    bits = 9 * n + 12
    if c[2]:
        rx[1] = int(ptr8(op.into))
        rx[7] = n - c[1]
        if c[1]:
            bits += 10
    cmd[2] = n
    cmd[15] = int(c) + 6
    alarm[7] = bits
    return 0

@micropython.viper
def fill(op, to: ptr16, data, into):
    head = (int(op.addrsize) + 7) >> 3
    to[0] = int(op.addr)
    to[1] = head
    at = 3
    end = int(op.n) + 3
    if head:
        memaddr = int(op.memaddr)
        i = head << 3
        while i:
            i -= 8
            to[at] = (memaddr >> i) & 255
            at += 1
    if into:
        to[2] = 1
        while at < end:
            to[at] = 0x100
            at += 1
        if head:
            to[3 + head] = 0x500
    else:
        to[2] = 0
        source = ptr8(data)
        i = 0
        while at < end:
            to[at] = source[i]
            i += 1
            at += 1
    to[end - 1] |= 0x200
"""
_names = {}
exec(_CODE, _names)


class Engine:
    def __init__(self, bus, port):
        text = str(port)
        numbers = {}
        for field in text[7:-1].split(","):
            name, _, value = field.strip().partition("=")
            numbers[name] = int(value) if value else 0
        number = int(text[4])
        self.go = _names["go"]
        self._fill = _names["fill"]
        self._bus = bus
        self._numbers = number, numbers
        self._cmd_dma, self._rx_dma, self._alarm_dma = cmd, rx, alarm = channels(3)
        self._rx = rx.registers
        self._alarm = alarm.registers
        self._limit = numbers["timeout"] * (numbers["freq"] // 100) // 10000 + 1  # bits
        base = 0x40090000 + 0x8000 * number if _RP2350 else 0x40044000 + 0x4000 * number
        self._regs = uctypes.struct(base, {"r": (uctypes.ARRAY, uctypes.UINT32 | 40)}).r
        at = uctypes.addressof
        registers = at(cmd.registers), at(self._rx), at(self._alarm)
        self.words = array("I", (base,) + registers + (0, 0))
        request = (44 if _RP2350 else 32) + 2 * number
        cmd.config(
            write=base + _DATA_CMD,
            ctrl=cmd.pack_ctrl(
                size=1, inc_write=False, treq_sel=request, chain_to=cmd.channel, irq_quiet=False
            ),
        )
        rx.config(
            read=base + _DATA_CMD,
            ctrl=rx.pack_ctrl(size=0, inc_read=False, treq_sel=request + 1, chain_to=rx.channel),
        )
        # The alarm copies a byte to and fro for each bit's time. It has pacing timer 2 or 3.
        self._byte = bytearray(1)
        timers = 0x50000440 if _RP2350 else 0x50000420
        machine.mem32[timers + 8 + 4 * number] = 1 << 16 | min(
            65535, machine.freq() // numbers["freq"]
        )
        alarm.config(
            read=self._byte,
            write=self._byte,
            ctrl=alarm.pack_ctrl(
                size=0,
                inc_read=False,
                inc_write=False,
                treq_sel=61 + number,
                chain_to=alarm.channel,
                irq_quiet=False,
            ),
        )
        cmd.irq(self._handed_over, hard=True)
        alarm.irq(self._rang, hard=True)

    def prepare(self, op):
        # Make the list of commands, in the memory that the Transfer has for them.
        data = op.data
        n = _len(data if op.into is None else op.into) + (op.addrsize >> 3)
        commands = op.commands
        if commands is None or _len(commands) < n + _HEAD:
            op.commands = commands = array("H", bytes(2 * (n + _HEAD)))
        op.n = n
        op.data = commands
        self._fill(op, commands, data, op.into)

    def _handed_over(self, _):
        # An interrupt: the controller has the last command, or has refused the rest.
        calm()
        if self._regs[_RAW] & _TX_ABRT:
            self._alarm_dma.active(0)
            self._alarm[_COUNT_TRIG] = 3

    def _rang(self, _):
        # An interrupt: it should be over. An abort may raise this, too.
        calm()
        op = self._bus.op
        if op is None or op.step != 1 or op.state or self._alarm[_COUNT]:
            return
        raw = self._regs[_RAW]
        if raw & _STOP_DET:
            if raw & _TX_ABRT or op.into is not None and self._rx[_COUNT]:
                op.error = EIO
                self._off()
            self._bus.ended(op)
        elif raw & _TX_ABRT and not self._regs[_STATUS] & _ACTIVE:
            op.error = EIO  # another controller has the bus
            self._off()
            self._bus.ended(op)
        elif self.words[_LATE] > self._limit:
            # The task, when it goes on, frees the bus, which takes time.
            op.error = ETIMEDOUT
            op.state = 1
            self._bus.ring(b"\0")
        else:
            words = self.words
            wait = words[_WAIT]
            words[_LATE] += wait
            self._alarm[_COUNT_TRIG] = wait
            words[_WAIT] = min(wait + wait, 400)

    def _off(self):
        self._cmd_dma.active(0)
        self._rx_dma.active(0)

    def stop(self, op):
        """Stops a transfer, and frees a bus that hangs."""
        r = self._regs
        # The channels first: an abort empties the FIFO, which would ask for all that is left.
        self._alarm_dma.active(0)
        self._off()
        if not r[_RAW] & _STOP_DET:
            r[_ENABLE] = 1 | _ABORT  # a STOP after the byte
            begin = time.ticks_us()
            us = 30000000 // self._numbers[1]["freq"] + 10
            while r[_ENABLE] & _ABORT:
                if time.ticks_diff(time.ticks_us(), begin) > us:
                    return self._free()
        r[_CLR_INTR]

    def _free(self):
        # Somebody holds a line low. A device that waits for clocks gets them, and a STOP.
        number, numbers = self._numbers
        us = 500000 // numbers["freq"] + 1
        scl = machine.Pin(numbers["scl"], machine.Pin.OPEN_DRAIN, value=1)
        sda = machine.Pin(numbers["sda"], machine.Pin.OPEN_DRAIN, value=1)
        for _ in range(9):
            if sda():
                break
            scl(0)
            time.sleep_us(us)
            scl(1)
            time.sleep_us(us)
        scl(0)
        sda(0)
        time.sleep_us(us)
        scl(1)
        time.sleep_us(us)
        sda(1)
        machine.I2C(number, **{k: numbers[k] for k in ("freq", "scl", "sda", "timeout")})

    def close(self):
        for dma in (self._cmd_dma, self._alarm_dma, self._rx_dma):
            dma.irq(None)
            dma.close()
