"""A MODBUS RTU device on a UART, as a Protocol: no task, an answer from inside the poll.

A master reads and writes the registers of this device: function 3 reads some, function 6 writes
one. The bus has a silence of 3.5 characters between two frames; a frame that is damaged or that
is for another device gets no answer.

    GPIO 4 (TX), GPIO 5 (RX)    an RS-485 transceiver that switches its direction by itself

Install: asyncio_alt, protocol.json.
Run: mpremote run modbus.py
On another board: change the number and the pins of the UART.
"""

import struct
from time import ticks_diff, ticks_ms

from machine import UART, Pin

import asyncio_alt as asyncio

ADDRESS = 17
BAUD = 9600
SILENCE = 4  # ms: 3.5 characters at 9600 baud

registers = [0] * 128


def crc(data):
    total = 0xFFFF
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0xA001 if total & 1 else 0)
    return struct.pack("<H", total)


def answer(address, function, first, value):
    """The answer to a request; value: how many registers to read, or the value to write."""
    if function == 6 and first < len(registers):
        registers[first] = value
        return struct.pack(">BBHH", address, function, first, value)
    if function == 3 and 0 < value and first + value <= len(registers):
        data = struct.pack(">%dH" % value, *registers[first : first + value])
        return bytes((address, function, len(data))) + data
    return bytes((address, function | 0x80, 2 if function in (3, 6) else 1))  # an exception


class Device(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.frame = b""
        self.heard = ticks_ms()

    def data_received(self, data):
        now = ticks_ms()
        if ticks_diff(now, self.heard) >= SILENCE:
            self.frame = b""  # a new frame begins
        self.heard = now
        if len(self.frame) <= 8:  # it grows no further
            self.frame += data
        if len(self.frame) == 8 and crc(self.frame[:6]) == self.frame[6:]:
            request = struct.unpack(">BBHH", self.frame[:6])
            if request[0] == ADDRESS:
                reply = answer(*request)
                self.transport.write(reply + crc(reply))


async def main():
    asyncio.connect_stream(Device(), UART(1, BAUD, tx=Pin(4), rx=Pin(5)))
    while True:
        registers[0] = registers[0] + 1 & 0xFFFF  # register 0 counts seconds
        await asyncio.sleep(1)


asyncio.run(main())
