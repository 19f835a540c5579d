# Messages with their length ahead, from one process to another over TCP on 127.0.0.1, in bursts;
# each burst is answered by a message. In us: "us", from the sender's write to the receiver that
# has the message; "answered", from a burst's first write to the sender that has the answer;
# "each", the time that all took, a message. Both ends are tasks with streams, or protocols that
# work in their callbacks. Runs on CPython too.

import time

try:
    ticks_us = time.ticks_us  # of a clock that all processes share
    ON_CPYTHON = False
except AttributeError:

    def ticks_us():
        return time.monotonic_ns() // 1000

    ON_CPYTHON = True


def measure(package, role, port, size, bursts, burst=1, how="stream"):
    # role: "send" or "receive"; size: of a message, in bytes, 8 at least; burst: messages in each
    # of the bursts; how: "stream" or "protocol"
    aio = __import__(package)
    us = []
    answered = []
    answer = bytes((0, 0, 0, 8)) + bytes(8)
    message = bytearray(size.to_bytes(4, "big") + bytes(size))
    begin = 0

    def send_burst(write):
        nonlocal begin
        begin = ticks_us()
        for _ in range(burst):
            message[4:12] = ticks_us().to_bytes(8, "big")
            write(message)

    def handle(data, write):
        # Returns whether it was the last one.
        now = ticks_us()
        if role == "receive":
            us.append(now - int.from_bytes(data[:8], "big"))
            if len(us) % burst == 0:
                write(answer)
            return len(us) == burst * bursts
        answered.append(now - begin)
        return len(answered) == bursts

    async def with_streams(reader, writer):
        if not ON_CPYTHON:
            writer.s.setsockopt(6, 1, 1)  # TCP_NODELAY, which is on in the others
        last = False
        while not last:
            if role == "send":
                send_burst(writer.write)
                await writer.drain()
            n = int.from_bytes(await reader.readexactly(4), "big")
            last = handle(await reader.readexactly(n), writer.write)
        await writer.drain()
        done.set()

    class Messages(aio.BufferedProtocol if how == "protocol" else object):
        def connection_made(self, transport):
            self.transport = transport
            self.view = memoryview(bytearray(8192))
            self.end = 0  # of the received bytes
            if role == "send":
                send_burst(transport.write)

        def get_buffer(self, sizehint):
            return self.view[self.end :] if self.end else self.view

        def buffer_updated(self, nbytes):
            view = self.view
            begin = 0
            end = self.end + nbytes
            while end - begin >= 4:
                to = begin + 4 + int.from_bytes(view[begin : begin + 4], "big")
                if to > end:
                    break
                if handle(view[begin + 4 : to], self.transport.write):
                    done.set()
                elif role == "send":
                    send_burst(self.transport.write)
                begin = to
            self.end = end - begin
            if begin:
                if self.end:
                    view[: self.end] = bytes(view[begin:end])
            elif end == len(view):
                self.view = memoryview(bytearray(to))
                self.view[:end] = view

        def eof_received(self):
            pass

        def connection_lost(self, exc):
            pass

    async def connect():
        if how == "stream":
            reader, writer = await aio.open_connection("127.0.0.1", port)
            await with_streams(reader, writer)
        elif ON_CPYTHON:
            loop = aio.get_running_loop()
            await loop.create_connection(Messages, "127.0.0.1", port)
        else:
            await aio.create_connection(Messages, "127.0.0.1", port)

    async def main():
        nonlocal done
        done = aio.Event()
        if role == "send":
            began = ticks_us()
            while True:
                try:
                    await connect()
                    break
                except OSError:  # the receiver does not listen yet
                    if ticks_us() - began > 10000000:
                        raise
                    await aio.sleep(0.01)
        elif how == "stream":
            await aio.start_server(with_streams, "127.0.0.1", port)
        elif ON_CPYTHON:
            loop = aio.get_running_loop()
            await loop.create_server(Messages, "127.0.0.1", port)
        else:
            await aio.create_server(Messages, "127.0.0.1", port)
        await done.wait()
        await aio.sleep(0.05)  # until the answer is on its way

    done = None
    aio.run(main())
    if role == "receive":
        return {"us": us}
    return {"answered": answered, "each": sum(answered) / burst / bursts}
