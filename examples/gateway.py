"""A PC or Raspberry Pi that joins the sensor hub's serial line to an MQTT broker.

What the hub publishes under hub/ is at the MQTT broker under home/hub/. A retained number of
seconds under set/every there reaches the hub when it wakes up:

    mosquitto_pub -t home/set/every -m 10 -r

Install: pip install "asyncio_alt[mqtt,serial]"
Run: python gateway.py /dev/ttyUSB0 localhost
"""

import asyncio
import sys

import aiomqtt
from serial_asyncio_fast import create_serial_connection

from asyncio_alt.pubsub import Broker, Link, mqtt

SECRET = b"the same in gateway.py"


class SerialPort:
    """A carrier for a Link."""

    calls = False  # the hub calls, whenever it is awake
    lossy = True

    def __init__(self, name, baud):
        self.name = name
        self.baud = baud

    async def open(self, factory):
        loop = asyncio.get_running_loop()
        await create_serial_connection(loop, factory, self.name, baudrate=self.baud)


async def main(port, host, mqtt_port=1883):
    broker = Broker()
    broker.subscribe_call("#", print)
    client = mqtt.AioMqtt(aiomqtt.Client(host, int(mqtt_port)))
    bridge = mqtt.Bridge(
        broker, client, send=["hub/#"], receive=["set/every"], remote="home/", qos=1
    )
    carrier = SerialPort(port, 115200)
    link = Link(broker, carrier, send=["set/every"], receive=["hub/#"], secret=SECRET)
    async with bridge, link:
        while True:  # until Ctrl-C
            await asyncio.sleep(5)
            if not bridge.connected:  # the link reports a port that cannot be opened by itself
                print("no connection to MQTT:", repr(bridge.error), file=sys.stderr)


if len(sys.argv) < 3:
    sys.exit(__doc__)
try:
    asyncio.run(main(*sys.argv[1:]))
except KeyboardInterrupt:
    pass
