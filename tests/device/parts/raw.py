# Peers of a link that the test controls. "links" goes ahead of it.

import struct

import asyncio_alt as asyncio
from asyncio_alt.pubsub import FramedProtocol, Listen, Tcp
from asyncio_alt.pubsub.link.handshake import call


class Raw(FramedProtocol):
    # A peer that the test controls.
    lossy = False
    number = 0

    def send(self, frame, rest=b""):
        self.send_frame(frame, rest)

    def data(self, payload):
        number = self.number
        self.number += 1
        self.send(b"\x08" + bytes((number >> 8, number & 255)) + b"\0\0\0\x01t", payload)


async def shaken(port, session=b"12345678", number=0, keepalive=60000):
    # Returns a Raw that has shaken hands, and the state that the other end expects of it.
    def state(conn):
        raw.number = number
        return struct.pack("<8s8sHHIHI", session, bytes(8), 0, number, 10000, 16, keepalive)

    raw = Raw(20000)
    for _ in range(100):
        try:
            await Tcp(HOST, port).open(lambda: raw)
            break
        except OSError:  # it does not listen yet
            await asyncio.sleep(0.01)
    theirs = await asyncio.wait_for(call(raw, b"secret", state), 3)
    raw.start_dispatch()  # or it does not notice an end
    return raw, struct.unpack("<8s8sHHIHI", theirs)


async def raw():
    # A listening side, and a function that connects to it.
    a = Side(Listen(HOST, free_port()))
    a.broker.publish("secret/topic", b"secret payload", retain=True)

    async def connect():
        for _ in range(300):
            try:
                return await asyncio.open_connection(HOST, a.link.carrier.port)
            except OSError:  # it does not listen yet
                await asyncio.sleep(0.01)

    a.link.start()
    return a, connect


async def all_of(reader):
    # Returns the data up to the end.
    data = b""
    try:
        while True:
            more = await asyncio.wait_for(reader.read(1000), 3)
            if not more:
                return data
            data += more
    except OSError:
        return data
