"""Position and time from a GPS receiver: lines of NMEA 0183, read with a stream.

The receiver sends some lines a second. This program takes the GGA lines among them, drops lines
that were damaged on the way, and says when the receiver falls silent.

    GPIO 5 (RX)    the receiver's TX

Install: asyncio_alt, timeouts.json.
Run: mpremote run gps.py
On another board: change the number and the pins of the UART.
"""

from machine import UART, Pin

import asyncio_alt as asyncio

SILENCE = 3  # s

uart = UART(1, 9600, tx=Pin(4), rx=Pin(5))


def fields(line):
    """The fields of a line (bytes), as str. ValueError if the line is damaged."""
    body, star, checksum = line.strip().partition(b"*")
    total = 0
    for byte in body[1:]:
        total ^= byte
    if body[:1] != b"$" or total != int(checksum, 16):
        raise ValueError("wrong checksum")
    return body[1:].decode().split(",")


def degrees(text, side):
    """4807.038, N: 48 degrees and 7.038 minutes."""
    point = text.index(".") - 2
    value = int(text[:point]) + float(text[point:]) / 60
    return -value if side in "SW" else value


async def main():
    reader = asyncio.StreamReader(uart)
    damaged = 0
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                line = await reader.readline()
            kind, *values = fields(line)
            if kind[2:] == "GGA":
                utc, lat, ns, lon, ew, quality = values[:6]
                if quality == "0":
                    print("no position yet")
                else:
                    print(utc, "%.4f %.4f" % (degrees(lat, ns), degrees(lon, ew)))
        except asyncio.TimeoutError:
            print("the receiver is silent")
        except ValueError:
            damaged += 1
            print("damaged lines:", damaged)


asyncio.run(main())
