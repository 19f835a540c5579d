"""Loop.sock_recv() and the like: plain sockets that tasks await."""

from errno import EAGAIN, EALREADY, EINPROGRESS

from micropython import const

from . import core
from .address import pair, resolve
from .ioqueue import octets

_MOST = const(0xFFFFFF)  # bytes that a call may ask for
_DONE = (EALREADY, EINPROGRESS, 106, 127, 56)  # connect() raises one of these when it is: EISCONN


def _method(sock, name):
    try:
        sock.setblocking(False)
        return getattr(sock, name)
    except AttributeError:
        raise TypeError("sock must be a socket, and not one of TLS")


def _read(sock, name, n):  # async
    method = _method(sock, name)
    while True:
        # Wait even where data is there: a loop of reads must not keep the others from running.
        yield core._io_queue.queue_read(sock)
        try:
            return method(n) if n is not None else method()
        except OSError as er:
            if er.errno != EAGAIN:
                raise


def _write(sock, name, *args):  # async
    method = _method(sock, name)
    while True:
        yield core._io_queue.queue_write(sock)
        try:
            return method(*args)
        except OSError as er:
            if er.errno != EAGAIN:
                raise


def _number(n, most, name):
    # A socket would take 2**40 as 0, and then seem to be at its end.
    if not isinstance(n, int):
        raise TypeError(name + " must be an int")
    if not 0 <= n <= most:
        raise ValueError("%s must be 0 to %d" % (name, most))
    return n


def _room(buf, name):
    buf = octets(buf, name)
    buf[:0] = b""  # TypeError before there are bytes, which would be lost
    return buf


def sock_recv(sock, nbytes):  # async
    return (yield from _read(sock, "recv", _number(nbytes, _MOST, "sock_recv: nbytes")))


def sock_recv_into(sock, buf):  # async
    buf = _room(buf, "sock_recv_into: buf")
    # Not sock.readinto(), which goes on to the next datagram.
    data = yield from _read(sock, "recv", len(buf))
    buf[: len(data)] = data
    return len(data)


def sock_recvfrom(sock, bufsize):  # async
    bufsize = _number(bufsize, _MOST, "sock_recvfrom: bufsize")
    data, addr = yield from _read(sock, "recvfrom", bufsize)
    return data, pair(addr)


def sock_recvfrom_into(sock, buf, nbytes=0):  # async
    buf = _room(buf, "sock_recvfrom_into: buf")
    n = _number(nbytes, len(buf), "sock_recvfrom_into: nbytes") or len(buf)
    data, addr = yield from _read(sock, "recvfrom", n)
    buf[: len(data)] = data
    return len(data), pair(addr)


def sock_sendall(sock, data):  # async
    data = memoryview(octets(data, "sock_sendall: data"))
    while data:
        n = yield from _write(sock, "send", data)
        data = data[n:]


def sock_sendto(sock, data, address):  # async
    data = octets(data, "sock_sendto: data")
    to = resolve(address, "sock_sendto: address")[1]
    return (yield from _write(sock, "sendto", data, to))


def sock_accept(sock):  # async
    conn, addr = yield from _read(sock, "accept", None)
    conn.setblocking(False)
    return conn, pair(addr)


def sock_connect(sock, address):  # async
    connect = _method(sock, "connect")
    to = resolve(address, "sock_connect: address")[1]
    try:
        return connect(to)
    except OSError as er:
        if er.errno != EINPROGRESS:
            raise
    yield core._io_queue.queue_write(sock)
    try:
        connect(to)  # tells how the first one ended
    except OSError as er:
        if er.errno not in _DONE:
            raise
