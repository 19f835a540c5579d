# with: tasks
# Loop.create_datagram_endpoint, on 127.0.0.1 and between unix sockets; Loop.sock_recv and more.

import errno
import os
import socket
from array import array

import asyncio_alt as asyncio
from asyncio_alt import core

HOST = "127.0.0.1"
PORT = free_port()
loop = asyncio.get_event_loop()


class P(asyncio.DatagramProtocol):
    def __init__(self):
        self.got = []
        self.errors = []
        self.log = []

    def connection_made(self, transport):
        self.log.append("made")

    def connection_lost(self, exc):
        self.log.append(exc)

    def datagram_received(self, data, addr):
        self.got.append((data, addr))

    def error_received(self, exc):
        self.errors.append(exc)

    def pause_writing(self):
        self.log.append("pause")

    def resume_writing(self):
        self.log.append("resume")


def serve(**kwargs):
    return loop.create_datagram_endpoint(P, local_addr=(HOST, PORT), **kwargs)


def connect():
    return loop.create_datagram_endpoint(P, remote_addr=(HOST, PORT))


def reported():
    reports = []
    loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    return reports


def paired(n):
    # Two unix sockets; the second is connected to the first.
    path = "/tmp/asyncio_alt_%d_%d" % (PORT, n)
    addr = b"\1\0" + path.encode() + b"\0"
    r = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    r.bind(addr)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect(addr)
    os.unlink(path)
    return r, s


@needs("sockets")
async def test_datagrams_go_both_ways_with_their_addresses():
    server, p = await serve()
    client, q = await connect()
    assert server.get_extra_info("sockname") == client.get_extra_info("peername") == (HOST, PORT)
    assert server.get_extra_info("peername", 5) == 5
    sent = [b"a", b"", bytearray(b"bc"), memoryview(b"def")[1:], array("h", [1, 2]), bytes(9000)]
    for data in sent:
        client.sendto(data)
    client.sendto(b"end", (HOST, PORT))
    await until(lambda: len(p.got) == len(sent) + 1)
    assert [d for d, _ in p.got] == [bytes(d) for d in sent] + [b"end"], p.got
    addr = p.got[0][1]
    assert addr[0] == HOST and all(a is addr for _, a in p.got)
    server.sendto(b"back", addr)
    await until(lambda: q.got)
    assert q.got == [(b"back", (HOST, PORT))]
    raises(ValueError, client.sendto, b"x", (HOST, PORT + 1), match="addr must be")
    raises(ValueError, server.sendto, b"x", match="addr is needed")
    raises(TypeError, server.sendto, "str", addr, match="data")
    raises(TypeError, server.sendto, b"x", "host", match="addr")
    raises(ValueError, server.sendto, b"x", (HOST, 65536), match="port")
    for t in (server, client):
        t.close()
        t.close()
        assert t.is_closing()
        t.sendto(b"dropped", (HOST, PORT))
    await passes()
    assert p.log == q.log == ["made", None] and not core._io_queue.map
    server, p = await serve()  # the port is free again
    server.abort()
    await passes()


@needs("sockets")
async def test_errors_are_told_and_the_transport_goes_on():
    client, q = await connect()
    client.sendto(b"to a port that nobody has")
    await until(lambda: q.errors)
    assert q.errors.pop().errno == errno.ECONNREFUSED
    server, p = await serve()
    client.sendto(bytes(70000))
    assert q.errors.pop().errno == 90  # EMSGSIZE
    server.sendto(b"x", ("nobody.invalid", 5))
    assert isinstance(p.errors.pop(), OSError)
    client.sendto(b"good")
    await until(lambda: p.got)
    client.get_extra_info("socket").close()  # by somebody else: that ends it
    await until(lambda: len(q.log) > 1)
    assert q.log[1].errno == errno.EBADF
    server.abort()


@needs("sockets")
async def test_callback_that_raises_stops_its_transport_alone():
    reports = reported()
    for name in ("connection_made", "datagram_received", "error_received", "connection_lost"):
        server, p = await serve()
        others = await connect()

        def bad(*args):
            raise KeyError(name)

        q = P()
        setattr(q, name, bad)
        client, _ = await loop.create_datagram_endpoint(lambda: q, remote_addr=(HOST, PORT))
        client.sendto(b"1")
        client.sendto(bytes(70000))
        if name == "datagram_received":
            await until(lambda: p.got)
            server.sendto(b"2", p.got[0][1])
        elif name == "connection_lost":
            client.close()
        await until(lambda: reports)
        assert [er.args for er in reports] == [(name,)], reports
        reports.clear()
        await passes()
        assert client.is_closing() and (
            name == "connection_lost" or isinstance(q.log[-1], KeyError)
        )
        n = len(p.got)
        others[0].sendto(b"goes on")
        await until(lambda: len(p.got) > n)
        others[0].abort()
        server.abort()
        await passes()


@needs("sockets")
async def test_datagrams_that_the_socket_refuses_wait_within_bounds():
    r, s = paired(1)
    t, p = await loop.create_datagram_endpoint(P, sock=s)
    t.set_write_buffer_limits(100, 20)
    raises(ValueError, t.set_write_buffer_limits, 1, 2)
    n = 0
    while not t.get_write_buffer_size():
        t.sendto(b"%03d" % n)
        n += 1
    assert t.get_write_buffer_size() == 11 and p.log == ["made"]
    data = bytearray(b"%03d" % n)
    t.sendto(data)
    data[0] = 0  # the transport has its own copy
    n += 1
    for _ in range(20):
        t.sendto(b"%03d" % n)
        n += 1
    assert p.log == ["made", "pause"]
    t.close()  # sends the buffered datagrams
    await passes()
    got = []
    r.setblocking(False)
    while len(got) < n:
        try:
            got.append(r.recvfrom(9)[0])
        except OSError:
            await asyncio.sleep_ms(1)
    assert got == [b"%03d" % i for i in range(n)], got
    await until(lambda: len(p.log) == 4)
    assert p.log == ["made", "pause", "resume", None] and not t.get_write_buffer_size()
    r.close()


@needs("sockets")
async def test_a_full_buffer_refuses_and_abort_drops_it():
    r, s = paired(2)
    t, p = await loop.create_datagram_endpoint(P, sock=s)

    def fill():
        while True:
            t.sendto(bytes(4000))

    assert raises(OSError, fill).errno == errno.ENOBUFS
    assert 65536 < t.get_write_buffer_size() < 80000
    t.abort()
    assert not t.get_write_buffer_size() and p.log == ["made", "pause"]
    await passes()
    assert p.log == ["made", "pause", None] and not core._io_queue.map
    r.close()


@needs("sockets")
async def test_a_sender_without_a_name_has_no_address():
    r, s = paired(3)
    t, p = await loop.create_datagram_endpoint(P, sock=r)
    s.send(b"x")
    await until(lambda: p.got)
    assert p.got == [(b"x", None)]
    t.abort()
    s.close()


@needs("sockets")
async def test_arguments_are_checked_and_a_failure_leaves_no_socket_open():
    s = socket.socket()
    n = s.fileno()
    s.close()
    create = loop.create_datagram_endpoint
    await araises(ValueError, create(P), match="is needed")
    await araises(ValueError, create(P, (HOST, PORT), sock=s), match="sock")
    await araises(TypeError, create(P, sock=5), match="sock")
    await araises(TypeError, create(None, (HOST, PORT)), match="protocol_factory")
    for addr in ("host", (HOST,), (HOST, "80"), (1, 80)):
        await araises(TypeError, create(P, addr), match="local_addr")
    await araises(ValueError, create(P, None, (HOST, -1)), match="remote_addr")
    await araises(OSError, create(P, (HOST, PORT), family=socket.AF_INET6))
    await araises(ZeroDivisionError, create(lambda: 1 // 0, (HOST, PORT)))
    t, _ = await create(P, (HOST, PORT))
    await araises(OSError, create(P, (HOST, PORT)))
    t.abort()
    await passes()
    for _ in "12":
        a = []
        for _ in "12":
            a.append(await create(P, (HOST, PORT), reuse_port=True, allow_broadcast=True))
        for t, _ in a:
            t.abort()
        await passes()
    s = socket.socket()
    assert s.fileno() == n
    s.close()


@needs("sockets")
async def test_multicast_and_broadcast_arrive():
    server, p = await loop.create_datagram_endpoint(P, ("0.0.0.0", PORT), reuse_port=True)
    sock = server.get_extra_info("socket")
    for group in ("10.0.0.1", "224.0.0", "224.0.0.256", "name", 5):
        raises(ValueError, asyncio.join_multicast, sock, group, match="group")
    asyncio.join_multicast(sock, "239.1.2.3", HOST)
    client, q = await loop.create_datagram_endpoint(
        P, remote_addr=("127.255.255.255", PORT), allow_broadcast=True
    )
    client.get_extra_info("socket").setsockopt(0, 32, bytes([127, 0, 0, 1]))  # IP_MULTICAST_IF
    client.sendto(b"broadcast")
    await until(lambda: p.got)
    server.sendto(b"answer", p.got[0][1])  # from another address than the client sends to
    await until(lambda: q.got)
    other, _ = await loop.create_datagram_endpoint(P, family=socket.AF_INET)
    other.get_extra_info("socket").setsockopt(0, 32, bytes([127, 0, 0, 1]))
    other.sendto(b"multicast", ("239.1.2.3", PORT))
    await until(lambda: len(p.got) == 2)
    assert [d for d, _ in p.got] == [b"broadcast", b"multicast"] and not q.errors
    for t in (server, client, other):
        t.abort()


@needs("sockets")
def test_run_ends_transports():
    made = []

    async def main():
        made.extend(await serve())

    for _ in "12":
        made.clear()
        asyncio.run(main())
        assert made[1].log == ["made", None] and made[0].is_closing()


@needs("sockets")
async def test_sockets_are_awaited():
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, 8, 4096)  # SO_RCVBUF
    server.bind(socket.getaddrinfo(HOST, PORT)[0][-1])
    server.listen(1)
    accepting = asyncio.create_task(loop.sock_accept(server))
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, 7, 4096)  # SO_SNDBUF
    await loop.sock_connect(s, (HOST, PORT))
    conn, addr = await accepting
    assert addr[0] == HOST
    data = bytes(range(250)) * 800
    sending = asyncio.create_task(loop.sock_sendall(s, data))  # more than the kernel keeps
    await passes(5)
    await araises(RuntimeError, loop.sock_sendall(s, b"x"), match="another task")
    got = b""
    buf = bytearray(50000)
    while len(got) < len(data):
        n = await loop.sock_recv_into(conn, buf)
        got += buf[:n]
        got += await loop.sock_recv(conn, 50000) if len(got) < len(data) else b""
    assert got == data
    await sending
    receiving = asyncio.create_task(loop.sock_recv(s, 5))
    await passes(3)
    receiving.cancel()
    await araises(asyncio.CancelledError, receiving)
    await loop.sock_sendall(conn, array("h", [1, 2]))
    assert await loop.sock_recv(s, 5) == bytes(
        array("h", [1, 2])
    )  # the cancelled one lost nothing
    conn.close()
    assert await loop.sock_recv(s, 5) == b""
    s.close()
    server.close()
    s = socket.socket()
    er = await araises(OSError, loop.sock_connect(s, (HOST, PORT)))
    assert er.errno == errno.ECONNREFUSED
    s.close()
    await araises(OSError, loop.sock_recv(s, 5))  # it is closed
    await araises(TypeError, loop.sock_recv(5, 5), match="sock")
    await araises(TypeError, loop.sock_sendto(s, b"", "host"), match="address")
    assert not core._io_queue.map


@needs("sockets")
async def test_a_size_or_buffer_that_does_not_fit_costs_no_byte():
    a, b = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "12"]
    to = socket.getaddrinfo(HOST, PORT)[0][-1]
    a.bind(to)
    b.sendto(b"data", to)
    for n, error in ((-1, ValueError), (1 << 40, ValueError), (1.5, TypeError), (None, TypeError)):
        await araises(error, loop.sock_recv(a, n), match="nbytes")
        await araises(error, loop.sock_recvfrom(a, n), match="bufsize")
        await araises(error, loop.sock_recvfrom_into(a, bytearray(4), n), match="nbytes")
    await araises(TypeError, loop.sock_recv_into(a, bytes(4)))
    await araises(TypeError, loop.sock_recvfrom_into(a, memoryview(b"    ")))
    assert await loop.sock_recv(a, 9) == b"data"
    a.close()
    b.close()


@needs("sockets")
async def test_datagrams_of_sockets_are_awaited():
    a, b = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab"]
    a.bind(socket.getaddrinfo(HOST, PORT)[0][-1])
    for data in (b"12345", b"", b"678"):
        assert await loop.sock_sendto(b, data, (HOST, PORT)) == len(data)
    data, addr = await loop.sock_recvfrom(a, 3)
    assert data == b"123" and addr[0] == HOST
    buf = array("h", [0, 0])
    assert await loop.sock_recvfrom_into(a, buf) == (0, addr)
    await araises(ValueError, loop.sock_recvfrom_into(a, buf, 5), match="nbytes")
    assert await loop.sock_recvfrom_into(a, buf, 2) == (2, addr)
    assert bytes(buf) == b"67\0\0"
    await loop.sock_sendto(a, b"back", addr)
    buf = bytearray(9)
    await loop.sock_sendto(a, b"two", addr)
    assert await loop.sock_recv_into(b, buf) == 4  # one datagram alone
    await loop.sock_connect(b, (HOST, PORT))
    for s in (a, b):
        s.close()
