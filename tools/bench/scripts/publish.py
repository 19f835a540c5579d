# A message from publish() to its subscriber: a function, or a task that waits with priority. With
# stock it is the pattern of agents: a set of them for each topic, with a queue each.

import gc
import time


def agents(aio):
    # The pattern, as small as it can be: a function is called, anything else is a queue.
    class Agents:
        def __init__(self):
            self.topics = {}

        def subscribe(self, topic, agent):
            self.topics.setdefault(topic, set()).add(agent)

        def publish(self, topic, payload):
            for agent in self.topics.get(topic, ()):
                if callable(agent):
                    agent(topic, payload)
                else:
                    agent.put_nowait((topic, payload))

    class Queue:
        def __init__(self, size):
            self.items = [None] * size
            self.size = size
            self.i = self.n = 0
            self.event = aio.Event()

        def put_nowait(self, item):
            if self.n < self.size:
                self.items[(self.i + self.n) % self.size] = item
                self.n += 1
                self.event.set()

        async def get(self):
            while not self.n:
                self.event.clear()
                await self.event.wait()
            item = self.items[self.i]
            self.i = (self.i + 1) % self.size
            self.n -= 1
            return item

    return Agents, Queue


def measure(package, count):
    aio = __import__(package)
    to_function = []
    to_task = []

    def called(topic, payload):
        to_function.append(time.ticks_diff(time.ticks_us(), payload))

    async def take(queue):
        while True:
            payload = (await queue.get())[1]
            to_task.append(time.ticks_diff(time.ticks_us(), payload))
            taken.set()

    async def main():
        if package == "asyncio_alt":
            broker = aio.pubsub.Broker()
            broker.subscribe_call("a/function", called)
            queue = broker.subscribe("a/task", maxlen=4, priority=True)
        else:
            Broker, Queue = agents(aio)
            broker = Broker()
            broker.subscribe("a/function", called)
            queue = Queue(4)
            broker.subscribe("a/task", queue)
        aio.create_task(take(queue))
        await aio.sleep_ms(1)
        gc.collect()
        for topic in ("a/function", "a/task"):
            for _ in range(count + 1):
                taken.clear()
                wait = taken.wait()
                broker.publish(topic, time.ticks_us())
                if topic == "a/task":
                    await wait

    taken = aio.Event()
    aio.run(main())
    # The first of each is the one that has to look the topic up.
    return {"function": to_function[1:], "task": to_task[1:], "first": to_function[0]}
