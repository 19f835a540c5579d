# with: tasks
# Protocol and Transport, on a stream in memory.

import errno
import io

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


class Raw(io.IOBase):
    # Gives the bytes of `data`, `chunk` bytes a read at most; takes as many as there is room for.
    def __init__(self, data=b"", chunk=10000, room=100000):
        self.data = data
        self.chunk = chunk
        self.room = room
        self.eof = False
        self.error = None  # read() and write() raise it
        self.events = 0  # more of them, for ioctl
        self.sent = b""
        self.writes = 0
        self.closed = False

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        ready = 4 if self.room or self.error else 0
        if self.data or self.eof or self.error:
            ready |= 1
        return ready & arg | self.events

    def read(self, n):
        if self.error:
            raise self.error
        n = min(n, self.chunk)
        r = self.data[:n]
        self.data = self.data[n:]
        return r if r or self.eof else None

    def readinto(self, buf, n=10000):
        r = self.read(min(n, len(buf)))
        if r is not None:
            buf[: len(r)] = r
            return len(r)

    def write(self, buf):
        if self.error:
            raise self.error
        self.writes += 1
        n = min(len(buf), self.room)
        self.room -= n
        self.sent += bytes(memoryview(buf)[:n])
        return n or None


class Pipe(Raw):
    def close(self):
        self.closed = True


class Uart(Raw):
    # As a UART that waits for more than it has: nobody may ask for that.
    def any(self):
        return len(self.data)

    def read(self, n):
        assert 0 < n <= len(self.data)
        return super().read(n)


class Log(asyncio.Protocol):
    # Notes the callbacks.
    keep_open = False

    def __init__(self):
        self.log = []

    def connection_made(self, transport):
        self.transport = transport
        self.log.append("made")

    def data_received(self, data):
        assert type(data) is bytes and data
        self.log.append(data)

    def eof_received(self):
        self.log.append("eof")
        return self.keep_open

    def connection_lost(self, exc):
        self.log.append(exc)

    def pause_writing(self):
        self.log.append("pause")

    def resume_writing(self):
        self.log.append("resume")


def connected(s, p=None):
    # (transport, log) of a protocol connected to s; log is emptied.
    p = p or Log()
    t = asyncio.connect_stream(p, s)
    assert p.transport is t and p.log == ["made"]
    p.log.clear()
    return t, p.log


def quiet_stderr():
    # Collects the output to stderr, and returns that stream.
    import sys

    from asyncio_alt import protocol

    class Sys:
        stderr = io.StringIO()

    assert protocol.sys is sys
    protocol.sys = Sys
    return Sys.stderr


# Receiving


async def test_data_is_received_in_order_until_the_end():
    s = Pipe(b"abc")
    t, log = connected(s)
    await passes(2)
    assert log == [b"abc"]
    s.data = b"defg"
    s.chunk = 3
    await passes(3)
    s.eof = True
    await passes(3)
    assert log == [b"abc", b"def", b"g", "eof", None]
    assert s.closed and not core.streams


async def test_nothing_comes_after_connection_lost():
    s = Pipe(b"abc")
    t, log = connected(s)
    t.abort()
    t.abort()
    t.close()
    assert log == []  # not before the caller is done
    await passes(2)
    t.resume_reading()
    t.set_write_buffer_limits(0)
    t.abort()
    await passes(3)
    assert log == [None] and s.closed and not core.streams


async def test_callbacks_run_before_the_next_task():
    s = Pipe()
    t, log = connected(s)

    async def other():
        log.append("other")

    s.data = b"x"
    asyncio.create_task(other())
    await passes(1)
    assert log == [b"x", "other"]


async def test_protocol_has_no_current_task():
    class P(Log):
        def data_received(self, data):
            raises(RuntimeError, asyncio.current_task)
            self.log.append("ok")

    t, log = connected(Pipe(b"x"), P())
    await passes(2)
    assert log == ["ok"]


async def test_sleeping_loop_calls_back_and_runs_what_that_makes_ready():
    event = asyncio.Event()
    s = Pipe()

    class First(Log):
        def data_received(self, data):
            s.data = b"x"

    class Second(Log):
        def data_received(self, data):
            event.set()

    connected(s, Second())
    await passes(2)
    connected(Pipe(b"1"), First())
    await asyncio.wait_for_ms(event.wait(), 2000)


async def test_pass_reads_a_bounded_part_of_each_stream():
    # Two streams that never end and a task get their turns.
    class Chatty(io.IOBase):
        def read(self, n):
            return bytes(n)

        def ioctl(self, req, arg):
            return 1 if req == 3 else -1

    log = []

    class P(asyncio.Protocol):
        def __init__(self, name):
            self.name = name

        def data_received(self, data):
            log.append(self.name)
            assert len(data) <= 16384

    a = asyncio.connect_stream(P("a"), Chatty())
    b = asyncio.connect_stream(P("b"), Chatty())
    await passes(2)
    log.clear()
    for _ in range(5):
        log.append("task")
        await asyncio.sleep_ms(0)
    assert log[::3] == ["task"] * 5
    assert [set(log[i + 1 : i + 3]) for i in range(0, 15, 3)] == [{"a", "b"}] * 5
    a.abort()
    b.abort()


async def test_paused_reading_stops_at_once():
    s = Pipe(b"abcd", chunk=1)

    class P(Log):
        def data_received(self, data):
            self.log.append(data)
            if data == b"b":
                self.transport.pause_reading()

    t, log = connected(s, P())
    await passes(5)
    assert log == [b"a", b"b"] and not core.streams
    t.pause_reading()
    s.eof = True
    t.resume_reading()
    t.resume_reading()
    await passes(5)
    assert log == [b"a", b"b", b"c", b"d", "eof", None]


async def test_paused_in_connection_made_receives_nothing():
    class P(Log):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    t, log = connected(Pipe(b"abc"), P())
    await passes(3)
    assert log == []
    t.resume_reading()
    await passes(2)
    assert log == [b"abc"]


async def test_pausing_and_closing_others_in_the_same_pass_stops_them():
    for stop in ("pause_reading", "close", "abort"):
        got = []

        class P(asyncio.Protocol):
            def data_received(self, data):
                got.append(self)
                for t in transports:
                    getattr(t, stop)()

        transports = [asyncio.connect_stream(P(), Pipe(b"x")) for _ in range(4)]
        await passes(4)
        assert len(got) == 1, stop
        for t in transports:
            t.abort()
    await passes(1)
    assert not core.streams


async def test_connections_made_and_lost_in_a_callback():
    # The poller changes under the poll.
    n = 0

    class P(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            nonlocal n
            n += 1
            self.transport.abort()
            if n < 50:
                for _ in range(3 if n < 10 else 1):
                    asyncio.connect_stream(P(), Pipe(b"x"))

    asyncio.connect_stream(P(), Pipe(b"x"))
    for _ in range(100):
        await passes(1)
    assert n > 50 and not core.streams


class Into(asyncio.BufferedProtocol):
    keep_open = False

    def __init__(self, size):
        self.log = []
        self.buf = bytearray(size)

    connection_made = Log.connection_made
    eof_received = Log.eof_received
    connection_lost = Log.connection_lost

    def get_buffer(self, sizehint):
        assert sizehint == -1
        return self.buf

    def buffer_updated(self, n):
        assert n > 0
        self.log.append(bytes(self.buf[:n]))


async def test_buffered_protocol_receives_into_its_own_buffer():
    s = Pipe(b"abcdefg")
    t, log = connected(s, Into(3))
    await passes(5)
    assert log == [b"abc", b"def", b"g"]
    s.eof = True
    await passes(3)
    assert log[3:] == ["eof", None]


async def test_empty_buffer_is_refused():
    reports = quiet()
    t, log = connected(Pipe(b"abc"), Into(0))
    await passes(3)
    assert len(log) == 1 and isinstance(log[0], RuntimeError) and reports == log


async def test_buffered_protocol_receives_with_the_heap_locked():
    class Stream(io.IOBase):
        n = 0

        def ioctl(self, req, arg):
            return int(self.n < 300) if req == 3 else -1

        def readinto(self, buf):
            self.n += 1
            return len(buf) if self.n % 3 else None

    class P(asyncio.BufferedProtocol):
        n = 0
        buf = memoryview(bytearray(64))

        def get_buffer(self, sizehint):
            return self.buf

        def buffer_updated(self, nbytes):
            self.n += nbytes

    s = Stream()
    p = P()
    asyncio.connect_stream(p, s)
    asyncio.connect_stream(P(), Stream())
    await passes(3)
    micropython.heap_lock()
    for _ in range(310):
        await asyncio.sleep_ms(0)
    micropython.heap_unlock()
    assert p.n == 200 * 64, p.n


async def test_stream_that_has_only_read():
    class ReadOnly(io.IOBase):
        data = b"abcdefg"

        def ioctl(self, req, arg):
            return 1 if req == 3 else -1

        def read(self, n):
            r = self.data[:n]
            self.data = self.data[n:]
            return r

    for p, pieces in ((Log(), [b"abcdefg"]), (Into(3), [b"abc", b"def", b"g"])):
        t, log = connected(ReadOnly(), p)
        await passes(5)
        assert log == pieces + ["eof", None]


async def test_uart_is_read_without_waiting():
    for p in (Log(), Into(4)):
        s = Uart(b"abc")
        s.events = 1  # though there is nothing, at times
        t, log = connected(s, p)
        await passes(2)
        s.data = b"def"
        await passes(3)
        assert log == [b"abc", b"def"]
        t.abort()
        await passes(1)


async def test_stream_that_says_only_whether_there_is_anything():
    s = Raw(b"abcdef")
    s.any = lambda: bool(s.data)  # as pyb.USB_VCP
    t, log = connected(s)
    await passes(1)
    assert log == [b"abcdef"]
    t.abort()


# The end


async def test_eof_received_decides_whether_the_write_side_stays_open():
    for keep in (False, None, True):
        p = Log()
        p.keep_open = keep
        s = Pipe()
        t, log = connected(s, p)
        s.eof = True
        await passes(5)
        t.write(b"x" if keep else b"")
        assert t.is_closing() == (not keep)
        assert log == (["eof"] if keep else ["eof", None])
        assert s.closed == (not keep) and not core.streams
        t.pause_reading()
        t.resume_reading()
        await passes(3)
        assert log.count("eof") == 1
        t.close()
        await passes(2)
        assert log == ["eof", None]
        assert s.sent == (b"x" if keep else b"")


async def test_error_of_a_read_reaches_connection_lost():
    reports = quiet()
    for p in (Log(), Into(3)):
        s = Pipe()
        t, log = connected(s, p)
        s.error = OSError(errno.ECONNRESET)
        await passes(3)
        assert log == [s.error] and s.closed and not core.streams
    assert not reports


async def test_error_of_a_write_reaches_connection_lost():
    s = Pipe()
    t, log = connected(s)
    s.error = OSError(errno.ECONNRESET)
    t.write(b"x")
    assert log == [] and t.is_closing()  # not before the caller is done
    await passes(2)
    assert log == [s.error] and s.closed and not core.streams


async def test_error_of_a_later_write_reaches_connection_lost():
    s = Pipe(room=0)
    t, log = connected(s)
    t.pause_reading()
    t.write(b"x")
    s.error = OSError(errno.ECONNRESET)
    await passes(3)
    assert log == [s.error] and s.closed and not core.streams


async def test_hang_up_reaches_connection_lost():
    for p in (Log(), Into(3)):
        s = Pipe(b"abcde", chunk=3, room=0)
        s.events = 16
        t, log = connected(s, p)
        t.write(b"x")
        await passes(5)
        assert log[:2] == [b"abc", b"de"]
        assert log[2].errno == errno.ECONNRESET and len(log) == 3
    # Also while only a write is waited for.
    s = Pipe(room=0)
    t, log = connected(s)
    t.write(b"x")
    t.pause_reading()
    await passes(3)
    assert log == []
    s.events = 16
    await passes(3)
    assert log[0].errno == errno.ECONNRESET and len(log) == 1 and not core.streams


async def test_poll_that_raises_reaches_connection_lost():
    class Bad(Pipe):
        def ioctl(self, req, arg):
            if req == 3 and self.error:
                raise self.error
            return super().ioctl(req, arg)

    reports = quiet()
    s = Bad()
    t, log = connected(s)
    good, others = connected(Pipe(b"x"))
    await passes(2)
    s.error = ValueError("poll")
    await passes(3)
    assert len(log) == 1 and isinstance(log[0], (ValueError, OSError))
    assert others == [b"x"] and len(core.streams) == 1 and not reports


async def test_callback_that_raises_oserror_is_reported():
    # It is not taken for the stream's.
    class Data(Log):
        def data_received(self, data):
            raise OSError(errno.EIO)

    class Buffer(Log):
        def get_buffer(self, sizehint):
            raise OSError(errno.EIO)

    reports = quiet()
    for cls in (Data, Buffer):
        s = Pipe(b"abc")
        t, log = connected(s, cls())
        await passes(3)
        assert len(reports) == 1 and log == reports and s.closed
        reports.clear()


def test_interrupt_in_a_callback_ends_run():
    class P(Log):
        def data_received(self, data):
            raise KeyboardInterrupt

    async def main():
        asyncio.create_task(other())
        await passes(1)
        logs.append(connected(Pipe(b"abc"), P())[1])
        logs.append(connected(Pipe(room=0))[1])
        await asyncio.Event().wait()

    async def other():
        try:
            await asyncio.Event().wait()
        finally:
            t, log = connected(Pipe(b"def"))
            await passes(3)
            logs.append(log)

    logs = []
    for _ in range(2):
        raises(KeyboardInterrupt, asyncio.run, main())
        assert logs == [[None], [None], [b"def", None]], logs
        logs.clear()


class Raises(Log):
    # In one callback.
    def __init__(self, where):
        super().__init__()
        self.where = where

    def check(self, what):
        if self.where == what:
            raise ValueError(what)

    def connection_made(self, transport):
        super().connection_made(transport)
        self.check("connection_made")

    def data_received(self, data):
        super().data_received(data)
        self.check("data_received")

    def eof_received(self):
        super().eof_received()
        self.check("eof_received")

    def pause_writing(self):
        super().pause_writing()
        self.check("pause_writing")

    def resume_writing(self):
        super().resume_writing()
        self.check("resume_writing")

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.check("connection_lost")


async def test_exception_in_a_callback_closes_that_transport_only():
    reports = quiet()
    bystander = Pipe()
    _, others = connected(bystander)
    for where, before in (
        ("connection_made", []),
        ("data_received", [b"abc"]),
        ("eof_received", [b"abc", "eof"]),
        ("pause_writing", ["pause"]),
        ("resume_writing", [b"abc", "pause", "resume"]),
        ("connection_lost", [b"abc", "eof"]),
    ):
        s = Pipe(b"abc")
        s.eof = where in ("eof_received", "connection_lost")
        s.room = 0
        t, log = connected(s, Raises(where))
        t.set_write_buffer_limits(4)
        if "resume" in before:
            await passes(2)
        if "pause" in before:
            t.write(b"12345")
            s.room = 100
        await passes(5)
        assert len(reports) == 1 and reports[0].args == (where,), where
        exc = log.pop()
        assert log == before, (where, log)
        assert exc is (None if where == "connection_lost" else reports[0]), (where, exc)
        assert s.closed and len(core.streams) == 1, where
        reports.clear()
        others.clear()
        bystander.data = b"x"
        await passes(2)
        assert others == [b"x"], where


async def test_report_has_the_traceback():
    out = io.StringIO()
    import sys

    def handler(loop, context):
        sys.print_exception(context["exception"], out)

    asyncio.get_event_loop().set_exception_handler(handler)
    asyncio.connect_stream(Raises("data_received"), Pipe(b"abc"))
    await passes(3)
    assert "in data_received" in out.getvalue()


async def test_close_in_a_callback_is_not_answered_inside_it():
    class P(Log):
        def data_received(self, data):
            self.transport.write(b"bye")
            self.transport.close()
            self.log.append("closed")

    s = Pipe(b"abc")
    t, log = connected(s, P())
    await passes(3)
    assert log == ["closed", None] and s.sent == b"bye"


async def test_write_after_close_warns_once_and_drops():
    err = quiet_stderr()
    s = Pipe()
    t, log = connected(s)
    t.write(b"a")
    t.close()
    assert t.is_closing()
    t.write(b"b")
    t.writelines([b"c"])
    await passes(2)
    t.write(b"d")
    assert log == [None] and s.sent == b"a" and t.get_write_buffer_size() == 0
    assert err.getvalue().count("\n") == 1


async def test_stream_without_close_is_left_open():
    s = Uart()
    t, log = connected(s)
    t.close()
    await passes(2)
    assert log == [None] and not s.closed
    t, log = connected(s)
    s.data = b"x"
    await passes(2)
    assert log == [b"x"]


# Writing


async def test_write_is_tried_at_once_and_once():
    s = Pipe()
    t, _ = connected(s)
    t.write(b"abc")
    assert s.sent == b"abc" and s.writes == 1
    t.writelines([b"d", bytearray(b"e"), memoryview(b"f")])
    assert s.sent == b"abcdef" and s.writes == 2
    t.write(b"")
    t.writelines([])
    await passes(3)
    assert s.writes == 2


async def test_only_the_rest_is_buffered_and_sent_in_order():
    for big in (1, 300):
        for kind in (bytes, bytearray, memoryview):
            s = Pipe(room=2)
            t, _ = connected(s)
            buf = bytearray(b"abcd" * big)
            expected = bytes(buf)
            t.write(kind(bytes(buf)) if kind is bytes else kind(buf))
            buf[0:4] = b"----"  # the caller may use it again
            assert s.sent == b"ab" and t.get_write_buffer_size() == 4 * big - 2
            for i in range(9):
                t.write(b"%d" % i * big)
                expected += b"%d" % i * big
            assert s.writes == 1
            while t.get_write_buffer_size():
                s.room = 3 * big
                await passes(1)
            assert s.sent == expected
            s.room = 100
            t.write(b"x")
            assert s.sent == expected + b"x"
            t.abort()


async def test_small_pieces_are_sent_together():
    # But for the one that was refused: TLS must get that again as it was.
    s = Pipe(room=0)
    t, _ = connected(s)
    for i in range(100):
        t.write(b"%d" % (i % 10))
    n = s.writes
    s.room = 1000
    await passes(2)
    assert s.sent == b"0123456789" * 10 and s.writes == n + 2


async def test_large_bytes_are_not_copied():
    import gc

    s = Pipe(room=0)
    t, _ = connected(s)
    big = bytes(3000)
    t.set_write_buffer_limits(10000)
    t.write(b"x")
    gc.collect()
    before = gc.mem_alloc()
    t.write(big)
    t.write(big)
    gc.collect()
    assert gc.mem_alloc() - before < 1000
    assert t.get_write_buffer_size() == 6001


async def test_unlimited_writes_are_refused():
    # One piece many times, so that it takes no memory.
    s = Pipe(room=0)
    t, log = connected(s)
    big = bytes(4096)
    for i in range(18):
        t.write(big)
    assert raises(OSError, t.write, b"x").errno == errno.ENOBUFS
    assert t.get_write_buffer_size() == 18 * 4096
    t.set_write_buffer_limits(100000)
    t.write(b"x")
    assert t.get_write_buffer_size() == 18 * 4096 + 1


async def test_water_marks_call_once_a_crossing():
    s = Pipe(room=0)
    t, log = connected(s)
    t.set_write_buffer_limits(10, 4)
    t.write(b"1" * 10)
    assert log == []
    t.write(b"2")
    assert log == ["pause"]
    t.write(b"3" * 10)
    assert log == ["pause"]
    s.room = 16
    await passes(2)
    assert t.get_write_buffer_size() == 5 and log == ["pause"]
    s.room = 1
    await passes(2)
    assert log == ["pause", "resume"]
    t.write(b"4" * 7)
    assert log == ["pause", "resume", "pause"]
    s.room = 100
    await passes(2)
    assert log == ["pause", "resume"] * 2


async def test_limits():
    s = Pipe(room=0)
    t, log = connected(s)
    t.write(b"123")
    raises(ValueError, t.set_write_buffer_limits, 3, 4)
    raises(ValueError, t.set_write_buffer_limits, -1)
    t.set_write_buffer_limits(low=1)
    assert log == []
    t.set_write_buffer_limits(0)
    assert log == ["pause"]
    s.room = 2
    await passes(2)
    assert log == ["pause"]
    s.room = 1
    await passes(2)
    assert log == ["pause", "resume"]


async def test_writes_in_resume_writing_go_on_in_order():
    class P(Log):
        left = 3

        def resume_writing(self):
            super().resume_writing()
            if self.left:
                self.left -= 1
                self.transport.write(b"%d" % self.left * 3)

    s = Pipe(room=0)
    t, log = connected(s, P())
    t.set_write_buffer_limits(0)
    t.write(b"abc")
    for _ in range(6):
        s.room = 2
        await passes(2)
    assert s.sent == b"abc222111000" and log == ["pause", "resume"] * 4


async def test_close_sends_what_is_buffered():
    s = Pipe(room=0)
    t, log = connected(s)
    t.write(b"abc")
    t.close()
    s.data = b"x"  # is not received any more
    await passes(3)
    assert log == [] and t.is_closing() and not s.closed
    s.room = 100
    await passes(2)
    assert log == [None] and s.sent == b"abc" and s.closed and not core.streams


async def test_abort_drops_what_is_buffered():
    for closed in (False, True):
        s = Pipe(room=0)
        t, log = connected(s)
        t.write(b"abc")
        if closed:
            t.close()
        t.abort()
        s.room = 100
        await passes(2)
        assert log == [None] and s.sent == b"" and s.closed and not core.streams
        assert t.get_write_buffer_size() == 0


async def test_wrong_arguments_are_named_at_the_call():
    s = Pipe()
    t, log = connected(s)
    for data in ("abc", 5, None, [1]):
        raises(TypeError, t.write, data, match="data")
        raises(TypeError, t.writelines, [b"abc", data], match="data")
    assert s.sent == b"" and log == []

    class NoStream:
        def read(self, n):
            pass

    raises(TypeError, asyncio.connect_stream, Log(), NoStream(), match="polled")
    raises(AttributeError, asyncio.connect_stream, Log(), 5, match="read")
    raises(TypeError, asyncio.connect_stream, Into(3), NoStream(), match="polled")
    t, log = connected(Pipe(b"x"))
    await passes(2)
    assert log == [b"x"]


# The loop


async def test_stream_belongs_to_a_transport_or_to_tasks():
    s = Pipe()
    t, log = connected(s)
    reader = asyncio.StreamReader(s)
    await araises(RuntimeError, reader.read(1))
    s.room = 0
    reader.write(b"x")
    await araises(RuntimeError, reader.drain())
    raises(RuntimeError, asyncio.connect_stream, Log(), s)
    t.abort()
    task = asyncio.create_task(reader.read(1))
    await passes(2)
    raises(RuntimeError, asyncio.connect_stream, Log(), s)
    task.cancel()
    await passes(2)
    assert not core.streams


def test_run_does_not_wait_for_transports():
    # Whatever they do; but connection_lost is called.
    logs = []

    async def main(how):
        for s in (Pipe(), Pipe(room=0), Pipe(room=0), Pipe()):
            t, log = connected(s)
            logs.append(log)
            if not s.room:
                t.write(b"abc")
            if how:
                getattr(t, how)()

    for how in (None, "close", "abort", "pause_reading"):
        asyncio.run(main(how))
        assert logs == [[None]] * 4, how
        logs.clear()
        assert not core.streams


def test_run_that_raises_closes_transports():
    async def main():
        logs.append(connected(Pipe())[1])
        raise ValueError

    logs = []
    raises(ValueError, asyncio.run, main())
    assert logs == [[None]]


def test_tasks_that_are_cancelled_by_run_can_still_write():
    s = Pipe()

    async def task(t):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep_ms(1)
            t.write(b"bye")

    async def main():
        t, _ = connected(s)
        asyncio.create_task(task(t))
        await asyncio.sleep_ms(0)

    asyncio.run(main())
    assert s.sent == b"bye" and s.closed


def test_what_connection_lost_starts_ends_with_run():
    async def task():
        out.append("started")
        await asyncio.sleep_ms(10000)

    class P(Log):
        def connection_lost(self, exc):
            asyncio.create_task(task())

    async def main():
        connected(Pipe(), P())

    out = []
    asyncio.run(main())
    assert not core.tasks and out == []


def test_connections_that_close_each_other_at_the_end_are_lost_once():
    class P(Log):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            for t in transports:
                t.close()

    async def main():
        for _ in range(3):
            t, log = connected(Pipe(), P())
            transports.append(t)
            logs.append(log)

    transports = []
    logs = []
    asyncio.run(main())
    asyncio.run(passes(2))
    assert logs == [[None]] * 3


def test_new_event_loop_closes_transports():
    async def main():
        logs.append(connected(Pipe())[1])

    logs = []
    asyncio.get_event_loop().run_until_complete(main())
    assert logs == [[]]
    asyncio.new_event_loop()
    assert logs == [[None]] and not core.streams


def test_stream_is_connected_before_run():
    s = Pipe(b"abc")
    t, log = connected(s)

    async def main():
        await passes(2)

    asyncio.run(main())
    assert log == [b"abc", None]
