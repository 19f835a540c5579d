# Messages with a topic from one process to another over TCP on 127.0.0.1, in bursts; each burst is
# answered by a message. Over a Link: from the one broker to a function that subscribes at the
# other; or over streams, as a program does it by itself: lengths, topic and payload, handled by
# the functions that a dict has for the topic. In us: "us", from publish or write to the handler;
# "answered", from a burst's first one to the handler of the answer; "each", the time that all
# took, a message. Runs on CPython too.

import struct
import time

try:
    ticks_us = time.ticks_us  # of a clock that all processes share
    ON_CPYTHON = False
except AttributeError:

    def ticks_us():
        return time.monotonic_ns() // 1000

    ON_CPYTHON = True

TOPIC = "sensor/hall"
ANSWER = "sensor/answer"
HEAD = ">IB"  # bytes of topic and payload together, and of the topic


def measure(package, role, port, size, bursts, burst=1, how="link"):
    # role: "send" or "receive"; size: of a payload, in bytes, 8 at least; burst: messages in each
    # of the bursts; how: "link" or "stream"
    aio = __import__(package)
    us = []
    answered = []
    payload = bytearray(size)
    begin = 0

    def handle(topic, payload):
        us.append(ticks_us() - int.from_bytes(payload[:8], "big"))
        if len(us) % burst == 0:
            answer(ANSWER, b"")
            if len(us) == burst * bursts:
                done.set()

    def handle_answer(topic, payload):
        answered.append(ticks_us() - begin)
        done.set()

    def stamped():
        now = ticks_us()
        payload[:8] = now.to_bytes(8, "big")
        return now

    async def over_link():
        nonlocal answer, begin
        from asyncio_alt.pubsub import Broker, Link, Listen, Tcp

        options = {"window": 64, "max_size": 65536}
        broker = Broker()
        answer = broker.publish
        if role == "send":
            link = Link(broker, Tcp("127.0.0.1", port), [TOPIC], [ANSWER], **options)
            broker.subscribe_call(ANSWER, handle_answer)
        else:
            link = Link(broker, Listen("127.0.0.1", port), [ANSWER], [TOPIC], **options)
            broker.subscribe_call(TOPIC, handle)
        link.BACKOFF = 0.01, 0.05
        async with link:
            await link.wait_connected()
            if role == "send":
                for _ in range(bursts):
                    done.clear()
                    begin = stamped()
                    for _ in range(burst):
                        stamped()
                        await broker.publish_wait(TOPIC, payload)
                    await done.wait()
            else:
                await done.wait()
            await link.drain()

    async def over_streams(reader, writer):
        nonlocal answer, begin
        if not ON_CPYTHON:
            writer.s.setsockopt(6, 1, 1)  # TCP_NODELAY, which is on in the others
        subscribers = {TOPIC: [handle], ANSWER: [handle_answer]}

        def answer(topic, payload):
            topic = topic.encode()
            head = struct.pack(HEAD, len(topic) + len(payload), len(topic))
            writer.write(head + topic + payload)

        while not done.is_set() or len(answered) < bursts and role == "send":
            if role == "send":
                begin = stamped()
                for _ in range(burst):
                    stamped()
                    answer(TOPIC, payload)
                await writer.drain()
            n, k = struct.unpack(HEAD, await reader.readexactly(5))
            body = await reader.readexactly(n)
            topic = str(body[:k], "utf-8")
            for fn in subscribers.get(topic, ()):
                fn(topic, body[k:])
        await writer.drain()
        over.set()

    async def main():
        nonlocal done, over
        done = aio.Event()
        over = aio.Event()
        if how == "link":
            await over_link()
        elif role == "receive":
            await aio.start_server(over_streams, "127.0.0.1", port)
            await over.wait()
        else:
            began = ticks_us()
            while True:
                try:
                    await over_streams(*await aio.open_connection("127.0.0.1", port))
                    break
                except OSError:  # the receiver does not listen yet
                    if ticks_us() - began > 10000000:
                        raise
                    await aio.sleep(0.01)
        await aio.sleep(0.05)  # until the answer is on its way

    answer = done = over = None
    aio.run(main())
    if role == "receive":
        return {"us": us}
    return {"answered": answered, "each": sum(answered) / burst / bursts}
