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
    """The fields of a line as str; None if the line is damaged."""
    body, star, checksum = line.strip().partition(b"*")
    if not star or body[:1] != b"$":
        return None
    total = 0
    for byte in body[1:]:
        total ^= byte
    try:
        return body[1:].decode().split(",") if total == int(checksum, 16) else None
    except ValueError:
        return None


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
                found = fields(await reader.readline())
        except asyncio.TimeoutError:
            print("the receiver is silent")
            continue
        if not found:
            damaged += 1
            print("damaged lines:", damaged)
        elif found[0][2:] == "GGA":
            _, utc, lat, ns, lon, ew, quality = found[:7]
            if quality == "0":
                print("no position yet")
            else:
                print(utc, "%.4f %.4f" % (degrees(lat, ns), degrees(lon, ew)))


asyncio.run(main())
