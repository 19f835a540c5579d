# The time of a collection, the heap in use, and the time of a small web request, with a server.

import gc
import time

_PAGE = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello, world"


def measure(package, port, requests):
    gc.collect()
    before = gc.mem_alloc()
    aio = __import__(package)

    async def serve(reader, writer):
        while (await reader.readline()).strip():
            pass
        writer.write(_PAGE)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def request():
        reader, writer = await aio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        await writer.drain()
        answer = await aio.wait_for(reader.read(-1), 5)
        assert answer == _PAGE, answer
        writer.close()
        await writer.wait_closed()

    async def main():
        server = await aio.start_server(serve, "127.0.0.1", port)
        await request()
        gc.collect()
        used = gc.mem_alloc() - before
        begin = time.ticks_us()
        for _ in range(requests):
            await request()
        each = time.ticks_diff(time.ticks_us(), begin) / requests
        collections = []
        for _ in range(50):
            begin = time.ticks_us()
            gc.collect()
            collections.append(time.ticks_diff(time.ticks_us(), begin))
        server.close()
        return {"collect": collections, "used": used, "us": each}

    return aio.run(main())
