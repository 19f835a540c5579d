# with: tasks, tls
# create_connection and create_server, on 127.0.0.1.

import errno
import socket
import time

import asyncio_alt as asyncio
from asyncio_alt import core

HOST = "127.0.0.1"
PORT = free_port()  # where the servers listen


class Base(asyncio.Protocol):
    # Notes the data and the end.
    def __init__(self):
        self.data = b""
        self.exc = "no end yet"
        self.changed = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        self.changed.set()

    def connection_lost(self, exc):
        self.exc = exc
        self.changed.set()

    async def received(self, data):
        while not self.data.startswith(data):
            assert self.exc == "no end yet", self.exc
            await asyncio.wait_for(self.changed.wait(), 10)
            self.changed.clear()
        self.data = self.data[len(data) :]

    async def lost(self):
        while self.exc == "no end yet":
            await asyncio.wait_for_ms(self.changed.wait(), 1000)
            self.changed.clear()
        return self.exc


class Echo(Base):
    def data_received(self, data):
        self.transport.write(data)


served = []  # the protocols of the server's side


def serve(factory, ssl=None):
    def make():
        served.append(factory())
        return served[-1]

    return asyncio.create_server(make, HOST, PORT, ssl=ssl)


async def connect(factory=Base):
    transport, protocol = await asyncio.create_connection(factory, HOST, PORT)
    assert protocol.transport is transport
    return transport, protocol


async def accepted(n):
    # The protocol of the server's nth connection.
    for _ in range(100):
        if len(served) > n:
            return served[n]
        await asyncio.sleep_ms(1)
    raise AssertionError("not accepted")


def descriptor():
    # The number that the next socket gets: the same again if no socket is left open.
    s = socket.socket()
    n = s.fileno()
    s.close()
    return n


@needs("sockets")
async def test_echo():
    n = descriptor()
    async with await serve(Echo):
        for _ in range(3):
            t, p = await connect()
            for i in range(3):
                t.write(b"line %d\n" % i)
                await p.received(b"line %d\n" % i)
            t.close()
            assert await p.lost() is None
        for p in served:
            assert await p.lost() is None
    assert len(served) == 3 and descriptor() == n
    assert not core.streams and len(core.tasks) == 1


@needs("sockets")
async def test_connection_is_made_when_create_connection_returns():
    log = []

    class P(Base):
        def connection_made(self, transport):
            super().connection_made(transport)
            log.append(transport)

    async with await serve(Echo):
        t, p = await connect(P)
        assert log == [t]
        assert t.get_extra_info("socket").fileno() >= 0
        server = await accepted(0)
        assert t.get_extra_info("peername") and server.transport.get_extra_info("peername")
        assert t.get_extra_info("cipher") is None
        t.abort()
        await p.lost()


@needs("sockets")
async def test_connecting_to_a_closed_port_fails():
    n = descriptor()
    e = await araises(OSError, connect())
    assert e.errno == errno.ECONNREFUSED
    assert descriptor() == n and not core.streams


@needs("sockets")
async def test_factory_that_raises_leaks_nothing():
    def bad():
        raise ValueError("factory")

    reports = quiet()
    async with await serve(Echo):
        await asyncio.sleep_ms(1)
        n = descriptor()
        await araises(ValueError, connect(bad))
        assert await (await accepted(0)).lost() is None
        assert descriptor() == n
    async with await serve(bad):
        for _ in range(2):
            t, p = await connect()
            await p.lost()
    assert [e.args for e in reports] == [("factory",)] * 2
    assert not core.streams


@needs("sockets")
async def test_taken_port_is_refused():
    async with await serve(Echo):
        n = descriptor()
        assert (await araises(OSError, serve(Echo))).errno == errno.EADDRINUSE
        assert descriptor() == n


@needs("sockets")
async def test_exception_in_one_connection_leaves_the_others():
    class P(Echo):
        def data_received(self, data):
            if data == b"fail":
                raise ValueError("callback")
            super().data_received(data)

    reports = quiet()
    async with await serve(P):
        good, p = await connect()
        bad, q = await connect()
        bad.write(b"fail")
        assert await q.lost() is None
        good.write(b"ping")
        await p.received(b"ping")
        good.close()
        await p.lost()
    assert [e.args for e in reports] == [("callback",)]


@needs("sockets")
async def test_closed_server_keeps_its_connections():
    server = await serve(Echo)
    t, p = await connect()
    await accepted(0)
    server.close()
    server.close()
    await server.wait_closed()
    t.write(b"ping")
    await p.received(b"ping")
    await araises(OSError, connect())
    t.close()
    await p.lost()


@needs("sockets")
async def test_small_writes_do_not_wait_for_acknowledgements():
    # As they do with Nagle's algorithm: then each second one takes as long as the peer, which has
    # nothing to say, delays its acknowledgement.
    async def took(n):
        begin = time.ticks_us()
        for _ in range(n):
            t.write(b"a")
            await asyncio.sleep_ms(0)
            t.write(b"b")
            await p.received(b"abab")
        return time.ticks_diff(time.ticks_us(), begin)

    class Half(Base):
        # Answers each second byte.
        n = 0

        def data_received(self, data):
            self.n += len(data)
            if self.n % 2 == 0:
                self.transport.write(b"abab")

    async with await serve(Half):
        t, p = await connect()
        await took(40)  # the kernel acknowledges the first ones at once
        without = await took(20)
        for transport in (t, served[0].transport):
            transport.get_extra_info("socket").setsockopt(6, 1, 0)
        assert without < await took(20) / 3


@needs("sockets")
async def test_large_transfer_arrives_whole():
    # 1 MB, with the sender held up by the receiver.
    block = bytes(range(250)) * 40

    class Sender(Base):
        left = 100

        def connection_made(self, transport):
            super().connection_made(transport)
            self.room = True
            self.resume_writing()

        def pause_writing(self):
            self.room = False

        def resume_writing(self):
            self.room = True
            while self.room and self.left:
                self.left -= 1
                self.transport.write(block)
                most[0] = max(most[0], self.transport.get_write_buffer_size())
            if not self.left:
                self.transport.close()

    class Receiver(Base):
        n = 0

        def data_received(self, data):
            assert data[0] == self.n % 250
            self.n += len(data)

    most = [0]
    async with await serve(Sender):
        t, p = await connect(Receiver)
        t.pause_reading()
        await asyncio.sleep_ms(50)
        assert p.n == 0
        t.resume_reading()
        assert await p.lost() is None
        assert p.n == 1000000 and most[0] <= len(block) + 4096
    assert not core.streams


@needs("sockets")
async def test_buffered_protocol_receives_1_mb_with_the_heap_locked():
    import micropython

    block = bytes(10000)

    class Receiver(asyncio.BufferedProtocol):
        n = 0
        buf = bytearray(4096)

        def get_buffer(self, sizehint):
            return self.buf

        def buffer_updated(self, nbytes):
            self.n += nbytes

    class Sender(asyncio.Protocol):
        def connection_made(self, transport):
            senders.append(transport)

    senders = []
    async with await serve(Sender):
        t, p = await asyncio.create_connection(Receiver, HOST, PORT)
        while not senders:
            await asyncio.sleep_ms(1)
        s = senders[0]
        s.write(block)
        await asyncio.sleep_ms(2)
        micropython.heap_lock()
        for _ in range(99):
            s.write(block)
            await asyncio.sleep_ms(0)
        for _ in range(1000):
            if p.n == 1000000:
                break
            await asyncio.sleep_ms(0)
        micropython.heap_unlock()
        assert p.n == 1000000, p.n


@needs("sockets")
async def test_peer_that_vanishes_while_a_write_waits_is_noticed():
    class Stalled(Base):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    async with await serve(Stalled):
        t, p = await connect()
        for _ in range(10000):
            t.write(bytes(10000))
            if t.get_write_buffer_size():
                break
        server = await accepted(0)
        assert p.exc == "no end yet"
        server.transport.abort()
        assert (await p.lost()).errno in (errno.ECONNRESET, 32)  # EPIPE
    assert not core.streams


@needs("sockets")
async def test_chatty_peer_does_not_keep_a_small_one_waiting():
    order = []

    class Counting(Base):
        def data_received(self, data):
            order.append(len(data))

    async with await serve(Counting):
        chatty, _ = await connect()
        small, _ = await connect()
        await accepted(1)
        for p in served:
            p.transport.pause_reading()
        while not chatty.get_write_buffer_size():
            chatty.write(bytes(40000))
        small.write(b"x")
        order.clear()
        for p in served:
            p.transport.resume_reading()
        await asyncio.sleep_ms(0)
        assert len(order) == 2 and min(order) == 1 and max(order) <= 16384
        order.clear()
        for _ in range(20):
            await asyncio.sleep_ms(0)
        assert len(order) == 20 and max(order) == 16384


@needs("sockets")
def test_run_does_not_wait_for_servers_and_connections():
    n = descriptor()

    async def main():
        await serve(Echo)
        for _ in range(2):
            await connect()
        await accepted(1)

    for _ in range(2):
        served.clear()
        asyncio.run(main())
        assert [p.exc for p in served] == [None] * 2
        assert descriptor() == n and not core.streams


@needs("sockets")
async def test_clients_that_connect_stall_and_vanish_leave_nothing():
    import gc

    async def client(i):
        t, p = await connect()
        if i % 4:
            t.write(b"ping" * i)
            await p.received(b"ping")
        if i % 3 == 0:
            t.abort()
        else:
            t.close()
        await p.lost()

    async def round(n):
        await asyncio.gather(*[client(i) for i in range(n)])
        await asyncio.sleep_ms(5)
        served.clear()
        gc.collect()
        return gc.mem_alloc(), descriptor()

    async with await serve(Echo):
        await round(10)
        await round(10)
        mem, fd = await round(10)
        for _ in range(20):
            after, fd2 = await round(10)
        assert fd2 == fd and len(core.streams) == 1 and len(core.tasks) == 1
        assert after - mem < 1000, after - mem


@needs("sockets", "ssl")
async def test_echo_over_tls():
    import binascii
    import ssl

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(binascii.a2b_base64(CERT), binascii.a2b_base64(KEY))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_mode = ssl.CERT_REQUIRED
    client.load_verify_locations(cadata=binascii.a2b_base64(CERT))
    async with await serve(Echo, ctx):
        t, p = await asyncio.create_connection(
            Base, HOST, PORT, ssl=client, server_hostname="localhost"
        )
        block = bytes(range(250)) * 160
        for data in (b"abc", block, b"def"):
            t.write(data)
            await p.received(data)
        t.close()
        assert await p.lost() is None
        assert await served[0].lost() is None
    assert not core.streams


@needs("sockets", "ssl")
async def test_failed_handshake_reaches_connection_lost():
    import binascii
    import ssl

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(binascii.a2b_base64(CERT), binascii.a2b_base64(KEY))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_mode = ssl.CERT_REQUIRED  # and nobody is trusted
    reports = quiet()
    async with await serve(Echo, ctx):
        t, p = await asyncio.create_connection(
            Base, HOST, PORT, ssl=client, server_hostname="localhost"
        )
        t.write(b"abc")
        assert isinstance(await p.lost(), OSError)
        assert isinstance(await served[0].lost(), OSError)
        assert p.data == served[0].data == b""
    assert not core.streams and not reports
