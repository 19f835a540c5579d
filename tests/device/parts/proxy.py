# A proxy that cuts connections. "links" goes ahead of it.

import asyncio_alt as asyncio


class Proxy:
    # Carries bytes between a link and `port`; cuts each connection after as many bytes, of both
    # directions together, as `cuts` says, the last ones never.
    def __init__(self, port, cuts=()):
        self.port = port
        self.cuts = list(cuts)
        self.carried = 0
        self.open = []
        self.mute = False  # carry nothing more, but keep it open

    async def __aenter__(self):
        while True:
            self.listens = free_port()
            if self.listens != self.port:  # which nobody may listen on yet
                break
        self.server = await asyncio.start_server(self.serve, HOST, self.listens)
        return self

    async def __aexit__(self, *exc):
        self.cut()
        self.server.close()
        await asyncio.sleep(0.01)

    def cut(self):
        for end in self.open:
            end.cut = True
            end.wake()
        self.open.clear()

    async def serve(self, reader, writer):
        both = End()
        both.left = self.cuts.pop(0) if self.cuts else -1
        try:
            reader2, writer2 = await asyncio.open_connection(HOST, self.port)
        except OSError:
            return await closed(writer)
        self.open.append(both)
        tasks = [
            asyncio.create_task(self.carry(both, reader, writer2)),
            asyncio.create_task(self.carry(both, reader2, writer)),
        ]
        await both.event.wait()
        for task in tasks:
            task.cancel()
        for w in (writer, writer2):
            await closed(w)

    async def carry(self, both, reader, writer):
        try:
            while True:
                data = await reader.read(1000)
                if self.mute:
                    await asyncio.sleep(10)
                if both.left >= 0:
                    data = data[: both.left]
                    both.left -= len(data)
                self.carried += len(data)
                writer.write(data)
                await writer.drain()
                if not data or both.left == 0:
                    break
        except OSError:
            pass
        both.wake()


class End:
    cut = False

    def __init__(self):
        self.event = asyncio.Event()

    def wake(self):
        self.event.set()
