"""Sensors with deadlines: each round has a value from each sensor, or None from a late one.

Two sensors are read at the same time: an ultrasonic range finder (HC-SR04) whose echo may never
come, and a scale on a UART that answers "?7" with "7 1250", if it is there. A round lasts no
longer than the longest deadline. Any other fault ends the program, and says where it is.

    GPIO 16, 17                 TRIG and ECHO of the range finder (ECHO by a divider to 3.3 V)
    GPIO 4 (TX), GPIO 5 (RX)    the scale

Install: asyncio_alt, group.json, timeouts.json, devices.json.
Run: mpremote run deadlines.py
On another board: change the numbers of the pins and of the UART.
"""

from time import sleep_us

from machine import UART, Pin

import asyncio_alt as asyncio
from asyncio_alt.devices import Pulse

trigger = Pin(16, Pin.OUT, value=0)
echo = Pin(17, Pin.IN)
uart = asyncio.StreamReader(UART(1, 9600, tx=Pin(4), rx=Pin(5)))
asked = 0  # so many questions


async def distance():
    """In mm. The echo is a pulse as long as the sound was on its way."""
    async with Pulse(echo) as pulses:
        trigger(1)
        sleep_us(10)
        trigger(0)
        async for us in pulses:
            return us * 343 // 2000


async def weight():
    """In g. An answer repeats the number of its question, so that a late one is passed over."""
    global asked
    asked += 1
    uart.write("?%d\n" % asked)
    while True:
        number, value = (await uart.readline()).split()
        if int(number) == asked:
            return int(value)


async def read(values, sensor, ms):
    name = sensor.__name__
    values[name] = None
    try:
        async with asyncio.timeout_ms(ms):
            values[name] = await sensor()
    except (asyncio.TimeoutError, ValueError) as er:
        print(name, repr(er))


async def main():
    while True:
        values = {}
        async with asyncio.TaskGroup() as group:  # ends when both have ended
            group.create_task(read(values, distance, 40))
            group.create_task(read(values, weight, 100))
        print(values)
        await asyncio.sleep_ms(500)


asyncio.run(main())
