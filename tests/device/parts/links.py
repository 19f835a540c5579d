# Links on 127.0.0.1 or on a line, with their brokers; on CPython too.

import sys

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp

MICROPYTHON = sys.implementation.name == "micropython"
HOST = "127.0.0.1"


class Quick(Link):
    # Does not wait long.
    BACKOFF = 0.002, 0.01
    GREETING = 0.2
    RESEND = 20


class Heard:
    # A broker, and the messages it got.
    def __init__(self, broker=None):
        self.broker = broker or Broker()
        self.got = []
        self.broker.subscribe_call("#", self.note)

    def note(self, topic, payload):
        self.got.append((topic, payload))


class Side(Heard):
    # The same with a link.
    made = 0

    def __init__(
        self, carrier, send=("#",), receive=("#",), secret=b"secret", broker=None, **options
    ):
        super().__init__(broker)
        self.link = Quick(self.broker, carrier, send, receive, secret=secret, **options)
        # An emulated RP2040 knows no noise: its os.urandom() is always the same.
        Side.made += 1
        self.link.peer.session = b"session" + bytes((Side.made % 256,))
        self.taken = []  # the messages its link took

    async def send(self, topic, payload):
        # Publishes until the link takes it.
        while self.link.put(topic, payload):
            await asyncio.sleep(0.001)
        self.taken.append((topic, payload))


async def connected(*sides):
    for side in sides:
        await asyncio.wait_for(side.link.wait_connected(), 3)


async def drained(*sides):
    for side in sides:
        await asyncio.wait_for(side.link.drain(), 3)


def pair(**options):
    port = free_port()
    return Side(Listen(HOST, port), **options), Side(Tcp(HOST, port), **options)


def by_topic(got):
    found = {}
    for topic, payload in got:
        found.setdefault(topic, []).append(payload)
    return found


async def closed(writer):
    try:
        writer.close()
        await writer.wait_closed()
    except OSError:
        pass
