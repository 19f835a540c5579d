# An echo server that aborts connections on which nothing comes. Prints the allocated bytes each
# time that no connection is left, and returns its counts at the end.

import gc
import socket
import time


def measure(package, port, idle_ms):
    # idle_ms: without data, before it aborts. It ends when a client has sent "stop".
    aio = __import__(package)
    core = aio.core
    made = []  # the protocols that have a connection
    stopped = False
    counts = {"connections": 0, "aborted": 0, "errors": 0, "lost twice": 0, "reported": 0}

    class Echo(aio.Protocol):
        def connection_made(self, transport):
            counts["connections"] += 1
            made.append(self)
            self.transport = transport
            self.seen = time.ticks_ms()

        def data_received(self, data):
            nonlocal stopped
            self.seen = time.ticks_ms()
            if data == b"stop":
                stopped = True
            self.transport.write(data)

        def pause_writing(self):
            self.transport.pause_reading()

        def resume_writing(self):
            self.seen = time.ticks_ms()
            self.transport.resume_reading()

        def connection_lost(self, exc):
            counts["errors"] += exc is not None
            counts["lost twice"] += self not in made
            made.remove(self)

    def report(loop, context):
        counts["reported"] += 1

    def descriptor():
        s = socket.socket()
        n = s.fileno()
        s.close()
        return n

    async def main():
        aio.get_event_loop().set_exception_handler(report)
        first = descriptor()
        served = 0
        async with await aio.create_server(Echo, "127.0.0.1", port):
            while made or not stopped:
                await aio.sleep_ms(5)
                for it in list(made):
                    if time.ticks_diff(time.ticks_ms(), it.seen) > idle_ms:
                        counts["aborted"] += 1
                        it.seen = time.ticks_ms()
                        it.transport.abort()
                if not made and counts["connections"] != served:
                    served = counts["connections"]
                    gc.collect()
                    print(gc.mem_alloc())
        await aio.sleep_ms(50)
        counts["streams left"] = len(core.streams)
        counts["tasks left"] = len(core.tasks) - 1
        counts["descriptors left"] = descriptor() - first
        return counts

    return aio.run(main())
