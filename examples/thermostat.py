"""A thermostat that a PC can join: join_board.py reads its values and sets its target.

The link listens for the PC. Without one, the thermostat goes on by itself.

    GPIO 15    a relay that switches a heater

Install: asyncio_alt, protocol.json, pubsub.json, link.json.
Run: copy it as main.py to a board that has joined the network, such as a Pico W.
On another board: change the pin and the thermometer.
"""

from machine import ADC, Pin

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen

SECRET = b"the same in join_board.py"
EVERY = 1  # s

carrier = Listen("0.0.0.0", 8765)
# By a UART: carrier = Serial(UART(1, 115200, tx=Pin(4), rx=Pin(5)), calls=False)

thermometer = ADC(4)
heater = Pin(15, Pin.OUT, value=0)


def celsius():
    volts = thermometer.read_u16() * 3.3 / 65535
    return round(27 - (volts - 0.706) / 0.001721, 1)


async def main():
    broker = Broker()
    target = 20

    def set_target(topic, value):
        nonlocal target
        target = min(max(float(value), 5), 30)  # from outside: nothing that hurts

    broker.subscribe_call("set/target", set_target)
    async with Link(broker, carrier, send=["room/#"], receive=["set/#"], secret=SECRET):
        while True:
            value = celsius()
            heater(value < target)
            broker.publish("room/temperature", value, retain=True)
            broker.publish("room/heating", bool(heater()), retain=True)
            await asyncio.sleep(EVERY)


asyncio.run(main())
