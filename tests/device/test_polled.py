# with: tasks
# readable(), writable(), Loop.add_reader() and the like, on a stream in memory.

import io

import asyncio_alt as asyncio
from asyncio_alt import core

loop = asyncio.get_event_loop()


class Pipe(io.IOBase):
    # Can be read while there are `items`, written while there is `room`.
    def __init__(self):
        self.items = []
        self.room = 0
        self.broken = False

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        if self.broken:
            raise OSError(5)
        return ((1 if self.items else 0) | (4 if self.room else 0)) & arg


def reported():
    reports = []
    loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    return reports


async def test_readable_and_writable_wait_for_their_own_side():
    pipe = Pipe()
    log = []

    async def wait(name, awaitable):
        await awaitable
        log.append(name)

    r = asyncio.create_task(wait("r", asyncio.readable(pipe)))
    w = asyncio.create_task(wait("w", asyncio.writable(pipe)))
    await passes(3)
    assert not log
    await araises(RuntimeError, asyncio.readable(pipe, priority=True), match="another task")
    await araises(RuntimeError, asyncio.writable(pipe), match="another task")
    w.cancel()
    pipe.items.append(1)
    await r
    assert log == ["r"]
    await asyncio.readable(pipe, priority=True)
    pipe.items.clear()
    await araises(asyncio.TimeoutError, asyncio.wait_for_ms(asyncio.readable(pipe), 5))
    await araises(TypeError, asyncio.readable(7.5))
    assert not core._io_queue.map


async def test_reader_and_writer_are_called_until_removed():
    pipe = Pipe()
    log = []

    def reader(x):
        assert core.cur_task is None
        log.append((x, pipe.items.pop(0)))
        if not pipe.items:
            assert loop.remove_writer(pipe) is True

    loop.add_reader(pipe, reader, "a")
    loop.add_writer(pipe, log.append, "w")
    pipe.items.extend([1, 2])
    await passes(5)
    assert log == [("a", 1), ("a", 2)], log
    pipe.room = 1
    await passes(3)
    assert len(log) == 2
    loop.add_reader(pipe, reader, "b")  # in place of the old one
    pipe.items.append(3)
    await passes(3)
    assert log[2:] == [("b", 3)]
    await araises(RuntimeError, asyncio.readable(pipe))
    await asyncio.writable(pipe)  # the other side is free
    assert loop.remove_reader(pipe) is True
    assert loop.remove_reader(pipe) is False and loop.remove_writer(pipe) is False
    pipe.items.append(4)
    await passes(3)
    assert len(log) == 3 and not core._io_queue.map
    raises(TypeError, loop.add_reader, pipe, None, match="callback")
    raises(TypeError, loop.add_reader, 7.5, print)
    assert loop.remove_reader(7.5) is False


async def test_callback_removed_while_it_is_ready_is_not_called():
    a, b = Pipe(), Pipe()
    log = []

    def first(other):
        log.append(1)
        loop.remove_reader(a)
        loop.remove_reader(b)

    loop.add_reader(a, first, b)
    loop.add_reader(b, first, a)
    a.items.append(1)
    b.items.append(1)
    await passes(4)
    assert log == [1] and not core._io_queue.map


async def test_callback_that_raises_is_reported_and_called_again():
    reports = reported()
    pipe = Pipe()
    loop.add_reader(pipe, lambda: pipe.items.pop().x)
    pipe.items.extend([1, 2])
    await passes(5)
    assert [type(er) for er in reports] == [AttributeError] * 2, reports
    assert loop.remove_reader(pipe) is True


async def test_callback_of_a_stream_that_fails_is_reported_and_removed():
    reports = reported()
    pipe = Pipe()
    loop.add_reader(pipe, print, "not called")
    pipe.broken = True
    await passes(3)
    assert [er.errno for er in reports] == [5], reports
    assert loop.remove_reader(pipe) is False


def test_callbacks_end_with_run():
    pipe = Pipe()
    log = []

    async def main():
        loop.add_reader(pipe, log.append, 1)
        await passes(1)

    async def again():
        pipe.items.append(1)
        await passes(3)
        assert loop.remove_reader(pipe) is False
        loop.add_reader(pipe, log.append, 2)
        await passes(2)

    asyncio.run(main())
    asyncio.run(again())
    assert set(log) == {2}, log
