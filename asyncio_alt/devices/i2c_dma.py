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

# Places of the registers in rp2.DMA.registers: aliases, some of which begin the transfer.
_WRITE_ADDR = const(1)
_COUNT = const(2)
_COUNT_TRIG = const(7)
_READ_ADDR_TRIG = const(15)

# The controller's registers.
_TAR = const(1)
_DATA_CMD = const(0x10)
_RAW = const(13)
_CLR_INTR = const(16)
_ENABLE = const(27)
_STATUS = const(28)

_TX_ABRT = const(1 << 6)  # in RAW
_STOP_DET = const(1 << 9)
_ABORT = const(2)  # in ENABLE
_ACTIVE = const(32)  # in STATUS

_READ = const(0x100)  # in a command
_STOP = const(0x200)
_RESTART = const(0x400)

_RP2350 = "RP2350" in sys.implementation._machine

# As machine code where the port can make that. MicroPython does not look at annotations otherwise.
_CODE = """
def widen(to: ptr16, at: int, data: ptr8, n: int):
    i = 0
    while i < n:
        to[at + i] = data[i]
        i += 1

def reads(to: ptr16, at: int, n: int):
    i = 0
    while i < n:
        to[at + i] = 0x100
        i += 1
"""


def _compiled():
    names = {}
    try:
        exec(_CODE.replace("\ndef ", "\n@micropython.viper\ndef "), {}, names)
    except Exception:  # no code emitter
        exec(_CODE, {}, names)
    return names["widen"], names["reads"]


_widen, _reads = _compiled()


class Engine:
    def __init__(self, bus, port):
        text = str(port)
        numbers = {}
        for field in text[7:-1].split(","):
            name, _, value = field.strip().partition("=")
            numbers[name] = int(value) if value else 0
        number = int(text[4])
        self._bus = bus
        self._numbers = number, numbers
        self._cmd_dma, self._rx_dma, self._alarm_dma = cmd, rx, alarm = channels(3)
        self._cmd = cmd.registers
        self._rx = rx.registers
        self._alarm = alarm.registers
        self._late = 0  # the alarm has gone off this many bits after the expected end
        self._wait = 0  # the bits until it does so again
        self._limit = numbers["timeout"] * (numbers["freq"] // 100) // 10000 + 1  # bits
        base = 0x40090000 + 0x8000 * number if _RP2350 else 0x40044000 + 0x4000 * number
        self._regs = uctypes.struct(base, {"r": (uctypes.ARRAY, uctypes.UINT32 | 40)}).r
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
        into = op.into
        head = (op.addrsize + 7) // 8
        n = head + len(into if data is None else data)
        commands = op.commands
        if not commands or len(commands) < n:
            op.commands = commands = array("H", bytes(2 * n))
            op.tx = uctypes.addressof(commands)
        for i in range(head):
            commands[i] = op.memaddr >> 8 * (head - 1 - i) & 255
        op.bits = 9 * n + 12
        if data is None:
            _reads(commands, head, n - head)
            if head:
                commands[head] = _READ | _RESTART
                op.bits += 10
            op.rx = uctypes.addressof(into)
        else:
            _widen(commands, head, data, n - head)
            op.rx = 0
        commands[n - 1] |= _STOP
        op.n = n
        op.left = n - head  # to be read

    def begin(self, op):
        r = self._regs
        self._bus.op = op
        r[_ENABLE] = 0
        r[_TAR] = op.addr
        r[_ENABLE] = 1
        r[_CLR_INTR]
        if op.rx:
            self._rx[_WRITE_ADDR] = op.rx
            self._rx[_COUNT_TRIG] = op.left
        self._late = 0
        self._wait = 9
        self._alarm[_COUNT_TRIG] = op.bits
        self._cmd[_COUNT] = op.n
        self._cmd[_READ_ADDR_TRIG] = op.tx

    start = begin

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
        if not op or op.step != 1 or op.state or self._alarm[_COUNT]:
            return
        raw = self._regs[_RAW]
        if raw & _STOP_DET:
            if raw & _TX_ABRT or op.rx and self._rx[_COUNT]:
                op.error = EIO
                self._off()
            self._bus.ended(op)
        elif raw & _TX_ABRT and not self._regs[_STATUS] & _ACTIVE:
            op.error = EIO  # another controller has the bus
            self._off()
            self._bus.ended(op)
        elif self._late > self._limit:
            # The task, when it goes on, frees the bus, which takes time.
            op.error = ETIMEDOUT
            op.state = 1
            self._bus.ring(b"\0")
        else:
            wait = self._wait
            self._late += wait
            self._alarm[_COUNT_TRIG] = wait
            self._wait = min(wait + wait, 400)

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
