"""Byte streams that call back from the poll: Protocol, Transport, create_connection, ..."""

import sys
from errno import ECONNRESET, ENOBUFS

from micropython import const

from . import core
from .ioqueue import octets, opened
from .loop import Loop

_POLLIN = const(1)
_POLLOUT = const(4)
_READY = const(7)  # these and POLLPRI; the rest are errors and hang-ups

_CHUNK = 16384 if sys.platform in ("linux", "darwin") else 512  # bytes that a pass reads, at most
_SMALL = const(512)  # a piece to be sent that is shorter takes in the next while both wait
_HIGH = const(4096)  # the high-water mark, at first
_ROOM = const(65536)  # with more than this above it in the buffer a write is refused

_BYTES = (bytes, bytearray)

_FAILED = (OSError, ValueError)  # of a stream: ValueError if TLS does not trust the peer

# The states of a Transport: the work that it will still do.
_OPEN = const(0)  # all
_CLOSING = const(1)  # send the buffered bytes
_LOSING = const(2)  # call connection_lost
_LOST = const(3)  # nothing

_room = None  # the bytes of all Protocols are read into this first, once there is a Protocol


class _Base:
    def connection_made(self, transport):
        """Called once, and first. transport: the Transport."""

    def connection_lost(self, exc):
        """Called once, and last. exc: the exception that ended the connection; None after an
        end of the stream, close() or abort()."""

    def pause_writing(self):
        """Called when more than the high-water mark is buffered: write no more for now."""

    def resume_writing(self):
        """Called after that, when no more than the low-water mark is buffered."""

    def eof_received(self):
        """Called when the peer sends no more. Return true to go on writing; else it closes."""


class Protocol(_Base):
    """The callbacks for a connection. The loop calls these methods from its poll, so they must not
    take long. If one raises, that is reported and the transport closed."""

    def data_received(self, data):
        """Called with the received data (bytes, never empty): once in a pass of the loop, with 512
        bytes at most, 16384 on the unix port."""


class BufferedProtocol(_Base):
    """A Protocol with a buffer of its own to receive into; then the loop allocates nothing."""

    def get_buffer(self, sizehint):
        """Returns the buffer to receive into (bytearray or memoryview, not empty): the most that
        a pass of the loop reads. sizehint: -1, any size will do."""
        raise NotImplementedError

    def buffer_updated(self, nbytes):
        """Called when nbytes (int, 1 or more) have been received into the buffer."""


def _reader(read):
    # A readinto() for a stream that has only read().
    def readinto(buf, n=_CHUNK):
        buf = octets(buf, "get_buffer: buffer")
        data = read(min(n, len(buf)))
        if data:
            buf[: len(data)] = data
        return data and len(data)

    return readinto


class Transport:
    """A connection, as connection_made() gets it. All methods may be called from tasks and from
    the protocol, not from interrupts or other threads; none waits."""

    def __init__(self, protocol, stream, extra, raw=None):
        global _room
        self._p = protocol
        self._s = stream
        self._raw = raw  # the socket under TLS: a close() of that leaves it open after an error
        self._e = extra
        self._any = getattr(stream, "any", None)  # a stream without an end: how much is there
        self._take = getattr(stream, "readinto", None) or _reader(stream.read)
        self._into = hasattr(protocol, "get_buffer")
        self._taking = False  # in _any() or _take(): an exception comes from the stream
        if not (self._into or _room):
            _room = memoryview(bytearray(_CHUNK))
        self._state = _OPEN
        self.shaken = False  # a byte has been received or sent, or it is closed: for tls
        self._paused = False  # by pause_reading()
        self._eof = False
        self._out = []  # to be sent: bytes that were written, and bytearrays of our own
        self._off = 0  # how much of the first of them has been sent
        self._held = False  # the rest was refused: TLS has made a record of it, and must get that
        self._size = 0  # how much has not
        self._high = _HIGH
        self._low = _HIGH // 4
        self._full = False  # pause_writing() has been called, resume_writing() not since
        self._warned = False
        self._polled = 0  # the events that the stream is polled for
        self._poll()
        opened[self] = None
        try:
            protocol.connection_made(self)
        except Exception as er:
            self._raised(er)

    def get_extra_info(self, name, default=None):
        """Returns the entry called name (str): the "socket" and "peername" (address) of a TCP
        connection, the "stream" of connect_stream(); default if there is no such entry."""
        return self._e.get(name, default)

    def is_closing(self):
        """True (bool) if it is closed, or will be when all is sent."""
        return self._state != _OPEN

    # Receiving

    def pause_reading(self):
        """Stops the calls of data_received() and buffer_updated(), at once."""
        self._paused = True
        self._poll()

    def resume_reading(self):
        """Lets them go on."""
        self._paused = False
        self._poll()

    # _ready() and _read() have few locals and catch nothing, so that their frames fit on the C
    # stack; see IOQueue._waiter().

    def _read(self):
        # Returns whether there was anything.
        buf = _room
        if self._into:
            buf = self._p.get_buffer(-1)
            if not buf:
                raise RuntimeError("get_buffer() returned an empty buffer")
        self._taking = True
        if self._any:
            n = self._any()
            if n is True:  # pyb.USB_VCP, which never waits
                n = len(buf)
            n = self._take(buf, min(n, len(buf))) if n else None
        else:
            n = self._take(buf)
        self._taking = False
        if n:
            self.shaken = True
            if self._into:
                self._p.buffer_updated(n)
            else:
                # A copy of the right size: to read() as much as may come would allocate that.
                self._p.data_received(bytes(buf[:n]))
        elif n is None:
            return False
        else:
            self._end()
        return True

    def _end(self):
        self._eof = True
        if self._p.eof_received():
            self._poll()
        else:
            self.close()

    # Sending

    def write(self, data):
        """Sends as much of data (bytes-like) as the stream takes at once, and the rest when it
        takes more. Data is dropped, with a warning the first time, if is_closing(). OSError
        (ENOBUFS) if more than 64 KB above the high-water mark are buffered already;
        connection_lost() alone tells of a failed connection. TypeError for items of more than a
        byte on a MicroPython without uctypes."""
        if not isinstance(data, _BYTES):
            data = octets(data, "write: data")
        if self._state:
            if not self._warned:
                self._warned = True
                print("write to a closing transport is dropped", file=sys.stderr)
            return
        n = 0
        out = self._out
        if out:
            if self._size > self._high + _ROOM:
                raise OSError(ENOBUFS, "write: too much is buffered")
        elif data:
            try:
                n = self._s.write(data) or 0
                if n:
                    self.shaken = True
            except _FAILED as er:
                return self._lose(er)
        left = len(data) - n
        if not left:
            return
        if not out:
            self._held = True
        if left >= _SMALL and isinstance(data, bytes):
            # No copy. If this is the first piece, n of it are sent; else n is 0.
            if not out:
                self._off = n
            out.append(data)
        else:
            if n:
                data = memoryview(data)[n:]
            if len(out) > self._held and len(out[-1]) < _SMALL:  # then it is a bytearray
                out[-1].extend(data)
            else:
                out.append(bytearray(data))
        self._size += left
        self._poll()
        self._mark()

    def writelines(self, list_of_data):
        """As write() of all that the iterable gives, joined."""
        self.write(b"".join([bytes(octets(data, "write: data")) for data in list_of_data]))

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
        """How many bytes (int) wait here to be sent."""
        return self._size

    def _mark(self):
        if self._size > self._high and not self._full:
            self._full = True
            try:
                self._p.pause_writing()
            except Exception as er:
                self._raised(er)

    def _flush(self):
        # Returns whether anything was sent.
        out = self._out
        size = self._size
        try:
            while out:
                buf = out[0]
                off = self._off
                self._held = True
                n = self._s.write(memoryview(buf)[off:] if off else buf)
                if not n:
                    break
                self.shaken = True
                self._size -= n
                if off + n < len(buf):
                    self._off = off + n
                    break
                self._off = 0
                self._held = False
                out.pop(0)
        except _FAILED as er:
            self._fail(er)
            return True
        if self._full and self._size <= self._low:
            self._full = False
            self._p.resume_writing()
        if not self._out and self._state == _CLOSING:
            self._fail(None)
        self._poll()
        return self._size != size

    # The end

    def close(self):
        """Receives no more, sends the buffered bytes, then calls connection_lost(None)."""
        if not self._state:
            if self._out:
                self._state = _CLOSING
                self._poll()
            else:
                self._lose(None)

    def abort(self):
        """Drops the buffered bytes; connection_lost(None) is called next."""
        self._lose(None)

    def _raised(self, er):
        try:
            if not (self._taking and isinstance(er, _FAILED)):
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
            if hasattr(self._s, "close"):
                self._s.close()
            if self._raw:
                self._raw.close()

    def _forget(self, state):
        self._state = state
        self.shaken = True
        self._out.clear()
        self._off = self._size = 0
        self._poll()

    # The poll

    def _poll(self):
        # Poll for the events that are still wanted.
        ev = _POLLOUT if self._out else 0
        if not (self._state or self._paused or self._eof):
            ev |= _POLLIN
        if ev != self._polled:
            core._io_queue.watch(self._s, ev, self)
            self._polled = ev

    def _ready(self, ev):
        # The poll had these events, but another callback may have changed the wanted ones.
        moved = False
        if ev & ~_POLLOUT and self._polled & _POLLIN:
            moved = self._read()
        if ev & ~_POLLIN and self._out:
            moved = self._flush() or moved
        if ev & ~_READY and not moved and self._polled:
            self._fail(OSError(ECONNRESET))


def connect_stream(protocol, stream):
    """Connects protocol to a stream: a UART, or any other that can be polled, with a read() and
    write() that do not wait; returns the Transport. A stream without a close() is left open when
    that is closed. TypeError if it cannot be polled, RuntimeError if a task waits for it."""
    return Transport(protocol, stream, {"stream": stream})


async def create_connection(
    protocol_factory, host, port, *, ssl=None, server_hostname=None, ssl_handshake_timeout=None
):
    """Opens a TCP connection; returns (transport, protocol). protocol_factory: called without
    arguments, returns the protocol. ssl: True, or an SSLContext, for TLS. ssl_handshake_timeout:
    the seconds after which it is closed if no byte was received or sent; without a limit by
    default. OSError if the connection cannot be made."""
    from .stream import _close, _connect

    if ssl_handshake_timeout is not None:
        from .tls import limit, timeout_ms

        ssl_handshake_timeout = timeout_ms(ssl, ssl_handshake_timeout)
    s, raw, addr = await _connect(host, port, ssl, server_hostname, True)
    try:
        protocol = protocol_factory()
        transport = Transport(protocol, s, {"socket": s, "peername": addr}, raw)
        if ssl_handshake_timeout:
            limit(transport, ssl_handshake_timeout)
        return transport, protocol
    except BaseException:
        _close(s, raw)
        raise


async def create_server(
    protocol_factory, host, port, *, backlog=5, ssl=None, ssl_handshake_timeout=None
):
    """Starts a TCP server; returns it: it has close(), and is a context for `async with`.
    protocol_factory: called without arguments for each connection, returns its protocol. ssl: an
    SSLContext for TLS; then it is called once the client has begun with that, but before hands are
    shaken (no MicroPython tells when they are: cipher() crashes until then), and of more than
    `backlog` clients that have not begun the oldest is closed. ssl_handshake_timeout: the seconds
    (60 by default) in which a byte must be received or sent; else it ends with OSError
    (ETIMEDOUT). OSError if the address cannot be bound."""
    from .server import listen
    from .stream import _nodelay, _resolve

    def connected(s, raw, addr):
        _nodelay(raw or s)
        return Transport(protocol_factory(), s, {"socket": s, "peername": addr}, raw)

    return listen(_resolve(host, port)[1], backlog, ssl, ssl_handshake_timeout, connected)
