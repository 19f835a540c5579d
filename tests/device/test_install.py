# One asyncio in a program: install(), and programs without it.

import sys
import time


def stock():
    # The stock package, where the target has it; there must be nothing of ours yet.
    try:
        import asyncio
    except ImportError:
        return None
    return None if hasattr(asyncio, "roundrobin") else asyncio


def test_after_install_every_spelling_means_this_package():
    import asyncio_alt

    asyncio_alt.install()
    import asyncio
    import asyncio.core
    import asyncio.event
    from asyncio import Event, wait_for
    from asyncio.funcs import gather
    from asyncio.queue import Queue

    import uasyncio
    from uasyncio.core import sleep_ms

    assert asyncio is uasyncio is asyncio_alt
    assert asyncio.core is asyncio_alt.core
    assert Event is asyncio.event.Event is asyncio_alt.Event
    assert gather is asyncio_alt.gather and wait_for is asyncio_alt.wait_for
    assert Queue is asyncio_alt.Queue and sleep_ms is asyncio_alt.sleep_ms
    # Unused modules are not loaded, and no module is there twice.
    names = [name for name in sys.modules if name.startswith("asyncio_alt.")]
    assert "asyncio_alt.lock" not in names and "asyncio_alt.stream" not in names
    modules = {id(m): m for m in sys.modules.values() if type(m) is type(sys)}
    files = [m.__file__ for m in modules.values() if hasattr(m, "__file__")]
    assert len(set(files)) == len(files), files
    asyncio.run(asyncio.wait_for(gather(), 1))


def test_after_install_a_loaded_submodule_is_ours():
    import asyncio_alt

    asyncio_alt.Event  # loads it
    asyncio_alt.install()
    asyncio_alt.install()
    import asyncio.event
    from asyncio.event import ThreadSafeFlag

    assert asyncio.event is asyncio_alt.event
    assert ThreadSafeFlag is asyncio_alt.ThreadSafeFlag


@needs("c-tasks")
def test_install_takes_the_place_of_an_imported_stock_package():
    old = stock()
    if old:
        old.Event, old.Lock  # loads them
    import asyncio_alt

    asyncio_alt.install()
    import asyncio.event
    from asyncio.lock import Lock

    assert asyncio is asyncio_alt
    assert asyncio.event.Event is asyncio_alt.Event
    assert Lock is asyncio_alt.Lock


@needs("c-tasks")
def test_install_is_refused_when_the_stock_package_has_a_task():
    asyncio = stock()
    if not asyncio:
        return

    async def main():
        await asyncio.sleep_ms(1)
        return 1

    t = asyncio.create_task(main())
    import asyncio_alt

    raises(RuntimeError, asyncio_alt.install, match="install()")
    coro = main()
    raises(RuntimeError, asyncio_alt.create_task, coro, match="install()")
    raises(RuntimeError, asyncio_alt.run, coro, match="install()")
    raises(RuntimeError, asyncio_alt.get_event_loop().run_forever, match="install()")
    assert asyncio.run_until_complete(t) == 1
    # Now it has no tasks.
    asyncio_alt.install()


@needs("c-tasks")
def test_stock_names_in_our_loop_are_refused():
    """Without the refusal most of these crash the interpreter."""
    asyncio = stock()
    if not asyncio:
        return
    import io

    import asyncio_alt

    class Never(io.IOBase):
        def ioctl(self, req, arg):
            return 0 if req == 3 else -1

        def read(self, n):
            pass

    async def wait(awaitable):
        await awaitable

    async def held():
        lock = asyncio.Lock()
        await lock.acquire()
        await lock.acquire()

    async def stuff():
        pass

    async def main():
        loop = asyncio.get_event_loop()
        coro = stuff()
        for fn, *args in (
            (asyncio.create_task, coro),
            (asyncio.run, coro),
            (loop.create_task, coro),
            (loop.run_until_complete, coro),
            (loop.run_forever,),
            (asyncio.current_task,),
            (asyncio.new_event_loop,),
            (early[0], coro),
            (early[1], coro),
        ):
            raises(RuntimeError, fn, *args, match="install()")
        for make in (
            lambda: asyncio.sleep_ms(1),
            lambda: early[2](1),
            lambda: asyncio.Event().wait(),
            lambda: asyncio.ThreadSafeFlag().wait(),
            lambda: asyncio.StreamReader(Never()).read(1),
            lambda: asyncio.gather(stuff(), stuff()),
            lambda: asyncio.wait_for(stuff(), 1),
            held,
        ):
            t = asyncio_alt.create_task(araises(RuntimeError, wait(make()), match="install()"))
            await t
            await asyncio_alt.sleep_ms(1)
        assert await asyncio_alt.wait_for(work(asyncio_alt), 5) == 3

    early = asyncio.create_task, asyncio.run, asyncio.sleep_ms
    asyncio_alt.run(main())
    raises(RuntimeError, asyncio.run, main(), match="install()")


async def work(package):
    # Uses some features of a loop; returns 3.
    event = package.Event()

    async def other():
        await package.sleep_ms(1)
        event.set()
        return 3

    t = package.create_task(other())
    await event.wait()
    return await t


@needs("c-tasks", "sockets")
def test_stock_connections_in_our_loop_are_refused():
    asyncio = stock()
    if not asyncio:
        return
    import asyncio_alt

    async def serve(reader, writer):
        pass

    async def main():
        at = "127.0.0.1", free_port()
        server = await asyncio_alt.start_server(serve, *at)
        await araises(RuntimeError, asyncio.open_connection(*at), match="install()")
        at = "127.0.0.1", free_port()
        await araises(RuntimeError, asyncio.start_server(serve, *at), match="install()")
        server.close()
        assert await work(asyncio_alt) == 3

    asyncio_alt.run(main())


@needs("c-tasks")
def test_our_names_in_the_stock_loop_are_refused_and_it_goes_on():
    """Without the refusal most of these crash the interpreter."""
    asyncio = stock()
    if not asyncio:
        return
    import io

    import asyncio_alt

    class Never(io.IOBase):
        def ioctl(self, req, arg):
            return 0 if req == 3 else -1

    async def stuff():
        pass

    async def wait(awaitable):
        await awaitable

    async def held(lock):
        await lock.acquire()
        await lock.acquire()

    async def main():
        loop = asyncio_alt.get_event_loop()
        coro = stuff()
        for fn, *args in (
            (asyncio_alt.create_task, coro),
            (asyncio_alt.run, coro),
            (asyncio_alt.install,),
            (asyncio_alt.current_task,),
            (loop.create_task, coro),
            (loop.run_until_complete, coro),
            (loop.run_forever,),
        ):
            raises(RuntimeError, fn, *args)
        for make in (
            lambda: asyncio_alt.sleep_ms(1),
            lambda: asyncio_alt.Event().wait(),
            lambda: asyncio_alt.ThreadSafeFlag().wait(),
            lambda: asyncio_alt.StreamReader(Never()).read(1),
            lambda: asyncio_alt.StreamWriter(Never()).drain(),
            lambda: asyncio_alt.Queue().get(),
            lambda: asyncio_alt.gather(stuff(), stuff()),
            lambda: asyncio_alt.wait_for(stuff(), 1),
            lambda: held(asyncio_alt.Lock()),
        ):
            await araises(RuntimeError, wait(make()))
            await asyncio.sleep_ms(1)
        return await asyncio.wait_for(work(asyncio), 5)

    assert asyncio.run(main()) == 3


async def main_that_imports():
    import asyncio

    return asyncio, await work(asyncio)


def test_asyncio_imported_in_our_loop_is_ours():
    import asyncio_alt

    module, result = asyncio_alt.run(main_that_imports())
    assert module is asyncio_alt and result == 3
    import asyncio.core

    assert asyncio.core is asyncio_alt.core
    from asyncio import Event

    assert Event is asyncio_alt.Event


def test_asyncio_imported_between_two_runs_is_ours():
    import asyncio_alt

    assert asyncio_alt.run(work(asyncio_alt)) == 3
    import asyncio

    assert asyncio.run(work(asyncio)) == 3
    assert asyncio_alt.run(work(asyncio)) == 3


@needs("c-tasks")
def test_stock_runs_before_ours():
    # One after the other is not a mixture: stock's tasks have ended.
    asyncio = stock()
    if not asyncio:
        return
    import asyncio_alt

    assert asyncio.run(work(asyncio)) == 3
    time.sleep_ms(2)
    assert asyncio_alt.run(work(asyncio_alt)) == 3
    raises(RuntimeError, asyncio.run, work(asyncio), match="install()")


@needs("sockets")
def test_what_a_program_puts_into_a_module_takes_effect():
    import asyncio_alt

    asyncio_alt.install()
    import asyncio
    from asyncio import stream

    async def patched(*args):
        return "patched"

    class Mine(asyncio_alt.Lock):
        pass

    # Before the module is loaded, and after.
    stream.open_connection = patched
    asyncio.lock.Lock = Mine
    assert asyncio.run(asyncio.open_connection("127.0.0.1", 1)) == "patched"
    assert asyncio.run(asyncio.stream.open_connection("127.0.0.1", 1)) == "patched"
    stream.start_server = patched
    assert asyncio.run(asyncio.start_server(None, "127.0.0.1", 1)) == "patched"
    assert asyncio.lock.Lock is Mine and asyncio_alt.lock.Lock is Mine


def test_names_of_stocks_core_are_there_without_install():
    import asyncio_alt.core as core
    from asyncio_alt.core import Loop, get_event_loop

    assert get_event_loop() is Loop is core.Loop
    raises(AttributeError, lambda: core.nothing)
    assert core._io_queue.poller and core._exc_context["message"]
    names = {}
    exec("from asyncio_alt import *; from asyncio_alt.core import *", names)
    assert names["sleep_ms"] is core.sleep_ms
