# Messages of mixed sizes through a broker to all kinds of subscribers, or through a broker, a link
# to another one and back. Measures the heap before and after them.

import gc
from array import array

TOPICS = ["room/%d/temperature" % n for n in range(7)] + ["room/door", "log"]
WARM_UP = 600  # messages before the day

# As the manual advises: objects that live on stay close together, not anywhere in the heap.
gc.threshold(16384)


def mixed():
    # Topics and payloads, the same ones each time: numbers, and 100 to 1000 bytes. The last ones
    # of each 60 are numbers: to keep the last message takes no memory.
    some = 1
    n = 0
    while True:
        some = some * 1103515245 + 12345 & 0xFFFFFF
        size = some >> 8 & 0xFF
        payload = n
        if size >= 100 and n % 60 < 50:
            payload = some.to_bytes(4, "little") * (250 if size > 250 else size // 4)
        yield TOPICS[some % 9], payload
        n += 1


def largest():
    # Returns the largest free block in bytes, to half a kilobyte.
    gc.collect()
    size = gc.mem_free()
    while True:
        try:
            bytearray(size)
            gc.collect()
            return size
        except MemoryError:
            size -= 512


class Day:
    def __init__(self):
        # Made in advance, so that a note takes no heap.
        self.taken = array("i", [0] * 10)
        self.found = array("i", [1 << 30, 0] * 2)

    def note(self, n, of):
        # The first n of so many messages are through.
        if n % (of // 10) == 0:
            gc.collect()
            self.taken[n // (of // 10) - 1] = gc.mem_alloc()

    def mark(self, i):
        # The day begins (i is 0), or is over (1). The best of several looks counts: a value that
        # looks like a message's address keeps the message.
        gc.collect()
        self.found[2 * i] = min(self.found[2 * i], gc.mem_alloc())
        self.found[2 * i + 1] = max(self.found[2 * i + 1], largest())

    def result(self, **counts):
        return counts | {
            "taken meanwhile": list(self.taken),
            "taken before and after": [self.found[0], self.found[2]],
            "largest free before and after": [self.found[1], self.found[3]],
        }


def with_broker(aio, messages):
    broker = aio.pubsub.Broker()

    async def consume(sub):
        async for _ in sub:
            pass

    async def send(n):
        call = broker.subscribe_call("#", lambda topic, payload: None)
        subs = [
            broker.subscribe("room/+/temperature", maxlen=4),
            broker.subscribe("room/#", maxlen=2, policy="block"),
            broker.subscribe("log", maxlen=4, policy="drop_new"),
            broker.subscribe("#", policy="latest"),
        ]
        tasks = [aio.create_task(consume(sub)) for sub in subs]
        source = mixed()
        for i in range(1, n + 1):
            topic, payload = next(source)
            if i & 1:
                await broker.publish_wait(topic, payload)
            elif broker.publish(topic, payload, retain=topic == "log"):
                await aio.sleep_ms(0)
            if i % (n // 10) == 0:
                await aio.sleep_ms(1)
            day.note(i, n)
        broker.publish("log", b"", retain=True)
        for sub in subs:
            sub.close()
        call.close()
        for task in tasks:
            await task

    day = Day()
    for i, n in enumerate((WARM_UP, messages)):
        aio.run(send(n))
        day.mark(i)
    return day.result(
        messages=broker.published - WARM_UP - 2,
        delivered=broker.delivered,
        dropped=broker.dropped,
    )


def with_link(aio, messages, pause_ms):
    # Both ends of a serial line are here: one end reads the bytes that the other writes.
    import io
    import os
    import sys

    from micropython import RingIO

    class Os:
        # For a board that has no chance: any bytes will do here, as long as they differ.
        last = 0

        @staticmethod
        def urandom(n):
            Os.last += 1
            return Os.last.to_bytes(n, "little")

    if not hasattr(os, "urandom"):
        sys.modules["os"] = Os

    Broker, Link, Serial = aio.pubsub.Broker, aio.pubsub.Link, aio.pubsub.Serial
    size = 512

    class End(io.IOBase):
        def __init__(self, there, back):
            self.write = there.write
            self.sent = there.any
            self.any = back.any
            self.readinto = back.readinto

        def ioctl(self, request, arg):
            if request != 3:
                return -1
            return arg & ((1 if self.any() else 0) | (4 if self.sent() < size else 0))

    async def echo(broker, sub):
        async for topic, payload in sub:
            await broker.publish_wait("back" + topic[5:], payload)

    async def check(sub):
        nonlocal right, wrong
        source = mixed()
        async for topic, payload in sub:
            if (topic[5:], payload) == next(source):
                right += 1
            else:
                wrong += 1

    async def main():
        if pause_ms:
            aio.power_mode(aio.LightSleep(slice_ms=1000, streams=True))
        near, far = Broker(), Broker()
        there, back = RingIO(size), RingIO(size)
        one = Link(near, Serial(End(there, back), True), ["there/#"], ["back/#"], window=4)
        other = Link(far, Serial(End(back, there), False), ["back/#"], ["there/#"], window=4)
        sub = far.subscribe("there/#", maxlen=2, policy="block")
        last = near.subscribe("back/#", maxlen=2, policy="block")
        tasks = [aio.create_task(echo(far, sub)), aio.create_task(check(last))]
        source = mixed()
        async with one, other:
            await one.wait_connected()
            for i in range(1 - WARM_UP, messages + 1):
                topic, payload = next(source)
                await near.publish_wait("there/" + topic, payload, topic == "log")
                if pause_ms and i > 0:
                    await aio.sleep_ms(pause_ms)
                left = -i % 60
                if left not in (0, 7):
                    continue
                while right + wrong < WARM_UP + i:
                    await aio.sleep_ms(1)
                await one.drain()
                await other.drain()
                # Before the last seven: objects that wait after them are made anew, where there is
                # room.
                gc.collect()
                if left == 0 and i > 0:
                    day.note(i, messages)
                if left == 0 and (-300 < i <= 0 or i > messages - 300):
                    day.mark(i > 0)
            resent = one.resent + other.resent
        asleep_ms = aio.power_mode().stats()["asleep_ms"] if pause_ms else 0
        sub.close()
        last.close()
        for task in tasks:
            await task
        return resent, asleep_ms

    right = wrong = 0
    day = Day()
    resent, asleep_ms = aio.run(main())
    return day.result(
        messages=messages,
        delivered=right - WARM_UP,
        wrong=wrong,
        resent=resent,
        asleep_ms=asleep_ms,
    )


def measure(package, messages, way, pause_ms):
    # way: "broker" or "link"; pause_ms: after each message of a link, in power mode; 0: none
    aio = __import__(package)
    return with_link(aio, messages, pause_ms) if way == "link" else with_broker(aio, messages)
