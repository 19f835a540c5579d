# test_protocol_order.py runs this on CPython's asyncio and on ours: each function below is a
# program, with a peer of the same name there. It prints the callbacks in their order, and some
# print after "=" how many bytes they have written.

import sys

if sys.implementation.name == "micropython":
    import asyncio_alt as asyncio
else:
    import asyncio


HOST = "127.0.0.1"
log = []  # the events; data that came in pieces is one entry


def note(what):
    if isinstance(what, bytes) and log and isinstance(log[-1], bytes):
        log[-1] += what
    else:
        log.append(what)


class Log:
    def __init__(self):
        self.end = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        note("made")

    def eof_received(self):
        note("eof")

    def connection_lost(self, exc):
        note(f"lost, {exc.errno if isinstance(exc, OSError) else exc and exc.args}")
        self.end.set()

    def pause_writing(self):
        note("pause")

    def resume_writing(self):
        note("resume")


class Protocol(Log, asyncio.Protocol):
    def data_received(self, data):
        note(data)


class Buffered(Log, asyncio.BufferedProtocol):
    def __init__(self):
        super().__init__()
        self.buf = bytearray(3)

    def get_buffer(self, sizehint):
        return self.buf

    def buffer_updated(self, nbytes):
        note(bytes(self.buf[:nbytes]))


def handler(loop, context):
    args = context["exception"].args
    note(f"reported, {args}")


async def connected(cls, port):
    # To its end.
    asyncio.get_event_loop().set_exception_handler(handler)
    transport, protocol = await asyncio.get_running_loop().create_connection(cls, HOST, port)
    assert protocol.transport is transport
    await protocol.end.wait()
    note(f"closing {transport.is_closing()}")
    return protocol


def exchange(port):
    class P(Protocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.write(b"hel")
            transport.writelines([b"l", b"o"])
            note(f"waits {transport.get_write_buffer_size() > 0}")

    return connected(P, port)


def buffered(port):
    class P(Buffered):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.write(b"hello")

    return connected(P, port)


def _half_closed(keep):
    async def later(p):
        await asyncio.sleep(0.05)
        note(f"closing {p.transport.is_closing()}")
        if keep:
            p.transport.write(b"more")
            p.transport.close()
            p.transport.resume_reading()

    class P(Protocol):
        def eof_received(self):
            note("eof")
            self.transport.write(b"after")
            self.later = asyncio.create_task(later(self))
            return keep

    async def run(port):
        p = await connected(P, port)
        await p.later

    return run


half_closed_kept = _half_closed(True)
half_closed_false = _half_closed(False)
half_closed_none = _half_closed(None)


def made_closes(port):
    class P(Protocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.write(b"bye")
            transport.close()
            note("returned")

    return connected(P, port)


def _stopped(stop):
    # In a callback, though there is more to come.
    class P(Protocol):
        def data_received(self, data):
            note("data")
            getattr(self.transport, stop)()
            self.transport.write(b"dropped")
            self.transport.write(b"dropped")
            getattr(self.transport, stop)()
            note(f"returned, closing {self.transport.is_closing()}")

    return lambda port: connected(P, port)


closed = _stopped("close")
aborted = _stopped("abort")


class Filler(Protocol):
    # Writes until some of it waits.
    def data_received(self, data):
        note(data)
        self.written = 0
        self.transport.set_write_buffer_limits(2000, 1000)
        while "pause" not in log:
            self.more()
        self.more()

    def more(self):
        self.transport.write(bytes(10000))
        self.written += 10000


def aborted_with_rest(port):
    class P(Filler):
        def data_received(self, data):
            super().data_received(data)
            note(f"waits {self.transport.get_write_buffer_size() > 0}")
            self.transport.abort()
            note(f"waits {self.transport.get_write_buffer_size() > 0}")

    return connected(P, port)


async def closed_with_rest(port):
    class P(Filler):
        def data_received(self, data):
            super().data_received(data)
            self.transport.close()
            note(f"returned, closing {self.transport.is_closing()}")

    p = await connected(P, port)
    return p.written


async def water_marks(port):
    async def close(transport):
        await asyncio.sleep(0.2)
        transport.close()

    class P(Filler):
        def resume_writing(self):
            super().resume_writing()
            note(f"low {self.transport.get_write_buffer_size() <= 1000}")
            asyncio.create_task(close(self.transport))

    p = await connected(P, port)
    return p.written


def paused(port):
    async def later(transport):
        await asyncio.sleep(0.1)
        note("resumed")
        transport.resume_reading()

    class P(Protocol):
        def data_received(self, data):
            note(data)
            if data == b"1":
                self.transport.pause_reading()
                self.transport.write(b"k")
                note("paused")
                asyncio.create_task(later(self.transport))

    return connected(P, port)


def reset(port):
    class P(Protocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.write(b"hello")

    return connected(P, port)


def _raising(where):
    class P(Protocol):
        def data_received(self, data):
            super().data_received(data)
            if where == "data":
                raise ValueError(where)

        def eof_received(self):
            super().eof_received()
            if where == "eof":
                raise ValueError(where)

        def connection_lost(self, exc):
            super().connection_lost(exc)
            if where == "lost":
                raise ValueError(where)

    return lambda port: connected(P, port)


def _buffer_raising(where):
    class P(Buffered):
        def get_buffer(self, sizehint):
            if where == "get":
                raise ValueError(where)
            return super().get_buffer(sizehint)

        def buffer_updated(self, nbytes):
            super().buffer_updated(nbytes)
            if where == "updated":
                raise ValueError(where)

    return lambda port: connected(P, port)


get_buffer_raises = _buffer_raising("get")
buffer_updated_raises = _buffer_raising("updated")
data_raises = _raising("data")
eof_raises = _raising("eof")
lost_raises = _raising("lost")


def limits(port):
    class P(Protocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            for limits in ((3, 4), (-1,), (1, -1)):
                try:
                    transport.set_write_buffer_limits(*limits)
                except ValueError:
                    note("refused")
            for data in ("text", 5, None):
                try:
                    transport.write(data)
                except TypeError:
                    note("refused")
            transport.write(b"")
            note(transport.get_write_buffer_size())
            note(transport.get_extra_info("nothing", "default"))
            transport.close()

    return connected(P, port)


async def serving(port):
    # Two clients, one after the other.
    protocols = []

    class P(Protocol):
        def __init__(self):
            super().__init__()
            protocols.append(self)

        def data_received(self, data):
            note(data)
            self.transport.write(data)

    server = await asyncio.get_running_loop().create_server(P, HOST, port)
    async with server:
        while len(protocols) < 2:
            await asyncio.sleep(0.01)
        for p in protocols:
            await p.end.wait()


def run(name, port):
    result = asyncio.run(globals()[name](port))
    for what in log:
        print(what)
    if isinstance(result, int):
        print("=", result)
