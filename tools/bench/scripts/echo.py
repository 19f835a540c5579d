# The round trip of a frame between two tasks over TCP on 127.0.0.1, in us.

import time


def measure(package, repeats, size):
    # size: of a frame, in bytes
    aio = __import__(package)

    async def serve(reader, writer):
        for _ in range(repeats):
            writer.write(await reader.readexactly(size))
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main():
        port = 20000 + time.ticks_us() % 10000
        while True:
            try:
                server = await aio.start_server(serve, "127.0.0.1", port)
                break
            except OSError:  # the port is taken
                port += 1
        reader, writer = await aio.open_connection("127.0.0.1", port)
        frame = bytes(size)
        us = []
        for _ in range(repeats):
            begin = time.ticks_us()
            writer.write(frame)
            await writer.drain()
            await reader.readexactly(size)
            us.append(time.ticks_diff(time.ticks_us(), begin))
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return us

    return {"us": aio.run(main())}
