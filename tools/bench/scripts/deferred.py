# The time of an echo request over TCP on 127.0.0.1, in us: with the transport as it is, which
# writes at once, and with one that waits for the poll before it writes.

import time


def measure(package, repeats, size):
    # package: asyncio_alt, or "asyncio" for the transport that waits
    import asyncio_alt as aio
    import asyncio_alt.protocol as protocol

    us = []

    class Deferred(protocol.Transport):
        def write(self, data):
            self._out.append(bytearray(data))
            self._size += len(data)
            self._poll()

    if package == "asyncio":
        protocol.Transport = Deferred

    class Echo(aio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    class Client(Echo):
        n = 0

        def request(self):
            self.begin = time.ticks_us()
            self.transport.write(bytes(size))

        def data_received(self, data):
            self.n += len(data)
            if self.n == size:
                self.n = 0
                us.append(time.ticks_diff(time.ticks_us(), self.begin))
                if len(us) == repeats:
                    done.set()
                else:
                    self.request()

    async def main():
        nonlocal done
        done = aio.Event()
        port = 20000 + time.ticks_us() % 10000
        while True:
            try:
                server = await aio.create_server(Echo, "127.0.0.1", port)
                break
            except OSError:  # the port is taken
                port += 1
        async with server:
            _, client = await aio.create_connection(Client, "127.0.0.1", port)
            client.request()
            await done.wait()

    done = None
    aio.run(main())
    return {"us": us}
