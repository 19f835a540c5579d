# to_thread().

import time

import asyncio_alt as asyncio


def slow(ms, value=None):
    time.sleep_ms(ms)
    if isinstance(value, type):
        raise value
    return value


@needs("threads")
async def test_it_returns_or_raises_what_the_function_does():
    assert await asyncio.to_thread(slow, 1, value=5) == 5
    assert await asyncio.to_thread(lambda: None) is None
    for exc in (KeyError, SystemExit, KeyboardInterrupt):
        await araises(exc, asyncio.to_thread(slow, 0, exc))
    await araises(RuntimeError, asyncio.to_thread(slow, 0, StopIteration), match="StopIteration")


@needs("threads")
async def test_the_loop_goes_on_meanwhile():
    task = asyncio.create_task(asyncio.to_thread(slow, 20, 1))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep_ms(1)
    assert turns > 5 and await task == 1


@needs("threads")
async def test_more_than_run_at_once_wait_for_their_turn():
    now = most = 0

    def count(i):
        nonlocal now, most
        now += 1
        most = max(most, now)
        time.sleep_ms(2)
        now -= 1
        return i

    found = await asyncio.gather(*[asyncio.to_thread(count, i) for i in range(20)])
    assert found == list(range(20)) and 1 <= most <= 8, most


@needs("threads")
async def test_a_cancelled_caller_leaves_the_function_alone():
    begun = []
    done = []

    def work():
        begun.append(1)
        time.sleep_ms(5)
        done.append(1)
        raise ValueError  # is dropped

    for _ in range(12):  # more than there are threads: some are cancelled before they begin
        task = asyncio.create_task(asyncio.to_thread(work))
        await asyncio.sleep_ms(1)
        task.cancel()
        await araises(asyncio.CancelledError, task)
    while len(done) < len(begun):
        await asyncio.sleep_ms(1)
    assert done
    assert await asyncio.to_thread(slow, 0, 7) == 7


@needs("threads")
async def test_what_cannot_be_called_is_refused():
    await araises(TypeError, asyncio.to_thread(5), match="func")


@needs("threads")
def test_a_function_may_outlive_the_run():
    async def main():
        asyncio.create_task(asyncio.to_thread(slow, 10))
        await asyncio.sleep_ms(1)

    for _ in range(12):
        asyncio.run(main())
    assert asyncio.run(asyncio.to_thread(slow, 0, 3)) == 3


async def test_a_port_without_threads_says_so():
    from asyncio_alt import threads

    module = threads._thread
    threads._thread = None
    try:
        await araises(RuntimeError, asyncio.to_thread(slow, 0), match="no threads")
    finally:
        threads._thread = module
