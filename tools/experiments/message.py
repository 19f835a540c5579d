# A message over TCP on 127.0.0.1, with its length ahead: from the sender's write to the receiver
# that has it, in us. The receiver is a task that reads from a stream, or a protocol.

import time


def measure(package, repeats, size, how="stream"):
    # size: of a message, in bytes; how: "stream" or "protocol"
    aio = __import__(package)
    us = []

    async def serve(reader, writer):
        while len(us) < repeats:
            n = int.from_bytes(await reader.readexactly(4), "big")
            handle(await reader.readexactly(n))
        writer.close()
        await writer.wait_closed()

    def handle(message):
        assert len(message) == size
        us.append(time.ticks_diff(time.ticks_us(), begin))
        done.set()

    def receiver():
        class Receiver(aio.Protocol):
            data = b""

            def data_received(self, data):
                if self.data:
                    data = self.data + data
                while len(data) >= 4:
                    n = int.from_bytes(data[:4], "big") + 4
                    if len(data) < n:
                        break
                    handle(data[4:n])
                    data = data[n:]
                self.data = data

        return Receiver()

    async def main():
        nonlocal begin, done
        done = aio.Event()
        port = 20000 + time.ticks_us() % 10000
        while True:
            try:
                if how == "protocol":
                    server = await aio.create_server(receiver, "127.0.0.1", port)
                else:
                    server = await aio.start_server(serve, "127.0.0.1", port)
                break
            except OSError:  # the port is taken
                port += 1
        _, writer = await aio.open_connection("127.0.0.1", port)
        await aio.sleep_ms(1)
        message = size.to_bytes(4, "big") + bytes(size)
        for _ in range(repeats):
            done.clear()
            begin = time.ticks_us()
            writer.write(message)
            await done.wait()
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return us

    begin = done = None
    return {"us": aio.run(main())}
