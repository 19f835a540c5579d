"""A sensor hub that sleeps: it measures once a minute, and at once when a door moves.

A Pico measures the temperature of its chip and watches a door contact. It sends both over a UART
to gateway.py on a PC, and sleeps until the next time. Without a gateway it goes on measuring; the
next connection brings the last values.

    GPIO 4 (TX), GPIO 5 (RX), GND    to the PC: a USB-to-serial adapter of 3.3 V
    GPIO 14                          a door contact to GND

Install: asyncio_alt, idle.json, protocol.json, pubsub.json, link.json.
Run: copy it to the board as main.py. While USB is connected, the chip does not sleep.
On another board: change the pins and the thermometer. docs/power.md tells which boards can sleep;
on the others leave out the line with power_mode().
"""

from machine import ADC, UART, Pin

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Serial

SECRET = b"the same in gateway.py"
EVERY = 60  # s, until the gateway sets another one
PATIENCE = 3  # s for the gateway to answer

uart = UART(1, 115200, tx=Pin(4), rx=Pin(5))
contact = Pin(14, Pin.IN, Pin.PULL_UP)
thermometer = ADC(4)  # in the chip; another board has another pin here


def celsius():
    volts = thermometer.read_u16() * 3.3 / 65535
    return round(27 - (volts - 0.706) / 0.001721, 1)


async def send(link):
    async with link:  # opens the UART, which keeps the chip awake
        await link.drain()  # until the gateway has all of it


async def main():
    every = EVERY
    broker = Broker()
    link = Link(
        broker, Serial(uart, calls=True), send=["hub/#"], receive=["set/every"], secret=SECRET
    )

    def set_every(topic, payload):
        nonlocal every
        every = min(max(0.5, float(payload)), 86400)

    broker.subscribe_call("set/every", set_every)
    moved = asyncio.ThreadSafeFlag()
    contact.irq(lambda pin: moved.set(), Pin.IRQ_RISING | Pin.IRQ_FALLING, hard=True)
    # The last bytes leave the UART after write(): no sleep before they are gone.
    asyncio.power_mode(asyncio.LightSleep(veto=lambda: not uart.txdone()))
    while True:
        broker.publish("hub/temperature", celsius(), retain=True)
        broker.publish("hub/door", "open" if contact() else "closed", retain=True)
        try:
            await asyncio.wait_for(send(link), PATIENCE)
        except asyncio.TimeoutError:
            print("no gateway")
        try:
            await asyncio.wait_for(moved.wait(), every)
        except asyncio.TimeoutError:
            pass


asyncio.run(main())
