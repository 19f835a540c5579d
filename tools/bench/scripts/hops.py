# A board for tools/bench/hops.py. The emulator drives and watches its pins: edges of one pin go to
# a link over UART 1, commands from there go to other pins.

import json

from machine import UART, Pin

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Publisher, Serial

EDGE = 16  # rises for each message
PUT = 15  # high from the handler's put() to the broker's publish
LEDS = range(10, 14)  # toggled by commands


def measure(edges, every_ms, keepalive):
    return asyncio.run(main(edges, every_ms, keepalive))


async def main(edges, every_ms, keepalive):
    broker = Broker()
    publisher = Publisher(broker, "edge", 8)
    put_pin = Pin(PUT, Pin.OUT, value=0)
    leds = {n: Pin(n, Pin.OUT, value=0) for n in LEDS}
    for n in [PUT] + list(LEDS):
        print('#EMU {"watch": %d}' % n)
    count = dropped = 0
    took = []
    end = asyncio.Event()

    def handler(_):
        nonlocal count
        publisher.put(count)
        put_pin(1)
        count += 1

    def after(_, number):
        nonlocal dropped
        if link.dropped == dropped:
            took.append(number)
        dropped = link.dropped

    link = Link(
        broker,
        Serial(UART(1, 115200), calls=False),
        send=["edge", "done"],
        receive=["toggle", "end"],
        secret=b"secret",
        window=64,
        keepalive=keepalive,
    )
    broker.subscribe_call("edge", lambda topic, number: put_pin(0))
    broker.subscribe_call("toggle", lambda topic, payload: leds[int(payload)].toggle())
    broker.subscribe_call("end", lambda topic, payload: end.set())
    async with link:
        broker.subscribe_call("edge", after)  # it comes after the link
        Pin(EDGE, Pin.IN).irq(handler, Pin.IRQ_RISING, hard=True)
        await link.wait_connected()
        for _ in range(edges):
            print('#EMU {"pin": %d, "value": 1, "after_us": 2000}' % EDGE)
            print('#EMU {"pin": %d, "value": 0, "after_us": 2000}' % EDGE)
            await asyncio.sleep_ms(every_ms)
        await link.drain()
        while broker.publish("done", took):
            await asyncio.sleep_ms(10)
        await end.wait()
    return json.dumps({"edges": count, "overruns": publisher.overruns, "resent": link.resent})
