# Publishes n messages to some consumers, one task each; while one of them is full the others may
# run. With trio's channels, with a set of queues (agents), with asyncio_alt's broker, and with a
# minimal broker, which shows the interpreter's part; on CPython and MicroPython. Prints how many
# messages arrived, and the seconds of processor time.

import sys
import time


def main_trio(n, consumers, wait):
    import trio

    async def consume(channel):
        async for _ in channel:
            got[0] += 1

    def publish(value):
        # The rating is the share of consumers that would block.
        blocked = 0
        for channel in list(channels):
            try:
                channel.send_nowait(value)
            except trio.WouldBlock:
                blocked += 1
            except trio.BrokenResourceError:
                channels.remove(channel)
        return blocked / len(channels) if channels else 0.0

    async def publish_wait(value):
        for channel in list(channels):
            try:
                await channel.send(value)
            except trio.BrokenResourceError:
                channels.remove(channel)

    async def main():
        async with trio.open_nursery() as nursery:
            for _ in range(consumers):
                send, receive = trio.open_memory_channel(0)
                channels.append(send)
                nursery.start_soon(consume, receive)
            await trio.lowlevel.checkpoint()
            for i in range(n):
                if wait:
                    await publish_wait(i)
                elif publish(i):
                    await trio.lowlevel.checkpoint()
            for channel in channels:
                channel.close()

    channels = []
    got = [0]
    trio.run(main)
    return got[0]


def main_agents(n, consumers, wait):
    # Names of topics, a set of agents for each, a queue each.
    import asyncio

    class Queue:
        def __init__(self, size):
            self.size = size
            self.items = []
            self.filled = asyncio.Event()
            self.room = asyncio.Event()

        def put_nowait(self, item):
            if len(self.items) >= self.size:
                return True
            self.items.append(item)
            self.filled.set()

        async def put(self, item):
            while len(self.items) >= self.size:
                self.room.clear()
                await self.room.wait()
            self.put_nowait(item)

        async def get(self):
            while not self.items:
                self.filled.clear()
                await self.filled.wait()
            self.room.set()
            return self.items.pop(0)

    async def consume(queue):
        while True:
            await queue.get()
            got[0] += 1

    async def main():
        topics = {}
        tasks = []
        for _ in range(consumers):
            queue = Queue(1)
            topics.setdefault("a/b", set()).add(queue)
            tasks.append(asyncio.create_task(consume(queue)))
        await asyncio.sleep(0)
        for i in range(n):
            full = False
            for agent in topics.get("a/b", ()):
                if wait:
                    await agent.put(("a/b", i))
                elif agent.put_nowait(("a/b", i)):
                    full = True
            if full:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    got = [0]
    asyncio.run(main())
    return got[0]


def main_ours(n, consumers, wait, maxlen=0):
    import asyncio_alt as asyncio

    async def consume(sub):
        async for _ in sub:
            got[0] += 1

    async def main():
        broker = asyncio.pubsub.Broker()
        subs = []
        for _ in range(consumers):
            subs.append(broker.subscribe("a/b", maxlen=maxlen, policy="block"))
            asyncio.create_task(consume(subs[-1]))
        await asyncio.sleep(0)
        for i in range(n):
            if wait:
                await broker.publish_wait("a/b", i)
            elif broker.publish("a/b", i):
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        for sub in subs:
            sub.close()
        await asyncio.sleep(0)

    got = [0]
    asyncio.run(main())
    return got[0]


def main_bare(n, consumers, wait, maxlen):
    # Lists of deques: no filters, policies, counters or wake-ups, and nobody may raise or leave.
    import asyncio
    from collections import deque

    class Queue:
        def __init__(self):
            self.items = deque((), maxlen)

        def put(self, item):
            items = self.items
            if len(items) >= maxlen:
                return 1
            items.append(item)
            return 0

        def __aiter__(self):
            return self

        async def __anext__(self):
            items = self.items
            while not items:
                await asyncio.sleep(0)
            return ("a/b", items.popleft())

    def publish(topic, item):
        full = 0
        for queue in topics[topic]:
            full += queue.put(item)
        return full

    async def publish_wait(topic, item):
        for queue in topics[topic]:
            while queue.put(item):
                await asyncio.sleep(0)

    async def consume(queue):
        async for _ in queue:
            got[0] += 1

    async def main():
        tasks = [asyncio.create_task(consume(queue)) for queue in topics["a/b"]]
        await asyncio.sleep(0)
        for i in range(n):
            if wait:
                await publish_wait("a/b", i)
            elif publish("a/b", i):
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    topics = {"a/b": [Queue() for _ in range(consumers)]}
    got = [0]
    asyncio.run(main())
    return got[0]


program = globals()["main_" + sys.argv[1]]
n, *rest = map(int, sys.argv[2:])
clock = getattr(time, "process_time", None) or time.clock
program(0, *rest)  # imports
begin = clock()
got = program(n, *rest)
print(got, clock() - begin)
