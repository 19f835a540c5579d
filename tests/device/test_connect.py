# with: tasks, tls
# open_connection and start_server, on 127.0.0.1.

import errno
import gc
import socket

import asyncio_alt as asyncio
from asyncio_alt import core

HOST = "127.0.0.1"
PORT = free_port()  # where the servers listen


async def echo(reader, writer):
    while True:
        data = await reader.read(100)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    await writer.wait_closed()


def serve(cb):
    return asyncio.start_server(cb, HOST, PORT)


def connect():
    return asyncio.open_connection(HOST, PORT)


def descriptor():
    # The number that the next socket gets: the same again if no socket is left open.
    s = socket.socket()
    n = s.fileno()
    s.close()
    return n


@needs("sockets")
async def test_echo():
    async with await serve(echo) as server:
        for _ in range(3):
            reader, writer = await connect()
            for i in range(3):
                writer.write("line %d\n" % i)
                await writer.drain()
                assert await reader.readline() == b"line %d\n" % i
            await writer.wait_closed()
    await passes(5)  # until the callback has seen the end
    assert server.closed and not core.streams


@needs("sockets")
async def test_connecting_to_a_closed_port_fails():
    """Stock 1.29: succeeds, and the first read fails."""
    n = descriptor()
    for _ in range(3):
        e = await araises(OSError, connect())
        assert e.errno == errno.ECONNREFUSED
        assert descriptor() == n and not core.streams


@needs("sockets")
async def test_cancelled_connect_leaks_nothing():
    n = descriptor()
    async with await serve(echo):
        m = descriptor()
        for k in range(4):
            t = asyncio.create_task(connect())
            await passes(k)
            t.cancel()
            try:
                reader, writer = await t
                await writer.wait_closed()
            except asyncio.CancelledError:
                pass
            # The server may have taken the connection: it sees it end.
            await asyncio.sleep_ms(10)
            assert descriptor() == m, k
            assert len(core.streams) == 1
    assert descriptor() == n and not core.streams


@needs("sockets")
async def test_a_port_that_cannot_be_is_refused():
    for port in (-1, 65536, 1 << 40):
        await araises(ValueError, asyncio.open_connection(HOST, port), match="port")
        await araises(ValueError, asyncio.start_server(echo, HOST, port), match="port")
        await araises(ValueError, asyncio.get_event_loop().getaddrinfo(HOST, port), match="port")
    await araises(TypeError, asyncio.start_server(5, HOST, PORT), match="cb")


@needs("sockets")
async def test_cancelled_start_server_leaks_nothing():
    n = descriptor()
    for k in range(4):
        t = asyncio.create_task(serve(echo))
        await passes(k)
        t.cancel()
        try:
            server = await t
            server.close()
            await server.wait_closed()
        except asyncio.CancelledError:
            await passes(3)
        assert descriptor() == n and not core.streams and len(core.tasks) == 1, k


@needs("sockets")
async def test_taken_port_is_refused():
    """Stock 1.29: one socket leaked each time."""
    async with await serve(echo):
        n = descriptor()
        for _ in range(3):
            assert (await araises(OSError, serve(echo))).errno == errno.EADDRINUSE
            assert descriptor() == n


async def fail(reader, writer):
    raise ValueError("callback")


def fail_at_once(reader, writer):
    raise ValueError("callback")


def no_coroutine(reader, writer):
    pass


async def fail_after_a_read(reader, writer):
    await reader.read(1)
    raise ValueError("callback")


async def end_of(cb, send=b""):
    # A client of a server with this callback gets just the end; twice, as the first must not stop
    # the server.
    async with await serve(cb):
        for _ in range(2):
            reader, writer = await connect()
            if send:
                writer.write(send)
            assert await asyncio.wait_for_ms(reader.read(), 500) == b""
            await writer.wait_closed()
    assert not core.streams and len(core.tasks) == 1


@needs("sockets")
async def test_exception_in_a_callback_closes_the_connection():
    """Stock 1.29: it stays open."""
    reports = quiet()
    await end_of(fail)
    await end_of(fail_after_a_read, b"x")
    assert [type(e) for e in reports] == [ValueError] * 4


@needs("sockets")
async def test_callback_that_is_no_coroutine_closes_the_connection():
    """Stock 1.29: it stays open, and the server stops."""
    reports = quiet()
    await end_of(fail_at_once)
    await end_of(no_coroutine)
    assert [type(e) for e in reports] == [ValueError] * 2 + [TypeError] * 2


@needs("sockets")
async def test_cancelled_callback_closes_the_connection():
    """Stock 1.29: it stays open."""
    reports = quiet()
    for k in range(5):
        tasks = []

        async def cb(reader, writer):
            tasks.append(asyncio.current_task())
            await reader.read(1)

        async with await serve(cb):
            reader, writer = await connect()
            while not tasks:
                await passes(1)
            await passes(k)
            tasks[0].cancel()
            await araises(asyncio.CancelledError, tasks[0])  # and others may await it
            assert await asyncio.wait_for_ms(reader.read(), 500) == b""
            await writer.wait_closed()
    assert not reports


@needs("sockets")
async def test_connection_of_a_callback_that_returns_stays_open():
    kept = []

    async def cb(reader, writer):
        kept.append(writer)

    async with await serve(cb):
        reader, writer = await connect()
        while not kept:
            await passes(1)
        await passes(3)
        kept[0].write(b"x")
        assert await asyncio.wait_for_ms(reader.read(1), 500) == b"x"
        await kept[0].wait_closed()
        await writer.wait_closed()


def reads(stream):
    # Every kind of wait for the peer.
    return (
        stream.read(4),
        stream.read(),
        stream.readexactly(4),
        stream.readline(),
        stream.readinto(bytearray(4)),
    )


async def hold(reader, writer):
    # Keeps the connection open.
    held.append(writer)


held = []


@needs("sockets")
async def test_closed_under_a_reader_ends_its_wait():
    async with await serve(hold):
        for raw in (False, True):
            for i in range(5):
                reader, writer = await connect()
                for j, read in enumerate(reads(reader)):
                    if j == i:
                        t = asyncio.create_task(read)
                await passes(2)
                if raw:
                    reader.s.close()
                else:
                    await writer.wait_closed()
                await araises(OSError, asyncio.wait_for_ms(t, 500))
                assert len(core.streams) == 1
    while held:
        await held.pop().wait_closed()


@needs("sockets")
async def test_hang_up_ends_every_kind_of_wait():
    async with await serve(hold):
        for i in range(5):
            reader, writer = await connect()
            for j, read in enumerate(reads(reader)):
                if j == i:
                    t = asyncio.create_task(read)
            while not held:
                await passes(1)
            await held.pop().wait_closed()
            try:
                assert not await asyncio.wait_for_ms(t, 500)
            except EOFError:
                assert i == 2
            await writer.wait_closed()
    assert not core.streams


@needs("sockets")
async def test_hang_up_under_a_writer_ends_its_wait():
    async with await serve(hold):
        reader, writer = await connect()
        data = bytes(50000)
        for _ in range(100):
            writer.write(data)
            if writer.out_buf:
                break
        t = asyncio.create_task(writer.drain())
        await asyncio.sleep_ms(5)
        assert not t.done()
        await held.pop().wait_closed()
        e = await araises(OSError, asyncio.wait_for_ms(t, 500))
        assert e.errno in (errno.ECONNRESET, 32)  # EPIPE
        await writer.wait_closed()
    assert not core.streams


@needs("sockets")
async def test_large_transfer_arrives_whole():
    async def cb(reader, writer):
        buf = bytes(range(250)) * 40
        for _ in range(10):
            writer.write(buf, copy=False)
            await writer.drain()
        await writer.wait_closed()

    async with await serve(cb):
        reader, writer = await connect()
        n = 0
        while True:
            data = await reader.read(3000)
            if not data:
                break
            assert data[0] == n % 250
            n += len(data)
        assert n == 100000
        await writer.wait_closed()
    gc.collect()


@needs("sockets")
async def test_close_stops_the_server_only():
    server = await serve(echo)
    reader, writer = await connect()
    await passes(3)
    server.close()
    server.close()
    await server.wait_closed()
    await server.wait_closed()
    writer.write(b"x")
    assert await asyncio.wait_for_ms(reader.read(1), 500) == b"x"
    await writer.wait_closed()
    await araises(OSError, connect())


@needs("sockets", "ssl")
async def test_echo_over_tls():
    import binascii
    import ssl

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(binascii.a2b_base64(CERT), binascii.a2b_base64(KEY))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_mode = ssl.CERT_REQUIRED
    client.load_verify_locations(cadata=binascii.a2b_base64(CERT))
    async with await asyncio.start_server(echo, HOST, PORT, ssl=ctx):
        reader, writer = await asyncio.open_connection(
            HOST, PORT, ssl=client, server_hostname="localhost"
        )
        for i in range(3):
            writer.write("line %d\n" % i)
            await writer.drain()
            assert await asyncio.wait_for(reader.readline(), 2) == b"line %d\n" % i
        await writer.wait_closed()
    await passes(5)
    assert not core.streams


@needs("sockets")
async def test_wait_closed_raises_only_the_callers_cancellation():
    """Stock 1.29: as here; one that awaits the server's task gets that one's."""
    server = await serve(echo)
    waiters = [asyncio.create_task(server.wait_closed()) for _ in range(3)]
    await passes(2)
    waiters[1].cancel()
    await araises(asyncio.CancelledError, waiters[1])
    assert not (server.closed or waiters[0].done() or waiters[2].done())
    server.close()
    await waiters[0]
    await waiters[2]
    await server.wait_closed()


@needs("sockets")
async def test_server_is_closed_when_all_who_wait_for_that_are_cancelled():
    server = await serve(echo)
    t = asyncio.create_task(server.wait_closed())
    await passes(2)
    t.cancel()
    await araises(asyncio.CancelledError, t)
    assert server.closed and not core.streams


@needs("sockets")
async def test_body_of_async_with_that_raises_closes_the_server():
    n = descriptor()
    try:
        async with await serve(echo) as server:
            raise ValueError("body")
    except ValueError:
        pass
    assert server.closed and descriptor() == n


@needs("sockets")
def test_tasks_that_close_a_server_as_run_ends_go_on():
    """Stock 1.29: they never run."""
    started = []
    saved = []
    n = descriptor()

    async def task(i):
        server = await asyncio.start_server(echo, HOST, free_port())
        started.append(i)
        try:
            await asyncio.sleep(10)
        finally:
            server.close()
            await server.wait_closed()
            saved.append(i)

    async def main():
        for i in range(8):
            asyncio.create_task(task(i))
        while len(started) < 8:
            await asyncio.sleep_ms(1)

    asyncio.run(main())
    assert sorted(saved) == list(range(8)) and descriptor() == n


@needs("sockets")
def test_server_is_closed_once_run_has_ended():
    servers = []
    n = descriptor()

    async def main():
        servers.append(await serve(echo))
        servers.append(await asyncio.create_server(asyncio.Protocol, HOST, free_port()))

    async def close():
        for server in servers:
            server.close()
            await server.wait_closed()

    asyncio.run(main())
    assert descriptor() == n
    asyncio.run(close())


def fill():
    # Takes all free memory; returns the object that holds it.
    held = None
    for size in (65536, 4096, 512, 64, 16):
        try:
            while True:
                held = (bytearray(size), held)
        except MemoryError:
            pass
    return held


@needs("sockets")
async def test_full_heap_ends_no_server():
    """Stock 1.29: the connection is lost, and the server goes on."""
    asyncio.get_event_loop().set_exception_handler(lambda *_: None)
    addr = socket.getaddrinfo(HOST, PORT)[0][-1]
    for kind in range(2):
        served = []

        class P(asyncio.Protocol):
            def connection_made(self, transport):
                served.append(1)
                transport.close()

        async def cb(reader, writer):
            served.append(1)
            await writer.wait_closed()

        if kind:
            server = await asyncio.create_server(P, HOST, PORT)
        else:
            server = await asyncio.start_server(cb, HOST, PORT)
        async with server:
            clients = [socket.socket() for _ in range(3)]
            clients[0].connect(addr)
            while not served:
                await asyncio.sleep_ms(1)
            clients[1].connect(addr)
            held = fill()
            for _ in range(3):
                await asyncio.sleep_ms(1)
            del held
            gc.collect()
            clients[2].connect(addr)
            for _ in range(100):
                if len(served) >= 2:
                    break
                await asyncio.sleep_ms(5)
            assert len(served) >= 2
            for c in clients:
                c.close()
        await passes(3)


def contexts():
    import binascii
    import ssl

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(binascii.a2b_base64(CERT), binascii.a2b_base64(KEY))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_mode = ssl.CERT_NONE
    return ctx, client


@needs("sockets", "ssl")
async def test_failed_handshake_leaves_no_descriptor_open():
    """Stock 1.29: one for each connection that sends no TLS."""
    ctx, client = contexts()
    addr = socket.getaddrinfo(HOST, PORT)[0][-1]

    async def cb(reader, writer):
        try:
            await reader.read(10)
        except OSError:
            pass
        await writer.wait_closed()

    for kind in range(2):
        if kind:
            server = await asyncio.create_server(asyncio.Protocol, HOST, PORT, ssl=ctx)
        else:
            server = await asyncio.start_server(cb, HOST, PORT, ssl=ctx)
        async with server:
            n = descriptor()
            for what in (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02", b"", b"\xff" * 300):
                s = socket.socket()
                s.connect(addr)
                await asyncio.sleep_ms(5)
                s.send(what)
                await asyncio.sleep_ms(10)
                s.close()
                await asyncio.sleep_ms(10)
                assert descriptor() == n, what

    # The client's side.
    async def plain(reader, writer):
        writer.write(b"no TLS at all, however long one waits for it")
        await writer.drain()
        await writer.wait_closed()

    async with await asyncio.start_server(plain, HOST, PORT):
        n = descriptor()
        reader, writer = await asyncio.open_connection(HOST, PORT, client)
        writer.write(b"x")
        await araises(OSError, reader.read(1))
        await writer.wait_closed()
        await asyncio.sleep_ms(10)
        assert descriptor() == n


@needs("sockets", "ssl")
async def test_silent_clients_of_a_tls_server_give_way():
    """Stock 1.29: all stay open."""
    ctx, client = contexts()
    addr = socket.getaddrinfo(HOST, PORT)[0][-1]

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    n = descriptor()
    for kind in range(2):
        if kind:
            server = await asyncio.create_server(Echo, HOST, PORT, backlog=5, ssl=ctx)
        else:
            server = await asyncio.start_server(echo, HOST, PORT, backlog=5, ssl=ctx)
        async with server:
            silent = []
            for _ in range(40):
                s = socket.socket()
                s.connect(addr)
                silent.append(s)
                await passes(2)
            await asyncio.sleep_ms(5)
            # Each of the 40, the server's own and the 5 that it holds.
            assert descriptor() <= n + 40 + 1 + 5 and len(core.streams) <= 6
            reader, writer = await asyncio.open_connection(HOST, PORT, client)
            writer.write(b"ping")
            await writer.drain()
            assert await asyncio.wait_for(reader.readexactly(4), 5) == b"ping"
            await writer.wait_closed()
            for s in silent:
                s.close()
            await asyncio.sleep_ms(20)
        assert descriptor() == n and not core.streams


async def stalled(make, client):
    # 30 clients of a TLS server, which has a limit of 0.3 s, send a part of a handshake and stall.
    addr = socket.getaddrinfo(HOST, PORT)[0][-1]
    stalled = [socket.socket() for _ in range(30)]
    async with await make:
        n = descriptor()
        for i, s in enumerate(stalled):
            s.connect(addr)
            s.send(b"\x16\x03\x01\x02\x00\x01"[: 1 + i % 6])
            await passes(2)
        # It serves meanwhile, also one that goes on for longer than the limit.
        reader, writer = await asyncio.open_connection(HOST, PORT, client)
        for _ in range(5):
            writer.write(b"ping")
            await writer.drain()
            assert await asyncio.wait_for(reader.readexactly(4), 5) == b"ping"
            await asyncio.sleep_ms(100)
        await writer.wait_closed()
        for _ in range(500):
            if descriptor() == n and len(core.streams) == 1:
                break
            await asyncio.sleep_ms(10)
        assert descriptor() == n and len(core.streams) == 1
    for s in stalled:
        s.close()
    assert not core.streams


class Echo(asyncio.Protocol):
    lost = []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    def connection_lost(self, exc):
        self.lost.append(exc)


@needs("sockets", "ssl")
async def test_clients_that_stall_in_the_handshake_are_closed():
    """Stock 1.29: they stay open."""
    reports = quiet()
    ctx, client = contexts()
    limit = {"backlog": 5, "ssl": ctx, "ssl_handshake_timeout": 0.3}
    await stalled(asyncio.start_server(echo, HOST, PORT, **limit), client)
    assert [e.errno for e in reports] == [errno.ETIMEDOUT] * 30
    await stalled(asyncio.create_server(Echo, HOST, PORT, **limit), client)
    while len(Echo.lost) < 31:
        await passes(1)
    assert sorted(e.errno for e in Echo.lost if e) == [errno.ETIMEDOUT] * 30


@needs("sockets", "ssl")
async def test_of_many_slow_handshakes_the_oldest_give_way():
    from asyncio_alt.tls import Handshakes

    class Conn:
        shaken = False

        def _fail(self, exc):
            self.shaken = exc

    hands = Handshakes(3)
    conns = [Conn() for _ in range(8)]
    conns[1].shaken = True
    hands.add(Conn(), 10)  # it looks every 10 ms
    for conn in conns:
        hands.add(conn, 10000)
    while not conns[4].shaken:
        await asyncio.sleep_ms(5)
    await asyncio.sleep_ms(30)
    assert [bool(c.shaken) for c in conns] == [True] * 5 + [False] * 3


@needs("sockets", "ssl")
async def test_client_whose_server_stalls_in_the_handshake_is_closed():
    ctx, client = contexts()

    async def stall(reader, writer):
        held.append(writer)

    n = descriptor()
    for seconds, exc in ((0, ValueError), (-1, ValueError), ("1", TypeError), (1e9, ValueError)):
        for call in (asyncio.open_connection, asyncio.start_server):
            args = (echo, HOST, PORT) if call is asyncio.start_server else (HOST, PORT)
            await araises(exc, call(*args, ssl=ctx, ssl_handshake_timeout=seconds))
    await araises(ValueError, asyncio.open_connection(HOST, PORT, ssl_handshake_timeout=1))
    async with await asyncio.start_server(stall, HOST, PORT):
        reader, writer = await asyncio.open_connection(
            HOST, PORT, client, ssl_handshake_timeout=0.05
        )
        e = await araises(OSError, asyncio.wait_for(reader.read(1), 5))
        assert e.errno == errno.ETIMEDOUT
        lost = []

        class P(asyncio.Protocol):
            def connection_lost(self, exc):
                lost.append(exc.errno)

        await asyncio.create_connection(P, HOST, PORT, ssl=client, ssl_handshake_timeout=0.05)
        while not lost:
            await asyncio.sleep_ms(5)
        assert lost == [errno.ETIMEDOUT]
        while held:
            await held.pop().wait_closed()
    assert descriptor() == n


@needs("sockets")
async def test_server_accepts_no_more_than_its_limit():
    running = most = served = 0

    async def cb(reader, writer):
        nonlocal running, most, served
        running += 1
        most = max(most, running)
        try:
            writer.write(await reader.readexactly(1))
            await writer.drain()
            served += 1
            if served == 3:
                raise ValueError
        finally:
            running -= 1
            await writer.wait_closed()

    async def client():
        reader, writer = await connect()
        await asyncio.sleep_ms(20)
        writer.write(b"x")
        await writer.drain()
        assert await reader.read(1) == b"x"
        await writer.wait_closed()

    asyncio.get_event_loop().set_exception_handler(lambda loop, context: None)
    server = await asyncio.start_server(cb, HOST, PORT, max_connections=2)
    async with server:
        clients = [asyncio.create_task(client()) for _ in range(6)]
        await asyncio.wait_for(asyncio.gather(*clients), 10)
        assert served == 6 and most == 2, (served, most)
        # Cancelled before it has begun.
        for _ in range(3):
            before = set(asyncio.all_tasks())
            reader, writer = await connect()
            while set(asyncio.all_tasks()) == before:
                await asyncio.sleep_ms(0)
            for task in asyncio.all_tasks():
                if task not in before:
                    task.cancel()
            await asyncio.sleep_ms(5)
            await writer.wait_closed()
        await asyncio.wait_for(client(), 5)
        assert server.is_serving() and len(server.sockets) == 1
    assert not server.is_serving() and server.sockets == ()
    # Its connections can be closed.
    over = []

    async def waits(reader, writer):
        try:
            await reader.read(1)
        except OSError as er:
            over.append(er.errno)

    async with await asyncio.start_server(waits, HOST, PORT, max_connections=2) as server:
        clients = []
        for _ in range(3):
            clients.append((await connect())[0])
        while sum(s.served for s in server.limit._clients) < 2:
            await asyncio.sleep_ms(1)
        server.close_clients()
        assert await clients[0].read() == await clients[1].read() == b"" and over == [9, 9]
        server.abort_clients()
        server.close_clients()
    async with await serve(waits) as server:
        raises(ValueError, server.close_clients, match="max_connections")
    for most, error in ((0, ValueError), (-1, ValueError), ("1", TypeError), (1.5, TypeError)):
        await araises(error, asyncio.start_server(cb, HOST, PORT, max_connections=most))
    task = asyncio.create_task((await serve(cb)).serve_forever())
    await asyncio.sleep_ms(5)
    task.cancel()
    await araises(asyncio.CancelledError, task)
    await araises(OSError, connect())


@needs("sockets")
async def test_readuntil_lines_and_what_is_written_in_pieces():
    async def cb(reader, writer):
        writer.writelines([b"a--", b"b-", b"-", b"", b"rest"])
        await writer.drain()
        await reader.read(1)
        writer.write(b"\n1\n\n2")
        await writer.drain()
        await reader.read(1)
        writer.write(bytes(70000))
        await writer.drain()
        await reader.read(1)
        assert not writer.is_closing() and not writer.can_write_eof()
        raises(NotImplementedError, writer.write_eof)
        await writer.wait_closed()
        assert writer.is_closing()

    async with await serve(cb):
        reader, writer = await connect()
        assert await reader.readuntil(b"--") == b"a--"
        assert await reader.readuntil(bytearray(b"--")) == b"b--"
        await araises(ValueError, reader.readuntil(b""))
        t = asyncio.create_task(reader.readuntil(b"--"))
        await asyncio.sleep_ms(20)
        t.cancel()
        await araises(asyncio.CancelledError, t)
        assert await reader.readexactly(4) == b"rest"  # the cancelled one has lost nothing
        writer.write(b".")
        for line in (b"\n", b"1\n", b"\n"):
            assert await reader.readuntil() == line
        writer.write(b".")
        try:
            await reader.readuntil()
            assert False
        except asyncio.LimitOverrunError as er:
            assert er.consumed == 65536
        assert len(await reader.readexactly(70001)) == 70001
        writer.write(b".")
        try:
            await reader.readuntil()
            assert False
        except asyncio.IncompleteReadError as er:
            assert er.partial == b"" and er.expected is None
        assert not hasattr(reader, "nothing")
        await writer.wait_closed()

    async def lines(reader, writer):
        writer.write(b"1\n\n2")
        await writer.drain()
        await writer.wait_closed()

    async with await serve(lines):
        reader, writer = await connect()
        got = []
        async for line in reader:
            got.append(line)
        assert got == [b"1\n", b"\n", b"2"], got
        await writer.wait_closed()


@needs("sockets", "ssl")
async def test_tls_starts_on_a_connection_that_is_open():
    import binascii
    import ssl

    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(binascii.a2b_base64(CERT), binascii.a2b_base64(KEY))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_mode = ssl.CERT_REQUIRED
    client.load_verify_locations(cadata=binascii.a2b_base64(CERT))

    async def cb(reader, writer):
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"go\n")
        await writer.start_tls(ctx)  # sends what was written first
        await araises(ValueError, writer.start_tls(ctx), match="TLS already")
        async for line in reader:
            writer.write(line)
            await writer.drain()
        await writer.wait_closed()

    async with await serve(cb):
        reader, writer = await connect()
        for bad in (None, 5, "x"):
            await araises(TypeError, writer.start_tls(bad), match="sslcontext")
        await araises(ValueError, writer.start_tls(client, ssl_handshake_timeout=0))
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go\n"
        await writer.start_tls(client, server_hostname="localhost", ssl_handshake_timeout=5)
        for line in (b"a\n", bytes(20000) + b"\n"):
            writer.write(line)
            await writer.drain()
            assert await reader.readline() == line
        await writer.wait_closed()
        await araises(ValueError, writer.start_tls(client), match="TLS already")
        # What came before it is not taken for what came by it.
        reader, writer = await connect()
        writer.write(b"STARTTLS\n")
        t = asyncio.create_task(reader.readexactly(9))
        await asyncio.sleep_ms(20)
        t.cancel()
        await araises(asyncio.CancelledError, t)
        await araises(OSError, writer.start_tls(client, server_hostname="localhost"), match="71")
        await writer.wait_closed()
    await passes(5)
    assert not core.streams


@needs("sockets")
async def test_unix_sockets():
    import os
    import socket

    path = "asyncio_alt %d" % PORT
    if not hasattr(socket, "sockaddr"):
        return await araises(OSError, asyncio.open_unix_connection(path), match="97")
    for bad in ("", "a\0b", "x" * 108):
        await araises(ValueError, asyncio.open_unix_connection(bad), match="path")
    await araises(TypeError, asyncio.start_unix_server(echo, 5), match="path")
    await araises(OSError, asyncio.open_unix_connection(path))
    try:
        for _ in range(2):  # the second one removes what the first has left
            async with await asyncio.start_unix_server(echo, path) as server:
                await araises(OSError, asyncio.start_unix_server(echo, path))
                both = []
                for _ in range(3):
                    both.append(await asyncio.open_unix_connection(path))
                for i, (reader, writer) in enumerate(both):
                    writer.write(bytes(i * 20000) + b"\n")
                for i, (reader, writer) in enumerate(both):
                    await writer.drain()
                    assert len(await reader.readline()) == i * 20000 + 1
                    await writer.wait_closed()
            assert not server.is_serving()
    finally:
        os.remove(path)
    with open(path, "w") as f:
        f.write("precious")
    try:
        await araises(OSError, asyncio.start_unix_server(echo, path))
        with open(path) as f:
            assert f.read() == "precious"
    finally:
        os.remove(path)
