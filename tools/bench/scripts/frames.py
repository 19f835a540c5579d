# Frames over TCP on 127.0.0.1 between two ends on CPython: by its streams, drained after each
# write, and by FramedProtocol, with the same bytes on the wire. Returns us a frame.

import asyncio
import time

from asyncio_alt.pubsub import FramedProtocol


async def read_frame(reader):
    n = (await reader.readexactly(1))[0]
    if n > 127:
        n += ((await reader.readexactly(1))[0] - 1) * 128
    return await reader.readexactly(n)


async def send_frame(writer, data):
    n = len(data)
    writer.write((bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7))) + data)
    await writer.drain()


async def streams(frame, repeats, burst):
    # The client sends `burst` frames and waits for as many; it does so `repeats` times.
    async def serve(reader, writer):
        try:
            while True:
                await send_frame(writer, await read_frame(reader))
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await asyncio.sleep(0.01)
    begin = time.perf_counter()
    for _ in range(repeats):
        for _ in range(burst):
            await send_frame(writer, frame)
        for _ in range(burst):
            await read_frame(reader)
    seconds = time.perf_counter() - begin
    writer.close()
    server.close()
    await asyncio.sleep(0.01)
    return seconds * 1e6 / repeats / burst


class Echo(FramedProtocol):
    def connection_made(self, transport):
        super().connection_made(transport)
        self.start_dispatch()

    def frame_received(self, view):
        self.send_frame(view)
        if self.full:
            return self.drain()


class Client(Echo):
    def begin(self, frame, repeats, burst):
        self.frame = frame
        self.burst = burst
        self.left = repeats * burst
        self.ended = asyncio.get_running_loop().create_future()
        self.send()

    def send(self):
        self.missing = self.burst
        for _ in range(self.burst):
            self.send_frame(self.frame)

    def frame_received(self, view):
        self.left -= 1
        self.missing -= 1
        if not self.left:
            self.ended.set_result(None)
        elif not self.missing:
            self.send()


async def protocols(frame, repeats, burst):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    transport, client = await loop.create_connection(Client, *server.sockets[0].getsockname())
    await asyncio.sleep(0.01)
    begin = time.perf_counter()
    client.begin(frame, repeats, burst)
    await client.ended
    seconds = time.perf_counter() - begin
    transport.close()
    server.close()
    await asyncio.sleep(0.01)
    return seconds * 1e6 / repeats / burst


def measure(loop, how, size, repeats, burst=1):
    # loop: "CPython" for its own, or "uvloop"; how: "streams" or "protocols"; size: of a frame
    if loop == "uvloop":
        from uvloop import run
    else:
        from asyncio import run
    return run(globals()[how](bytes(size), repeats, burst))
