"""Rarely used methods of streams and servers, loaded on first use; a limit of connections."""

from . import core

_LIMIT = 65536  # of readuntil(), as CPython's


class IncompleteReadError(EOFError):
    """The stream has ended before readuntil() found its separator. partial (bytes): what came."""

    def __init__(self, partial, expected):
        super().__init__("%d bytes read" % len(partial))
        self.partial = partial
        self.expected = expected


class LimitOverrunError(Exception):
    """readuntil() found no separator in 64 KB. consumed (int): how many bytes it looked at, which
    are left for the next read."""

    def __init__(self, message, consumed):
        super().__init__(message)
        self.consumed = consumed


def readuntil(self, separator=b"\n"):  # async
    separator = bytes(core._io_queue.octets(separator, "readuntil: separator"))
    if not separator:
        raise ValueError("readuntil: separator must not be empty")
    seen = 0
    while True:
        end = self.in_buf.find(separator, seen)
        if end > _LIMIT or end < 0 and len(self.in_buf) > _LIMIT + len(separator):
            raise LimitOverrunError("readuntil: no separator in 64 KB", max(end, _LIMIT))
        if end >= 0:
            return self._take(end + len(separator))
        seen = max(0, len(self.in_buf) - len(separator) + 1)
        yield core._io_queue.queue_read(self.s, self.priority)
        s = self.s
        r = s.read(s.any() or 1 if hasattr(s, "any") else 256)
        if r is not None:
            self.shaken = True
            if not r:
                raise IncompleteReadError(self._take(), None)
            self._keep(r)


def writelines(self, lines):
    for line in lines:
        self.write(line)


def is_closing(self):
    return self.closed


def can_write_eof(self):
    return hasattr(self.s, "shutdown")


def write_eof(self):
    if not can_write_eof(self):
        raise NotImplementedError("write_eof: the sockets of this port have no shutdown()")
    if self.out_buf:
        raise OSError(16, "write_eof before drain() is done")
    self.s.shutdown(1)


async def start_tls(self, sslcontext, *, server_hostname=None, ssl_handshake_timeout=None):
    # The handshake is done by the next reads and writes.
    if not hasattr(sslcontext, "wrap_socket"):
        raise TypeError("start_tls: sslcontext must be an SSLContext")
    if self.raw:
        raise ValueError("start_tls: the connection has TLS already")
    ms = None
    if self.served or ssl_handshake_timeout is not None:
        from .tls import limit, timeout_ms

        ms = timeout_ms(True, 60 if ssl_handshake_timeout is None else ssl_handshake_timeout)
    await self.drain()
    if self.closed:
        raise OSError(9)  # EBADF
    if self.in_buf:
        # Whoever changed the connection on its way may have put them there.
        raise OSError(71, "start_tls: bytes came before TLS")  # EPROTO
    name = {"server_side": True} if self.served else {"server_hostname": server_hostname}
    s = sslcontext.wrap_socket(self.s, do_handshake_on_connect=False, **name)
    s.setblocking(False)
    self.raw = self.s
    self.s = s
    self.shaken = False
    if ms:
        limit(self, ms)


def __aiter__(self):
    return self


async def __anext__(self):
    line = await self.readline()
    if not line:
        raise StopAsyncIteration
    return line


# Of Server


async def serve_forever(self):
    try:
        await self.wait_closed()
    finally:
        self.close()


async def start_serving(self):
    pass  # it does since it was made


def is_serving(self):
    return not self.closed


def get_loop(self):
    from .loop import Loop

    return Loop


def close_clients(self):
    _limit(self).close()


abort_clients = close_clients


def _limit(server):
    if not server.limit:
        raise ValueError("close_clients: start_server() was called without max_connections")
    return server.limit


def bound(obj, name):
    """Returns a method of this module as that of an object. AttributeError if there is no such."""
    method = globals()[name]
    return lambda *args, **kw: method(obj, *args, **kw)


class _Counted:
    # A coroutine that tells the limit of its end, also if it is cancelled before it begins.

    def __init__(self, limit, stream, coro):
        self._limit = limit
        self._stream = stream
        self._coro = coro

    def send(self, value):
        return self._go(self._coro.send, value)

    def throw(self, exc):
        return self._go(self._coro.throw, exc)

    def _go(self, step, arg):
        try:
            return step(arg)
        except BaseException as er:
            if not isinstance(er, StopIteration):
                self._stream._fail(None)
            self._limit.ended(self._stream)
            raise


class Limit:
    """Has a server accept no more than `most` (int) connections at a time."""

    def __init__(self, most):
        if not isinstance(most, int):
            raise TypeError("max_connections must be an int")
        if most < 1:
            raise ValueError("max_connections must be 1 or more")
        self._most = most
        self._clients = {}  # Stream: None
        self.server = None

    def full(self):
        """True (bool) if the server is to stop; it is started again when a connection ends."""
        return len(self._clients) >= self._most

    def start(self, coro, stream):
        """Runs the coroutine of a connection as a task."""
        self._clients[stream] = None
        try:
            core.create_task(_Counted(self, stream, coro))
        except BaseException:
            self.ended(stream)
            raise

    def ended(self, stream):
        """Called when the coroutine of a connection has ended."""
        self._clients.pop(stream, None)
        server = self.server
        if server and not server.closed:
            try:
                core._io_queue.watch(server._s, 1, server)
            except MemoryError as er:
                server._pause(er)

    def close(self):
        """Closes the connections."""
        for stream in list(self._clients):
            stream._fail(None)
