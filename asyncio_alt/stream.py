"""Byte streams that tasks await: StreamReader, StreamWriter, open_connection."""

from errno import EALREADY, EINPROGRESS

from . import core

_BYTES = (bytes, bytearray)
_MORE = "readuntil writelines is_closing can_write_eof write_eof start_tls __aiter__ __anext__"
_ON_ITS_WAY = (EALREADY, EINPROGRESS, 106, 127, 56)  # the last three: EISCONN of the ports


class Stream:
    """Reads and writes the stream s (a socket, a UART, any object with ioctl); StreamReader and
    StreamWriter are this class. e: a dict for get_extra_info(). priority: True to have its reads
    woken with priority; then reads of a stream that has any(), as a UART has, take the available
    bytes, where the UART itself would wait for more. A read that is cancelled loses nothing: the
    next one gets the bytes. A buffer may have items of more than a byte; all sizes are in
    bytes."""

    raw = None  # the socket under TLS: a close() of that may leave it open
    closed = False  # by wait_closed()
    served = False  # it comes from a server
    shaken = False  # a byte has been read or sent: with TLS, the handshake is over

    def __init__(self, s, e={}, priority=False):
        self.s = s
        self.e = e
        self.priority = priority
        self.in_buf = b""  # bytes that unfinished reads have taken from the stream
        self.out_buf = b""  # out_buf[out_off:] is written and not sent yet
        self.out_off = 0
        self.out_ref = False  # out_buf is the caller's
        self.out_ask = 0  # so many bytes of that were refused, and are to be offered again
        self.lock = None  # held by the task that sends it

    def __getattr__(self, name):
        # These are loaded on first use. The interpreter asks for others, such as __len__.
        if name not in _MORE.split(" "):
            raise AttributeError(name)
        from .streams import bound

        return bound(self, name)

    def get_extra_info(self, v):
        """e[v], such as the "peername" of a connection. KeyError if it is not there."""
        return self.e[v]

    def close(self):
        """Does nothing, as in stock: wait_closed() closes it."""

    async def wait_closed(self):
        """Closes the stream. A task that waits to read or to write it gets OSError (EBADF)."""
        self._fail(None)

    def _fail(self, exc):
        # Closes it, and raises exc in the tasks that wait for it; see _close().
        if not self.closed:
            self.closed = True
            _close(self.s, self.raw, exc)

    def _wanted(self, n):
        # With priority: how many bytes to ask the stream for, which may be a UART that waits for
        # all of them.
        if hasattr(self.s, "any"):
            there = self.s.any() or 1
            if there is not True and not 0 <= n < there:  # True: pyb.USB_VCP, which never waits
                return there
        return n

    def _keep(self, r):
        if not self.in_buf:
            self.in_buf = bytearray()
        self.in_buf.extend(r)

    def _take(self, n=-1):
        if 0 <= n < len(self.in_buf):
            r = bytes(memoryview(self.in_buf)[:n])
            self.in_buf = self.in_buf[n:]
        else:
            r = bytes(self.in_buf)
            self.in_buf = b""
        return r

    def read(self, n=-1):  # async
        """Reads the available bytes, n at most; waits for at least one; b"" at the end. With -1:
        reads up to the end of the stream, or all available bytes of a stream without an end (with
        an any() method, as a UART has)."""
        endless = n < 0 and hasattr(self.s, "any")
        if self.in_buf and (n > 0 or endless and not self.s.any()):
            return self._take(n)
        while True:
            yield core._io_queue.queue_read(self.s, self.priority)
            r = self.s.read(self._wanted(n) if self.priority else n)
            if r is not None:
                self.shaken = True
                if n >= 0:
                    return r
                self._keep(r)
                if not r or endless:
                    return self._take()

    def readinto(self, buf):  # async
        """Reads the available bytes into buf, waits for at least one; returns the number of bytes,
        0 at the end."""
        if self.in_buf or self.priority:
            buf = core._io_queue.octets(buf, "readinto: buf")
        if self.in_buf and buf:
            r = self._take(len(buf))
            buf[: len(r)] = r
            return len(r)
        while True:
            yield core._io_queue.queue_read(self.s, self.priority)
            n = self._wanted(len(buf)) if self.priority else len(buf)
            n = self.s.readinto(memoryview(buf)[:n] if n < len(buf) else buf)
            if n is not None:
                self.shaken = True
                return n

    def readexactly(self, n):  # async
        """Reads n bytes. EOFError if the stream ends before; the bytes that came are left for the
        next read."""
        if n < 0:
            raise ValueError("readexactly: n must not be negative")
        while True:
            left = n - len(self.in_buf)
            if left <= 0:
                return self._take(n)
            yield core._io_queue.queue_read(self.s, self.priority)
            r = self.s.read(self._wanted(left) if self.priority else left)
            if r is not None:
                self.shaken = True
                if not r:
                    raise EOFError
                if len(r) == n:
                    return b"" + r  # bytes, also of a text stream
                self._keep(r)

    def readline(self):  # async
        """Reads a line with its b"\\n", or the rest before the end of the stream."""
        r = True
        seen = 0
        while True:
            n = self.in_buf.find(b"\n", seen) + 1
            if n or not r:
                return self._take(n or -1)
            seen = len(self.in_buf)
            while True:
                yield core._io_queue.queue_read(self.s, self.priority)
                n = self._wanted(-1) if self.priority else -1
                r = self.s.readline() if n < 0 else self.s.read(n)  # may be a part
                if r is not None:
                    break
            self.shaken = True
            if r and n < 0 and not seen and r[-1] == 10:
                return r
            self._keep(r)

    def write(self, buf, copy=True):
        """Sends as much of buf (bytes-like or str) as the stream takes at once; drain() sends the
        rest. copy: False to keep the rest by reference and allocate nothing. Then buf must stay as
        it is until drain() is done, and a write before that raises OSError (EBUSY). TypeError for
        items of more than a byte on a MicroPython without uctypes."""
        data = buf
        if not isinstance(buf, _BYTES):
            if isinstance(buf, str):
                data = buf = buf.encode()
            else:
                data = core._io_queue.octets(buf, "write: buf")
        if self.out_buf:
            if self.out_ref or not copy:
                raise OSError(16, "write before drain() is done")
            self.out_buf = self.out_buf[self.out_off :] + data
            self.out_off = 0
            return
        n = self.s.write(data) or 0
        if n:
            self.shaken = True
        if n < len(data):
            self.out_ask = len(data) - n
            self.out_ref = not copy
            if copy and not isinstance(buf, bytes):
                buf = bytes(memoryview(data)[n:])
                n = 0
            self.out_buf = buf
            self.out_off = n

    def drain(self):  # async
        """Waits until all that was written is sent."""
        if not self.out_buf:
            # Yield all the same: a loop of write and drain must not keep the others from running.
            return (yield from core.sleep_ms(0))
        if not self.lock:
            from .lock import Lock

            self.lock = Lock()
        yield from self.lock.acquire()
        try:
            while self.out_buf:
                yield core._io_queue.queue_write(self.s)
                buf = self.out_buf
                if not isinstance(buf, _BYTES):
                    buf = core._io_queue.octets(buf, "")
                left = len(buf) - self.out_off
                # TLS has made a record of the bytes it refused: it must get the same bytes again.
                ask = self.out_ask or left
                if self.out_off or ask < len(buf):
                    buf = memoryview(buf)[self.out_off : self.out_off + ask]
                n = self.s.write(buf) or 0
                if n:
                    self.shaken = True
                self.out_off += n
                self.out_ask = ask - n
                if n >= left:
                    self.out_buf = b""
                    self.out_off = 0
        finally:
            self.lock.release()

    async def awrite(self, buf, off=0, sz=-1):
        """Writes buf[off : off + sz] and drains; sz: -1 for all (for programs written for
        uasyncio, as are awritestr and aclose)."""
        if off or sz >= 0:
            buf = (
                buf.encode() if isinstance(buf, str) else core._io_queue.octets(buf, "awrite: buf")
            )
            buf = memoryview(buf)[off : off + sz if sz >= 0 else len(buf)]
        self.write(buf)
        await self.drain()

    awritestr = awrite
    aclose = wait_closed


stream_awrite = Stream.awrite
StreamReader = Stream
StreamWriter = Stream


def _close(s, raw, exc=None):
    # raw: None, or the socket under TLS: a close() of that leaves it open after an error. exc:
    # raised in the tasks that wait for it; None for OSError (EBADF).
    try:
        s.close()
    finally:
        if raw:
            raw.close()
        core._io_queue.fail(s, exc)


def _resolve(host, port):
    import socket

    # A system would take the lowest 16 bits of another number.
    if isinstance(port, int) and not 0 <= port <= 65535:
        raise ValueError("port must be 0 to 65535")
    # With a name, this may block the loop while a name server is asked.
    return socket, socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)[0]


def _numeric(host):  # async
    # A host without a name needs no name server, nor the module that asks one.
    if isinstance(host, str) and ":" not in host and not host.replace(".", "").isdigit():
        try:
            from .names import numeric
        except ImportError:
            return host  # it is not installed
        host = (yield from numeric(host))[0]
    return host


def _nodelay(s):
    # A small write does not wait until the peer has acknowledged the one before.
    import socket

    try:
        s.setsockopt(6, getattr(socket, "TCP_NODELAY", 1), 1)  # 6: IPPROTO_TCP
    except OSError:
        pass  # this port has none


def _dial(s, addr):
    # Begins to connect, or tells how that has ended.
    try:
        s.connect(addr)
    except OSError as er:
        if er.errno not in _ON_ITS_WAY:
            raise


def _secure(s, ssl, name):
    # The client's side of TLS over the socket s. The peer is to have this name.
    if ssl is True:
        import ssl

        ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    s = ssl.wrap_socket(s, server_hostname=name, do_handshake_on_connect=False)
    s.setblocking(False)
    return s


def _connect(host, port, ssl, server_hostname, nodelay=False):  # async
    # Returns the connected socket, None or the one under TLS, and the address.
    socket, ai = _resolve((yield from _numeric(host)), port)
    addr = ai[-1]
    top = s = socket.socket(*ai[:3])
    try:
        s.setblocking(False)
        _dial(s, addr)
        yield core._io_queue.queue_write(s)
        _dial(s, addr)
        if nodelay:
            _nodelay(s)
        if ssl:
            top = _secure(s, ssl, server_hostname or host)
        return top, s if ssl else None, addr
    except BaseException:
        _close(s, None)
        raise


def open_connection(
    host, port, ssl=None, server_hostname=None, *, ssl_handshake_timeout=None
):  # async
    """Opens a TCP connection; returns (reader, writer), which are one Stream. ssl: True, or an
    SSLContext, for TLS. ssl_handshake_timeout: the seconds after which it is closed if no byte was
    read or sent; without a limit by default. Raises OSError if the connection cannot be made."""
    if ssl_handshake_timeout is not None:
        from .tls import limit, timeout_ms

        ssl_handshake_timeout = timeout_ms(ssl, ssl_handshake_timeout)
    s, raw, _ = yield from _connect(host, port, ssl, server_hostname)
    try:
        stream = Stream(s)
        stream.raw = raw
        if ssl_handshake_timeout:
            limit(stream, ssl_handshake_timeout)
        return stream, stream
    except BaseException:
        _close(s, raw)
        raise


def __getattr__(name):
    # Stock has these two here.
    if name in ("Server", "start_server"):
        from .server import Server, start_server

        return Server if name == "Server" else start_server
    raise AttributeError(name)
