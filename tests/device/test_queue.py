# with: tasks
# Queue: as CPython's.

import micropython

import asyncio_alt as asyncio
from asyncio_alt import core


def idle(q):
    return not (q._getters.peek() or q._putters.peek() or q._joiners.peek())


async def test_without_waiting():
    q = asyncio.Queue(maxsize=2)
    assert q.empty() and not q.full() and q.qsize() == 0 and q.maxsize == 2
    raises(asyncio.QueueEmpty, q.get_nowait)
    q.put_nowait(1)
    await q.put(None)
    assert q.full() and q.qsize() == 2
    raises(asyncio.QueueFull, q.put_nowait, 3)
    assert q.get_nowait() == 1
    assert await q.get() is None
    assert q.empty()
    for maxsize in (0, -1):
        q = asyncio.Queue(maxsize)
        for i in range(20):
            q.put_nowait(i)
        assert not q.full()
    raises(TypeError, asyncio.Queue, "1", match="maxsize")


async def test_items_and_tasks_keep_their_order():
    q = asyncio.Queue(1)
    got = []

    async def get(i):
        got.append((i, await q.get()))

    for i in range(3):
        asyncio.create_task(get(i))
    await passes(1)
    for i in range(3):
        await q.put(i)
    await passes(3)
    assert got == [(0, 0), (1, 1), (2, 2)]
    for i in range(4):
        asyncio.create_task(q.put(i))
    await passes(2)
    for i in range(4):
        assert await q.get() == i
    assert idle(q)


async def test_producer_and_consumer():
    q = asyncio.Queue(3)

    async def produce():
        for i in range(20):
            await q.put(i)
            if i % 3 == 0:
                await passes(1)

    async def consume():
        for i in range(20):
            assert await q.get() == i
            assert q.qsize() <= 3
            if i % 4 == 0:
                await passes(2)

    await asyncio.gather(produce(), consume())
    assert q.empty() and idle(q)


async def test_join_waits_for_task_done():
    q = asyncio.Queue()
    await q.join()
    raises(ValueError, q.task_done)
    q.put_nowait(1)
    q.put_nowait(2)
    joins = [asyncio.create_task(q.join()) for _ in range(3)]
    await passes(1)
    await q.get()
    q.task_done()
    await q.get()
    await cancel(joins.pop(1))
    await passes(2)
    assert not any(t.done() for t in joins)
    q.task_done()
    await passes(2)
    assert all(t.done() for t in joins) and idle(q)
    raises(ValueError, q.task_done)


async def test_join_returns_after_a_moment_of_zero():
    q = asyncio.Queue()

    async def worker():
        # Says that an item is done, and puts the next one.
        while True:
            n = await q.get()
            q.task_done()
            if n:
                q.put_nowait(n - 1)
            await passes(1)

    for _ in range(3):
        q.put_nowait(9)
        joins = [asyncio.create_task(q.join()) for _ in range(3)]
        await passes(1)
        w = asyncio.create_task(worker())
        await passes(3)
        assert all(t.done() for t in joins) and q._unfinished
        await q.join()
        await passes(20)
        await cancel(w)
    assert not q._unfinished and idle(q)
    # One that comes after the put waits for its own moment.
    q.put_nowait(1)
    q.get_nowait()
    first = asyncio.create_task(q.join())
    await passes(1)
    q.task_done()
    q.put_nowait(2)
    second = asyncio.create_task(q.join())
    await passes(3)
    assert first.done() and not second.done()
    q.task_done()
    await passes(2)
    assert second.done() and idle(q)


async def test_cancelled_get_loses_no_item():
    for n in range(1, 4):
        for before in range(3):
            for after in range(3):
                q = asyncio.Queue()
                tasks = [asyncio.create_task(q.get()) for _ in range(n)]
                await passes(before)
                q.put_nowait(7)
                await passes(after)
                got = await cancel(tasks.pop(0))
                await passes(3)
                if n > 1 and not got:
                    # The next one has got it.
                    assert tasks[0].done()
                while tasks:
                    got += await cancel(tasks.pop(0))
                while not q.empty():
                    got.append(q.get_nowait())
                assert got == [7] and idle(q), (n, before, after)


async def test_cancelled_put_loses_no_room():
    for before in range(3):
        for after in range(3):
            q = asyncio.Queue(1)
            q.put_nowait(0)
            tasks = [asyncio.create_task(q.put(i)) for i in (1, 2)]
            await passes(before)
            q.get_nowait()
            await passes(after)
            put = await cancel(tasks[0])
            await passes(3)
            got = [q.get_nowait()]
            await passes(2)
            assert tasks[1].done()
            if put:
                got.append(q.get_nowait())
            assert got == ([1, 2] if put else [2]) and q.empty() and idle(q)


async def test_what_another_took_first_is_waited_for_again():
    q = asyncio.Queue(1)
    t = asyncio.create_task(q.get())
    await passes(1)
    q.put_nowait(1)
    assert q.get_nowait() == 1  # t has been woken for it
    await passes(2)
    assert not t.done()
    q.put_nowait(2)
    assert await t == 2
    q.put_nowait(3)
    t = asyncio.create_task(q.put(5))
    await passes(1)
    assert q.get_nowait() == 3
    q.put_nowait(4)
    await passes(2)
    assert not t.done()
    assert q.get_nowait() == 4
    await t
    assert q.get_nowait() == 5 and idle(q)


async def test_getter_and_its_putter_cancelled_in_one_pass():
    q = asyncio.Queue(1)
    q.put_nowait(1)
    putters = [asyncio.create_task(q.put(i)) for i in (2, 3)]
    await passes(1)
    assert q.get_nowait() == 1
    putters[0].cancel()
    getters = [asyncio.create_task(q.get()) for _ in range(2)]
    await passes(2)
    assert await asyncio.wait_for_ms(getters[0], 100) == 3
    assert not getters[1].done()
    q.put_nowait(4)
    assert await getters[1] == 4
    await cancel(putters[0])
    assert idle(q) and len(core.tasks) == 1


@needs("schedule")
async def test_put_from_a_scheduled_callback_wakes_the_getter():
    q = asyncio.Queue()
    for _ in range(2):
        t = asyncio.create_task(q.get())
        await passes(1)
        micropython.schedule(q.put_nowait, 7)
        assert await asyncio.wait_for_ms(t, 500) == 7
    assert idle(q)


@needs("schedule", "pc")
def test_a_scheduled_callback_at_every_step_loses_no_item():
    async def main(k, maxsize, call):
        # A task puts three items and another gets them, while a callback puts or gets one.
        nonlocal ended
        q = asyncio.Queue(maxsize)
        got = []
        put = [0, 1, 2]

        async def putter():
            for i in range(3):
                await q.put(i)

        async def getter():
            while True:
                got.append(await q.get())
                q.task_done()

        def step(_):
            nonlocal k
            k -= 1
            if k:
                micropython.schedule(step, 0)
                return
            try:
                if call == "put":
                    q.put_nowait(7)
                    put.append(7)
                else:
                    got.append(q.get_nowait())
                    q.task_done()
            except (asyncio.QueueFull, asyncio.QueueEmpty):
                pass

        micropython.schedule(step, 0)
        tasks = [asyncio.create_task(coro) for coro in (getter(), putter())]
        await asyncio.wait_for(tasks[1], 1)
        ended = k > 0
        while k:
            pass
        await asyncio.wait_for(q.join(), 1)
        assert not maxsize or q.qsize() <= maxsize
        assert sorted(got) == sorted(put) and not q._unfinished, (k, got, put)
        await cancel(tasks[0])
        assert idle(q)

    for maxsize in (0, 1):
        for call in ("put", "get"):
            ended = False
            k = 0
            while not ended:
                k += 1
                asyncio.run(main(k, maxsize, call))


async def test_items_are_taken_without_moving_the_others():
    q = asyncio.Queue()
    taken = put = most = 0
    for burst in (1, 40, 3, 100, 7):
        for _ in range(burst):
            q.put_nowait(put)
            put += 1
        while q.qsize() > burst // 3:
            assert q.get_nowait() == taken
            taken += 1
            most = max(most, len(q._items) - q.qsize())
    while not q.empty():
        assert await q.get() == taken
        taken += 1
    assert taken == put and len(q._items) <= 40 and most > 10
    raises(asyncio.QueueEmpty, q.get_nowait)


async def test_priority_and_lifo_queues():
    q = asyncio.PriorityQueue(3)
    for item in ((2, "b"), (1, "a"), (3, "c")):
        q.put_nowait(item)
    assert q.full() and q.qsize() == 3
    raises(asyncio.QueueFull, q.put_nowait, (0, ""))
    late = asyncio.create_task(q.put((0, "z")))
    await passes(1)
    assert await q.get() == (1, "a")
    await late
    raises(TypeError, q._append, "text")
    assert [q.get_nowait()[1] for _ in range(3)] == ["z", "b", "c"]
    raises(asyncio.QueueEmpty, q.get_nowait)
    q = asyncio.LifoQueue(2)
    q.put_nowait(1)
    q.put_nowait(2)
    raises(asyncio.QueueFull, q.put_nowait, 3)
    assert [await q.get(), await q.get()] == [2, 1] and q.empty()
    for kind in (asyncio.PriorityQueue, asyncio.LifoQueue):
        q = kind()
        t = asyncio.create_task(q.get())
        await passes(1)
        q.put_nowait(5)
        assert await t == 5 and idle(q)
        q.task_done()
        await q.join()
        raises(ValueError, q.task_done)


async def test_shutdown_wakes_all_that_wait():
    for immediate in (False, True):
        q = asyncio.Queue(1)
        getters = [asyncio.create_task(q.get()) for _ in range(3)]
        await passes(1)
        q.shutdown(immediate)
        for t in getters:
            await araises(asyncio.QueueShutDown, t)
        raises(asyncio.QueueShutDown, q.put_nowait, 1)
        raises(asyncio.QueueShutDown, q.get_nowait)
        assert idle(q)
        q = asyncio.Queue(2)
        q.put_nowait(1)
        q.put_nowait(2)
        putters = [asyncio.create_task(q.put(3)) for _ in range(2)]
        joiner = asyncio.create_task(q.join())
        await passes(1)
        q.shutdown(immediate)
        q.shutdown()  # a second one changes nothing
        for t in putters:
            await araises(asyncio.QueueShutDown, t)
        if not immediate:
            assert await q.get() == 1 and q.get_nowait() == 2 and not joiner.done()
            q.task_done()
            q.task_done()
        await joiner
        await araises(asyncio.QueueShutDown, q.get())
        await araises(asyncio.QueueShutDown, q.put(1))
        assert idle(q) and q.qsize() == 0


async def test_a_cancelled_task_leaves_the_order_of_the_others():
    queue = asyncio.Queue()
    got = []

    async def get(name):
        got.append((name, await queue.get()))

    tasks = [asyncio.create_task(get(name)) for name in "abcd"]
    await asyncio.sleep_ms(0)
    tasks[1].cancel()
    queue.put_nowait(1)  # wakes a, which runs after b
    for item in 2, 3:
        await asyncio.sleep_ms(0)
        await asyncio.sleep_ms(0)
        queue.put_nowait(item)
    await asyncio.sleep_ms(0)
    assert got == [("a", 1), ("c", 2), ("d", 3)], got
