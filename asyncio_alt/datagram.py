"""UDP: datagrams that call back from the poll: DatagramProtocol, DatagramTransport."""

import socket
import sys
from errno import EAGAIN, EBADF, ENOBUFS

from micropython import const

from . import core
from .address import pair, resolve
from .ioqueue import octets, opened
from .loop import Loop

_POLLIN = const(1)
_POLLOUT = const(4)
_POLLNVAL = const(32)

# Bytes of a datagram, at most; on a microcontroller it is not put together from packets.
_MOST = 65536 if sys.platform in ("linux", "darwin") else 1500
_HEAD = const(8)  # counted for each datagram in the buffer, as in CPython
_HIGH = const(4096)  # the high-water mark, at first
_ROOM = const(65536)  # with more than this above it in the buffer a datagram is refused
_REUSEPORT = {"linux": 15, "darwin": 512}  # MicroPython has no name for it

# The states of a DatagramTransport: the work that it will still do.
_OPEN = const(0)  # all
_CLOSING = const(1)  # send the buffered datagrams
_LOSING = const(2)  # call connection_lost
_LOST = const(3)  # nothing

_byte = bytearray(1)


class DatagramProtocol:
    """The callbacks for datagrams. The loop calls these methods from its poll, so they must not
    take long. If one raises, that is reported and the transport closed."""

    def connection_made(self, transport):
        """Called once, and first. transport: the DatagramTransport."""

    def connection_lost(self, exc):
        """Called once, and last. exc: the exception that ended it; None after close(), abort()
        or the end of run()."""

    def datagram_received(self, data, addr):
        """Called for each datagram, in a pass of the loop once. data: bytes, which may be empty.
        addr: (host, port) of the sender."""

    def error_received(self, exc):
        """Called when a datagram was not sent or not received; the transport goes on. exc:
        OSError, such as ECONNREFUSED or EMSGSIZE; MemoryError if one came for which the heap had
        no room, and was dropped."""

    def pause_writing(self):
        """Called when more than the high-water mark is buffered: send no more for now."""

    def resume_writing(self):
        """Called after that, when no more than the low-water mark is buffered."""


class DatagramTransport:
    """A UDP socket, as connection_made() gets it. All methods may be called from tasks and from
    the protocol, not from interrupts or other threads; none waits, but for a name server if the
    host of an address is no number."""

    def __init__(self, protocol, sock, extra, to=None, known=True):
        self._p = protocol
        self._s = sock
        self._e = extra
        self._to = to  # where to send without an address; None if the socket is connected
        self._known = known  # it is known whether the socket is connected
        self._state = _OPEN
        self._out = []  # (data, address) to be sent
        self._size = 0  # how many bytes that are, with _HEAD for each
        self._high = _HIGH
        self._low = _HIGH // 4
        self._full = False  # pause_writing() has been called, resume_writing() not since
        self._warned = False
        self._polled = 0  # the events that the socket is polled for
        # The last sender and the last receiver, as the socket has them and as a tuple.
        self._from = self._sender = self._host = self._receiver = None
        opened[self] = None
        try:
            self._poll()
        except BaseException:
            opened.pop(self)
            raise
        try:
            protocol.connection_made(self)
        except Exception as er:
            self._raised(er)

    def get_extra_info(self, name, default=None):
        """Returns the entry called name (str): the "socket", "sockname" (the local_addr; its port
        is 0 if that was, as a socket of MicroPython does not tell) or "peername" (the
        remote_addr); default if there is no such entry."""
        return self._e.get(name, default)

    def is_closing(self):
        """True (bool) if it is closed, or will be when all is sent."""
        return self._state != _OPEN

    # Receiving

    def _read(self, ev):
        try:
            data, addr = self._s.recvfrom(_MOST)
        except OSError as er:
            if er.errno == EBADF or ev & _POLLNVAL:
                self._fail(er)  # somebody has closed the socket
            elif er.errno != EAGAIN:
                self._p.error_received(er)
            return
        except MemoryError as er:
            self._s.readinto(_byte)  # drops it, which would come again at once, for ever
            return self._p.error_received(er)
        if addr != self._from:
            self._sender = pair(addr)
            self._from = addr
        self._p.datagram_received(data, self._sender)

    # Sending

    def sendto(self, data, addr=None):
        """Sends data (bytes-like; may be empty) as a datagram, at once or, after others, when the
        socket takes it. addr: (host, port); None for the remote_addr, and if there is one it must
        be that. error_received() is told why it cannot be sent. Dropped, with a warning the first
        time, if is_closing(). OSError (ENOBUFS) if more than 64 KB above the high-water mark are
        buffered already; TypeError for items of more than a byte on a MicroPython without
        uctypes."""
        if not isinstance(data, (bytes, bytearray)):
            data = octets(data, "sendto: data")
        peer = self._e.get("peername")
        to = self._to
        if peer:
            if addr not in (None, peer):
                raise ValueError("sendto: addr must be None or %r" % (peer,))
        elif addr:
            if addr != self._receiver:
                try:
                    self._host = resolve(addr, "sendto: addr")[1]
                except OSError as er:
                    return self._error(er)
                self._receiver = addr if isinstance(addr, tuple) else None
            to = self._host
        elif self._known:
            raise ValueError("sendto: addr is needed, as there is no remote_addr")
        if self._state:
            if not self._warned:
                self._warned = True
                print("sendto on a closing transport is dropped", file=sys.stderr)
            return
        if not self._out:
            er = self._send(data, to)
            if not er or er.errno != EAGAIN:
                return er and self._error(er)
        elif self._size > self._high + _ROOM:
            raise OSError(ENOBUFS, "sendto: too much is buffered")
        self._out.append((bytes(data), to))
        self._size += len(data) + _HEAD
        self._poll()
        self._mark()

    def _send(self, data, to):
        # Returns the exception that the socket raised, or None.
        try:
            if to:
                self._s.sendto(data, to)
            else:
                self._s.send(data)
        except OSError as er:
            return er

    def _error(self, er):
        try:
            self._p.error_received(er)
        except Exception as er:
            self._raised(er)

    def set_write_buffer_limits(self, high=None, low=None):
        """Sets the water marks in bytes (int). high: by default 4 times low, or 4096. low: by
        default a quarter of high. ValueError unless high >= low >= 0."""
        if high is None:
            high = _HIGH if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError("set_write_buffer_limits: not high >= low >= 0")
        self._high = high
        self._low = low
        self._mark()

    def get_write_buffer_size(self):
        """How many bytes (int) wait here to be sent, and 8 more for each datagram."""
        return self._size

    def _mark(self):
        if self._size > self._high and not self._full:
            self._full = True
            try:
                self._p.pause_writing()
            except Exception as er:
                self._raised(er)

    def _flush(self):
        out = self._out
        while out:
            er = self._send(out[0][0], out[0][1])
            if er and er.errno == EAGAIN:
                break
            self._size -= len(out.pop(0)[0]) + _HEAD
            if er:
                self._p.error_received(er)
        if self._full and self._size <= self._low and self._state < _LOSING:
            self._full = False
            self._p.resume_writing()
        if not out and self._state == _CLOSING:
            self._fail(None)
        self._poll()

    # The end

    def close(self):
        """Receives no more, sends the buffered datagrams, then calls connection_lost(None)."""
        if not self._state:
            if self._out:
                self._state = _CLOSING
                self._poll()
            else:
                self._lose(None)

    def abort(self):
        """Drops the buffered datagrams; connection_lost(None) is called next."""
        self._lose(None)

    def _raised(self, er):
        try:
            core.report("Exception in a protocol", er)
        finally:
            self._lose(er)

    def _lose(self, exc):
        # To be called by anybody: connection_lost() comes when the caller has returned.
        if self._state < _LOSING:
            self._forget(_LOSING)
            try:
                Loop.call_soon_threadsafe(self._fail, exc)
            except MemoryError:
                self._fail(exc)

    def _fail(self, exc):
        # To be called by the loop.
        if self._state < _LOST:
            self._forget(_LOST)
            opened.pop(self, None)
            try:
                self._p.connection_lost(exc)
            except Exception as er:
                core.report("Exception in a protocol", er)
            self._s.close()

    def _forget(self, state):
        self._state = state
        self._out.clear()
        self._size = 0
        self._poll()

    # The poll

    def _poll(self):
        # Poll for the events that are still wanted.
        ev = _POLLOUT if self._out else 0
        if not self._state:
            ev |= _POLLIN
        if ev != self._polled:
            core._io_queue.watch(self._s, ev, self)
            self._polled = ev

    def _ready(self, ev):
        # The poll had these events, but another callback may have changed the wanted ones.
        if ev & ~_POLLOUT and self._polled & _POLLIN:
            self._read(ev)
        if ev & ~_POLLIN and self._out:
            self._flush()


def join_multicast(sock, group, interface="0.0.0.0"):
    """Has a socket (of a DatagramTransport: get_extra_info("socket")) receive the datagrams sent
    to group, an IPv4 multicast address as "224.0.0.251". interface: the address (str) of the one
    to join it on. RuntimeError if this MicroPython cannot; OSError if the network cannot."""
    option = getattr(socket, "IP_ADD_MEMBERSHIP", None)
    if option is None:
        raise RuntimeError("join_multicast: this MicroPython has no IP_ADD_MEMBERSHIP")
    try:
        both = bytes([int(n) for n in (group + "." + interface).split(".")])
        if len(both) != 8 or both[0] >> 4 != 14:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError("join_multicast: group and interface must be as '224.0.0.251'")
    sock.setsockopt(0, option, both)  # 0: IPPROTO_IP


async def create_datagram_endpoint(
    protocol_factory,
    local_addr=None,
    remote_addr=None,
    *,
    family=0,
    reuse_port=None,
    allow_broadcast=None,
    sock=None,
):
    """Opens a UDP socket; returns (transport, protocol). protocol_factory: called without
    arguments, returns the protocol. local_addr: (host, port) to receive at. remote_addr: (host,
    port) to send to and receive from; with allow_broadcast it receives from all. sock: a socket
    to use in place of all these. OSError if an address cannot be used, ValueError for arguments
    that do not go together."""
    if not callable(protocol_factory):
        raise TypeError("create_datagram_endpoint: protocol_factory must be callable")
    if sock:
        if local_addr or remote_addr or family or reuse_port or allow_broadcast:
            raise ValueError("create_datagram_endpoint: other arguments beside sock")
        if not hasattr(sock, "recvfrom"):
            raise TypeError("create_datagram_endpoint: sock must be a socket")
        sock.setblocking(False)
        protocol = protocol_factory()
        return DatagramTransport(protocol, sock, {"socket": sock}, None, False), protocol
    local = remote = None
    if local_addr:
        family, local = resolve(local_addr, "create_datagram_endpoint: local_addr", family)
    if remote_addr:
        family, remote = resolve(remote_addr, "create_datagram_endpoint: remote_addr", family)
    if not family:
        raise ValueError("create_datagram_endpoint: local_addr, remote_addr or family is needed")
    if reuse_port and sys.platform not in _REUSEPORT:
        raise ValueError("create_datagram_endpoint: this port has no reuse_port")
    s = socket.socket(family, socket.SOCK_DGRAM)
    try:
        s.setblocking(False)
        extra = {"socket": s}
        if reuse_port:
            s.setsockopt(socket.SOL_SOCKET, _REUSEPORT[sys.platform], 1)
        if allow_broadcast:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if local:
            s.bind(local)
            extra["sockname"] = pair(local)
        if remote:
            if not allow_broadcast:
                s.connect(remote)
            extra["peername"] = pair(remote)
        protocol = protocol_factory()
        to = remote if allow_broadcast else None
        return DatagramTransport(protocol, s, extra, to), protocol
    except BaseException:
        s.close()
        raise
