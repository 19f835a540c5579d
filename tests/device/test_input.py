# Bad input: an exception at the call that names the error, and a loop that goes on.

import io

import asyncio_alt as asyncio
from asyncio_alt import StreamReader, create_task, sleep_ms


class Source(io.IOBase):
    # A stream; its poll gives the result of `poll`.
    def __init__(self, poll=lambda: 0):
        self.poll = poll

    def ioctl(self, req, arg):
        return self.poll() if req == 3 else -1

    def read(self, n):
        return b"x"


def fail():
    raise ValueError("in ioctl")


async def stuff():
    await sleep_ms(0)
    return 1


async def goes_on():
    # The loop runs tasks, sleeps and polls.
    assert await create_task(stuff()) == 1
    assert await StreamReader(Source(lambda: 1)).read(1) == b"x"
    await sleep_ms(2)


class Bystander:
    # Another task that waits for another stream, which must not notice.
    def __init__(self):
        self.ready = 0
        self.task = create_task(StreamReader(Source(lambda: self.ready)).read(1))

    async def unharmed(self):
        await goes_on()
        assert not self.task.done()
        self.ready = 1
        assert await asyncio.wait_for(self.task, 1) == b"x"


async def test_sleep_wants_a_number():
    for delay in ("x", None, [], object()):
        raises(TypeError, asyncio.sleep, delay, match="sleep")
        raises(TypeError, sleep_ms, delay, match="sleep")
    raises(TypeError, sleep_ms, 1.5, match="sleep")
    raises(Exception, asyncio.sleep, float("inf"))
    await goes_on()


async def test_negative_sleep_is_no_sleep():
    # As in stock, which relies on it in its tests; but the others run meanwhile.
    t = create_task(stuff())
    await sleep_ms(-1000000)
    await asyncio.sleep(-1)
    await asyncio.sleep(-0.5)
    await sleep_ms(0)
    assert t.done()


async def test_what_is_no_coroutine_cannot_be_a_task():
    """Stock refuses objects without send(), too."""
    for bad in (5, None, stuff, "x", sleep_ms):
        raises(TypeError, create_task, bad, match="coroutine expected")
        raises(TypeError, asyncio.get_event_loop().create_task, bad, match="coroutine expected")
        await araises(TypeError, asyncio.wait_for(bad, 1), match="coroutine expected")
        await araises(TypeError, asyncio.gather(bad), match="coroutine expected")
    await goes_on()


def test_run_wants_a_coroutine():
    for bad in (5, None, stuff, "x"):
        raises(TypeError, asyncio.run, bad, match="coroutine expected")
    asyncio.run(goes_on())


async def test_gather_of_a_good_and_a_bad_one_lets_the_good_one_be():
    t = create_task(stuff())
    await araises(TypeError, asyncio.gather(t, 5), match="coroutine expected")
    assert await t == 1


async def test_object_without_ioctl_is_no_stream():
    """Stock: OSError at the await, and the poller is left broken: the next poll crashes the
    interpreter (segmentation fault)."""
    other = Bystander()
    await sleep_ms(0)
    for bad in (object(), io.StringIO, 5.5, "x"):
        s = StreamReader(bad)
        await araises(TypeError, s.read(1), match="cannot be polled")
        await araises(TypeError, s.readinto(bytearray(1)), match="cannot be polled")
    await other.unharmed()


async def test_ioctl_that_raises_raises_in_its_waiter():
    """Stock: comes out of run()."""
    other = Bystander()
    t = create_task(StreamReader(Source(fail)).read(1))
    await araises(ValueError, t, match="in ioctl")
    await other.unharmed()


async def test_ioctl_that_begins_to_raise_raises_in_its_waiter():
    other = Bystander()
    bad = Source()
    t = create_task(StreamReader(bad).read(1))
    await sleep_ms(1)
    bad.poll = fail
    await araises(ValueError, t, match="in ioctl")
    await other.unharmed()


async def test_ioctl_that_raises_once_is_reported_and_its_waiter_goes_on():
    """Stock: comes out of run()."""
    reports = []
    asyncio.get_event_loop().set_exception_handler(lambda _, context: reports.append(context))
    other = Bystander()
    flaky = Source()
    t = create_task(StreamReader(flaky).read(1))
    await sleep_ms(1)

    def fail_once():
        flaky.poll = lambda: 1
        fail()

    flaky.poll = fail_once
    assert await asyncio.wait_for(t, 1) == b"x"
    assert len(reports) == 1 and isinstance(reports[0]["exception"], ValueError)
    await other.unharmed()


async def test_ioctl_that_raises_for_a_writer_raises_there():
    class Bad(Source):
        def ioctl(self, req, arg):
            if req == 3 and arg & 4:
                fail()
            return 0 if req == 3 else -1

        def write(self, buf):
            return 0

    other = Bystander()
    w = asyncio.StreamWriter(Bad())
    w.write(b"x")
    await araises(ValueError, w.drain(), match="in ioctl")
    await other.unharmed()


async def test_ioctl_that_raises_at_once_raises_at_the_await():
    class Bad(Source):
        def ioctl(self, req, arg):
            fail()

    other = Bystander()
    await sleep_ms(0)
    # Where it is asked for its descriptor first, it cannot be polled: a TypeError.
    await araises((TypeError, ValueError), StreamReader(Bad()).read(1), match="in ioctl")
    await other.unharmed()


async def test_ioctl_that_returns_no_number_raises_in_its_waiter():
    """Stock: comes out of run()."""
    other = Bystander()
    for nonsense in ("x", None, 1.5):
        t = create_task(StreamReader(Source(lambda: nonsense)).read(1))
        await araises(TypeError, t)
    await other.unharmed()


async def test_ioctl_that_reports_an_error_raises_in_its_waiter():
    # A negative number is an error number.
    other = Bystander()
    t = create_task(StreamReader(Source(lambda: -5)).read(1))
    await araises(OSError, t)
    await other.unharmed()


async def test_ioctl_that_returns_every_bit_wakes_its_waiter():
    other = Bystander()
    assert await StreamReader(Source(lambda: 0xFFF8)).read(1) == b"x"
    await other.unharmed()


async def test_second_waiter_on_a_side_is_refused():
    """Stock: where it is frozen without asserts the first waiter hangs for ever."""
    s = StreamReader(Source())
    t = create_task(s.read(1))
    await sleep_ms(0)
    await araises(RuntimeError, StreamReader(s.s).read(1), match="another task waits to read")
    s.s.poll = lambda: 1
    assert await asyncio.wait_for(t, 1) == b"x"


@needs("sockets")
async def test_closed_socket_raises_at_the_await():
    """Stock on unix: waits for ever."""
    import socket

    other = Bystander()
    s = socket.socket()
    s.close()
    r = StreamReader(s)
    for wait in (r.read(1), r.readline(), r.readexactly(1), r.readinto(bytearray(1))):
        await araises(OSError, asyncio.wait_for(wait, 2))
    raises(OSError, r.write, b"x")
    await other.unharmed()


@needs("sockets")
async def test_socket_closed_under_its_reader_raises_there():
    """Stock on unix: the same, by way of the poll."""
    import socket

    other = Bystander()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    t = create_task(StreamReader(s).read(1))
    await sleep_ms(5)
    s.close()
    await araises(OSError, asyncio.wait_for(t, 2))
    await other.unharmed()


async def test_callbacks_and_handlers_must_be_callable():
    loop = asyncio.get_event_loop()
    raises(TypeError, loop.call_soon_threadsafe, 5, match="callback")
    raises(TypeError, loop.call_soon_threadsafe, None, match="callback")
    raises(TypeError, loop.set_exception_handler, 5, match="handler")
    assert loop.get_exception_handler() is None
    await goes_on()


async def test_queue_wants_a_size():
    raises(TypeError, asyncio.Queue, "x", match="maxsize")
    raises(TypeError, asyncio.Queue, None, match="maxsize")
    await goes_on()


async def test_timeout_must_be_a_number():
    for timeout in ("x", [], object()):
        await araises(TypeError, asyncio.wait_for(stuff(), timeout), match="must be a number")
    await goes_on()


def test_unknown_name_is_an_attribute_error():
    raises(AttributeError, getattr, asyncio, "no_such_name", match="no_such_name")
