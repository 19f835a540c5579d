# A number or a buffer that is of another kind is refused at the call, and its name is told.

import io

import asyncio_alt as asyncio
from asyncio_alt import StreamReader, connect_stream


class Source(io.IOBase):
    # Always ready, and has and takes anything.
    def ioctl(self, req, arg):
        return arg & 5 if req == 3 else 0

    def read(self, n=-1):
        return b"x" * n

    def readinto(self, buf):
        buf[:1] = b"x"
        return 1

    def write(self, buf):
        return len(buf)


NUMBERS = 1.5, None, "x", b"x"
BUFFERS = 5, None, [1], "text"
CONSTANT = b"abc", memoryview(b"abc")


async def refused(call, values, name, exc=TypeError):
    for value in values:
        try:
            result = call(value)
            if hasattr(result, "send"):
                await result
        except exc as er:
            assert name in str(er), er
        else:
            raise AssertionError("%s: %r is taken" % (name, value))


async def test_numbers_of_a_stream():
    for kept in (b"", b"kept"):
        stream = StreamReader(Source())
        stream.in_buf = kept
        await refused(stream.read, NUMBERS, "read: n")
        await refused(stream.readexactly, NUMBERS, "readexactly: n")
        await refused(stream.readexactly, (-1,), "readexactly: n", ValueError)
        await refused(lambda n: stream.awrite(b"abc", n), (1.5, "x"), "awrite: off")
        await refused(lambda n: stream.awrite(b"abc", 1, n), NUMBERS, "awrite: sz")
        assert stream.in_buf == kept
        assert await stream.read(2) == kept[:2] or b"xx"


async def test_buffers_of_a_stream():
    for kept in (b"", b"kept"):
        for priority in (False, True):
            stream = StreamReader(Source(), priority=priority)
            stream.in_buf = kept
            await refused(stream.readinto, BUFFERS + CONSTANT, "readinto: buf")
            assert stream.in_buf == kept
            for buf in (bytearray(2), memoryview(bytearray(2))):
                n = await stream.readinto(buf)
                assert bytes(buf[:n]) == kept[:2] or b"x"
                stream.in_buf = kept
    await refused(stream.write, (5, None, [1]), "write: buf")
    await refused(stream.writelines, ([5], [b"a", None]), "write: buf")
    await refused(stream.readuntil, BUFFERS, "readuntil: separator")
    await refused(lambda buf: stream.awrite(buf, 1), (5, None, [1]), "awrite: buf")


async def test_numbers_and_buffers_of_a_transport():
    transport = connect_stream(asyncio.Protocol(), Source())
    await refused(transport.write, BUFFERS, "write: data")
    await refused(transport.writelines, ([5], ["text"]), "write: data")
    await marks(transport)
    transport.abort()


async def marks(transport):
    name = "set_write_buffer_limits: "
    limits = transport.set_write_buffer_limits
    wrong = 1.5, "x", b"x"
    await refused(limits, wrong, name + "high")
    await refused(lambda low: limits(None, low), wrong, name + "low")
    await refused(lambda high: limits(high, 5), (4, -1), name + "high", ValueError)
    await refused(lambda low: limits(None, low), (-1,), name + "low", ValueError)
    for high, low, expected in (
        (None, None, (4096, 1024)),
        (None, 7, (28, 7)),
        (100, None, (100, 25)),
        (9, 9, (9, 9)),
        (0, 0, (0, 0)),
    ):
        limits(high, low)
        assert (transport._high, transport._low) == expected


@needs("sockets")
async def test_numbers_and_buffers_of_datagrams_and_sockets():
    import socket

    loop = asyncio.get_event_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
    await refused(transport.sendto, BUFFERS, "sendto: data")
    await refused(lambda addr: transport.sendto(b"a", addr), (5, ("a",), (1, 2)), "sendto: addr")
    await marks(transport)
    transport.abort()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await refused(lambda n: loop.sock_recv(s, n), NUMBERS, "sock_recv: nbytes")
    await refused(lambda n: loop.sock_recv(s, n), (-1, 1 << 40), "sock_recv: nbytes", ValueError)
    await refused(lambda n: loop.sock_recvfrom(s, n), NUMBERS, "sock_recvfrom: bufsize")
    wrong = BUFFERS + CONSTANT
    await refused(lambda buf: loop.sock_recv_into(s, buf), wrong, "sock_recv_into: buf")
    await refused(lambda buf: loop.sock_recvfrom_into(s, buf), wrong, "sock_recvfrom_into: buf")
    await refused(lambda buf: loop.sock_sendall(s, buf), BUFFERS, "sock_sendall: data")
    await refused(lambda buf: loop.sock_sendto(s, buf, ("127.0.0.1", 9)), BUFFERS, "data")
    s.close()


@needs("sockets")
async def test_ports_and_backlogs():
    loop = asyncio.get_event_loop()
    for value, exc in (
        (1.5, TypeError),
        (None, TypeError),
        (-1, ValueError),
        (1 << 16, ValueError),
    ):
        for call in (
            lambda port: asyncio.open_connection("127.0.0.1", port),
            lambda port: asyncio.start_server(print, "127.0.0.1", port),
            lambda port: asyncio.create_connection(asyncio.Protocol, "127.0.0.1", port),
            lambda port: asyncio.create_server(asyncio.Protocol, "127.0.0.1", port),
            lambda port: loop.getaddrinfo("127.0.0.1", port),
        ):
            await refused(call, (value,), "port", exc)
    await refused(lambda host: asyncio.start_server(print, host, 1), (None, 5), "host")
    for backlog, exc in ((1.5, TypeError), (None, TypeError), (-1, ValueError)):
        await refused(
            lambda n: asyncio.start_server(print, "127.0.0.1", free_port(), n),
            (backlog,),
            "backlog",
            exc,
        )


@needs("sockets")
async def test_datagrams_want_a_socket_for_them():
    import socket

    class Counts(asyncio.DatagramProtocol):
        errors = 0
        lost = None

        def error_received(self, exc):
            self.errors += 1

        def connection_lost(self, exc):
            self.lost = exc

    def endpoint(s):
        return asyncio.get_event_loop().create_datagram_endpoint(Counts, sock=s)

    address = socket.getaddrinfo("127.0.0.1", free_port())[0][-1]
    idle, listens, client = (socket.socket() for _ in range(3))
    listens.bind(address)
    listens.listen(1)
    client.connect(address)
    for s in (idle, listens, client):
        await refused(endpoint, (s,), "sock", ValueError)
        s.close()
    # One of a kind that it does not find out fails at each look.
    s = socket.socket(1)  # AF_UNIX, SOCK_STREAM
    _, protocol = await endpoint(s)
    await asyncio.sleep_ms(100)
    assert isinstance(protocol.lost, OSError), protocol.lost
    assert protocol.errors == 100
    # Errors that come of what is sent go on for as long.
    port = free_port()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(socket.getaddrinfo("127.0.0.1", port)[0][-1])
    transport, protocol = await endpoint(s)
    for _ in range(150):
        transport.sendto(b"nobody is there")
        await asyncio.sleep_ms(1)
    assert protocol.errors > 100 and not protocol.lost, (protocol.errors, protocol.lost)
    transport.close()
