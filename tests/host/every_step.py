# test_every_step.py sends this to MicroPython, with a copy of the package in which each step can
# raise.

import os
import socket
import sys
from _thread import start_new_thread

import steps

import asyncio_alt as asyncio


async def stubborn(n):
    while n:
        try:
            await asyncio.sleep_ms(0)
        except asyncio.CancelledError:
            n -= 1


# Scenarios: each is run with an exception at its 1st, 2nd, ... step.


async def plain():
    event = asyncio.Event()
    lock = asyncio.Lock()
    queue = asyncio.Queue(1)

    async def other():
        await event.wait()
        async with lock:
            await queue.put(1)
        raise ValueError

    task = asyncio.create_task(other())
    async with lock:
        await asyncio.sleep_ms(0)
        event.set()
        await asyncio.sleep_ms(1)
    assert await queue.get() == 1
    try:
        await task
    except ValueError:
        pass
    await asyncio.gather(worker(), worker())


async def worker():
    await asyncio.sleep_ms(0)


async def end():
    event = asyncio.Event()
    for coro in (event.wait(), stubborn(1), fails(), finally_waits()):
        asyncio.create_task(coro)
    await asyncio.sleep_ms(0)


async def fails():
    await asyncio.sleep_ms(0)
    raise OSError


async def finally_waits():
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep_ms(0)


async def bell():
    flag = asyncio.ThreadSafeFlag()
    task = asyncio.create_task(flag.wait())
    await asyncio.sleep_ms(0)
    flag.set()
    await task
    flag.set()
    await flag.wait()
    event = asyncio.Event()
    asyncio.Loop.call_soon_threadsafe(event.set)
    await event.wait()
    try:
        await asyncio.wait_for(flag.wait(), 0.001)
    except asyncio.TimeoutError:
        pass


async def streams():
    port = free_port()
    server = socket.socket()
    client = socket.socket()
    try:
        server.bind(socket.getaddrinfo("127.0.0.1", port)[0][-1])
        server.listen(1)
        client.connect(socket.getaddrinfo("127.0.0.1", port)[0][-1])
        peer = server.accept()[0]
        try:
            client.setblocking(False)
            peer.setblocking(False)
            reader = asyncio.StreamReader(client)
            writer = asyncio.StreamWriter(peer)
            task = asyncio.create_task(reader.readexactly(2))
            await asyncio.sleep_ms(0)
            writer.write(b"ab")
            await writer.drain()
            assert await task == b"ab"
        finally:
            peer.close()
    finally:
        server.close()
        client.close()


# This must work afterwards.


async def works():
    flag = asyncio.ThreadSafeFlag()
    event = asyncio.Event()

    def thread():
        flag.set()
        loop.call_soon_threadsafe(event.set)

    loop = asyncio.get_event_loop()
    waits = asyncio.create_task(flag.wait())
    await asyncio.sleep_ms(0)
    start_new_thread(thread, ())
    await waits
    await event.wait()
    await plain()
    await asyncio.sleep_ms(1)
    return "ok"


async def limited(coro, s):
    return await asyncio.wait_for(coro, s)


def count(scenario):
    # How many steps it has.
    steps.exc = None
    steps.left = 1 << 29
    asyncio.run(scenario())
    n = (1 << 29) - steps.left
    steps.left = 0
    return n


def sweep(exception, scenario, tries, limit=0.05):
    # The exception at `tries` of the steps, and a next run() that must work.
    asyncio.Loop.set_exception_handler(lambda loop, context: None)
    asyncio.end_limit(20)
    asyncio.run(scenario())
    total = count(scenario)
    stride = max(1, total // tries)
    for n in range(1, total, stride):
        steps.exc = exception()
        steps.left = n
        seen = None
        try:
            asyncio.run(limited(scenario(), limit))
        except BaseException as er:
            seen = er
        steps.left = 0
        try:
            assert asyncio.run(limited(works(), 5)) == "ok"
            if scenario not in (plain, end, bell):
                asyncio.run(limited(scenario(), 10))
        except BaseException as er:
            print("step", n, "raised", repr(seen))
            sys.print_exception(steps.exc)
            print("and then the next run():")
            sys.print_exception(er)
            raise SystemExit(1)
    print(total)


# A full heap. A report ends the scenario, as what it waits for may not come any more.

reports = 0
victim = None


def reported(loop, context):
    global reports
    reports += 1
    if victim and victim is not asyncio.core.cur_task:
        victim.cancel()


def no_memory(er):
    if isinstance(er, asyncio.BaseExceptionGroup) or isinstance(er, asyncio.ExceptionGroup):
        return all(isinstance(er, asyncio.CancelledError) or no_memory(er) for er in er.exceptions)
    return isinstance(er, MemoryError)


def descriptors():
    return len(os.listdir("/dev/fd"))


async def twice(scenario, n):
    # Once with a full heap at the n-th step, then without. Returns how the first has ended, and
    # whether it came so far.
    global victim
    seen = None
    try:
        victim = asyncio.create_task(scenario())
        steps.left = n
        await asyncio.wait_for(victim, 3)
    except BaseException as er:
        seen = er
    reached = not steps.left
    steps.left = 0
    steps.step_over()
    victim = None
    await asyncio.sleep_ms(5)
    before = reports
    await asyncio.wait_for(scenario(), 10)
    assert reports == before, "a report of the second"
    return seen, reached


def full_heap(scenario, tries):
    # At `tries` of the steps the heap is full up to the next one: it goes right all the same, or
    # somebody is told; and the loop goes on.
    global reports
    asyncio.Loop.set_exception_handler(reported)
    asyncio.run(scenario())
    total = count(scenario)
    stride = max(1, total // tries)
    opened = descriptors()
    n = 0
    reached = True
    while reached:
        n += stride
        reports = 0
        seen = None
        try:
            seen, reached = asyncio.run(twice(scenario, n))
            assert not seen or reports or no_memory(seen), seen
            assert descriptors() == opened, (seen, "leaves a descriptor open")
        except BaseException as er:
            steps.step_over()
            print("step", n, "after")
            sys.print_exception(seen or er)
            print("and then:")
            sys.print_exception(er)
            raise SystemExit(1)
    print(total)
