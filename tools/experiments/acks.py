# When a link acknowledges what came: after each message, after each read (as Link does), or in a
# task that is woken. Two brokers over TCP on 127.0.0.1, in one loop, on MicroPython and CPython.
# Returns us a message: there and back, and one after the other as fast as the link takes them.

import time

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp
from asyncio_alt.pubsub.link.frame import FramedProtocol
from asyncio_alt.pubsub.link.link import _Connection

try:
    from time import ticks_diff, ticks_us
except ImportError:  # CPython

    def ticks_us():
        return time.perf_counter() * 1e6

    def ticks_diff(later, earlier):
        return later - earlier


def by_message():
    received = _Connection.frame_received

    def frame_received(self, view):
        parked = received(self, view)
        if self.due:
            self.link._acknowledge(self)
        return parked

    _Connection.frame_received = frame_received


def by_task():
    made = _Connection.connection_made

    async def acknowledge(self):
        while True:
            await self.wanted.wait()
            self.wanted.clear()
            self.link._acknowledge(self)

    def connection_made(self, transport):
        self.wanted = asyncio.Event()
        self.acknowledging = asyncio.create_task(acknowledge(self))
        made(self, transport)

    def frames(self):
        parked = FramedProtocol._frames(self)
        if self.due:
            self.wanted.set()
        return parked

    _Connection.connection_made = connection_made
    _Connection._frames = frames


async def main(port, size, repeats):
    payload = bytes(size)
    a = Broker()
    b = Broker()
    one = Link(a, Listen("127.0.0.1", port), ["ping", "data"], ["pong"])
    other = Link(b, Tcp("127.0.0.1", port), ["pong"], ["ping", "data"])
    done = asyncio.Event()
    left = 0

    def pong(topic, payload):
        nonlocal left
        left -= 1
        if left:
            a.publish("ping", payload)
        else:
            done.set()

    b.subscribe_call("ping", lambda topic, payload: b.publish("pong", payload))
    a.subscribe_call("pong", pong)
    us = []
    async with one, other:
        await one.wait_connected()
        await other.wait_connected()
        left = repeats
        begin = ticks_us()
        a.publish("ping", payload)
        await done.wait()
        us.append(ticks_diff(ticks_us(), begin) / repeats)
        await one.drain()
        begin = ticks_us()
        for _ in range(repeats):
            await a.publish_wait("data", payload)
        await one.drain()
        us.append(ticks_diff(ticks_us(), begin) / repeats)
        assert not one.dropped and not other.dropped
    return us


def measure(how, port, size=64, repeats=2000):
    # how: "read", "message" or "task"
    if how != "read":
        globals()["by_" + how]()
    return asyncio.run(main(port, size, repeats))
