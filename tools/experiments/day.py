# Messages of mixed sizes through a broker to all kinds of subscribers, and what they leave of the
# heap when the subscribers have gone.

import gc
from array import array


def largest():
    # The largest block that can be had, in bytes, to half a kilobyte.
    gc.collect()
    size = gc.mem_free()
    while True:
        try:
            bytearray(size)
            gc.collect()
            return size
        except MemoryError:
            size -= 512


def measure(package, messages):
    aio = __import__(package)
    broker = aio.pubsub.Broker()
    topics = ["room/%d/temperature" % n for n in range(7)] + ["room/door", "log"]

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
        some = 1
        for i in range(n):
            some = some * 1103515245 + 12345 & 0xFFFFFF
            topic = topics[some % 9]
            size = some >> 8 & 0xFF
            payload = i if size < 100 else bytes(size * (4 if size > 250 else 1))
            if size & 1:
                await broker.publish_wait(topic, payload)
            elif broker.publish(topic, payload, retain=topic == "log"):
                await aio.sleep_ms(0)
            if i % (n // 10) == n // 10 - 1:
                await aio.sleep_ms(1)
                gc.collect()
                taken[i // (n // 10)] = gc.mem_alloc()
        broker.publish("log", b"", retain=True)
        for sub in subs:
            sub.close()
        call.close()
        for task in tasks:
            await task

    # Made before, so that to note something takes no heap.
    taken = array("i", [0] * 10)
    found = array("i", [0] * 4)
    for i, n in enumerate((2000, messages)):
        aio.run(send(n))
        gc.collect()
        found[2 * i] = gc.mem_alloc()
        found[2 * i + 1] = largest()
    return {
        "messages": broker.published - 2002,
        "delivered": broker.delivered,
        "dropped": broker.dropped,
        "taken meanwhile": list(taken),
        "taken before and after": [found[0], found[2]],
        "largest free before and after": [found[1], found[3]],
    }
