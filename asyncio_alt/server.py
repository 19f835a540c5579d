"""TCP servers: Server, as start_server() and create_server() return it."""

from . import core
from .stream import Stream, _close, _resolve

_SCARCE = (12, 23, 24, 55, 105)  # ENOMEM, ENFILE, EMFILE, ENOBUFS: no room for a connection


def listen(ai, backlog, ssl, seconds, connected):
    """Returns the Server of the address ai (family, type, protocol and address, as getaddrinfo()
    has them). connected: called with each socket, None or the one under TLS, and the peer's
    address; returns the connection."""
    import socket

    if ssl or seconds is not None:
        from .tls import Doorman, timeout_ms

        seconds = timeout_ms(ssl, 60 if seconds is None else seconds)
        connected = Doorman(ssl, backlog, seconds, connected)
    s = socket.socket(*ai[:3])
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setblocking(False)
        s.bind(ai[-1])
        s.listen(backlog)
        return Server(s, connected)
    except BaseException:
        s.close()
        raise


_MORE = "serve_forever start_serving is_serving get_loop close_clients abort_clients"


class Server:
    """A TCP server; also an `async with` context that closes it."""

    limit = None  # streams.Limit

    def __init__(self, s, connected):
        self._s = s
        self._connected = connected
        self._over = None  # the Event of the tasks that wait until it is closed
        self.closed = False
        core._io_queue.watch(s, 1, self)
        core._io_queue.opened[self] = None

    def __getattr__(self, name):
        if name == "sockets":
            return () if self.closed else (self._s,)
        if name not in _MORE.split(" "):
            raise AttributeError(name)
        from .streams import bound

        return bound(self, name)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        self.close()

    def close(self):
        """Stops accepting connections. Those that are open stay."""
        if not self.closed:
            self.closed = True
            core._io_queue.opened.pop(self, None)
            core._io_queue.watch(self._s, 0, self)
            self._s.close()
            if hasattr(self._connected, "close"):
                self._connected.close()
            if self._over:
                self._over.set()

    async def wait_closed(self):
        """Waits until it is closed, by close() or because run() has ended. If all tasks that
        wait are cancelled, it is closed too."""
        if not self.closed:
            if not self._over:
                from .event import Event

                self._over = Event()
            try:
                await self._over.wait()
            finally:
                if not self._over.waiting.peek():
                    self.close()

    def _fail(self, exc):
        self.close()

    def _raised(self, er):
        core.report("Exception in a server", er)

    def _ready(self, ev):
        # One connection a pass.
        if self.limit and self.limit.full():
            return core._io_queue.watch(self._s, 0, self)
        try:
            # Have a MemoryError before a connection is accepted, which would be lost.
            bytearray(512)
            s, addr = self._s.accept()
        except (OSError, MemoryError) as er:
            if isinstance(er, MemoryError) or er.errno in _SCARCE:
                self._pause(er)
            return
        try:
            s.setblocking(False)
            self._connected(s, None, addr)
        except Exception as er:
            _close(s, None)
            self._raised(er)

    def _pause(self, er):
        # It would be called again at once, for ever.
        try:
            core.create_task(self._rest(er))
        except MemoryError:
            return  # not even for that
        core._io_queue.watch(self._s, 0, self)

    async def _rest(self, er):
        try:
            core.report("A server accepts nothing for now", er)
        finally:
            while not self.closed:
                await core.sleep_ms(50 if isinstance(er, MemoryError) else 1000)
                try:
                    return self.closed or core._io_queue.watch(self._s, 1, self)
                except MemoryError:
                    pass


async def _connection(cb, stream):
    try:
        await cb(stream, stream)
    except BaseException:
        stream._fail(None)
        raise


async def start_server(
    cb, host, port, backlog=5, ssl=None, *, ssl_handshake_timeout=None, max_connections=None
):
    """Starts a TCP server; returns a Server. cb: called as cb(reader, writer) for each connection,
    its coroutine runs as a task; if it raises, the connection is closed. ssl: an SSLContext for
    TLS; then it is called once the client has begun with that, and of more than `backlog` clients
    that have not the oldest is closed. ssl_handshake_timeout: the seconds (60 by default) in which
    a byte must be read or sent; else the connection is closed, with OSError (ETIMEDOUT) in the
    task that waits for it. max_connections (int): with so many coroutines running it accepts
    no more until one has ended; with TLS, up to `backlog` more may be in the handshake. OSError if
    the address cannot be bound."""
    return await serve(
        cb, _resolve(host, port)[1], backlog, ssl, ssl_handshake_timeout, max_connections
    )


async def serve(cb, ai, backlog, ssl, seconds, max_connections):
    """As start_server(). ai: see listen()."""
    limit = None
    if max_connections is not None:
        from .streams import Limit

        limit = Limit(max_connections)

    if cb is not None and not callable(cb):  # None: upstream's tests have no clients
        raise TypeError("start_server: cb must be callable")

    def connected(s, raw, addr):
        stream = Stream(s, {"peername": addr})
        stream.raw = raw
        stream.served = True
        coro = _connection(cb, stream)
        if limit:
            limit.start(coro, stream)
        else:
            core.create_task(coro)
        return stream

    server = listen(ai, backlog, ssl, seconds, connected)
    if limit:
        server.limit = limit
        limit.server = server
    try:
        await core.sleep_ms(0)
    except BaseException:
        server.close()
        raise
    return server
