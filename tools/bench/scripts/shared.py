# Payloads from one process to another on CPython, by a Link or a SharedLink over TCP on 127.0.0.1.
# Returns us a payload: until a short answer is back (each), and one after the other as
# fast as the link takes them, until the last is acknowledged (the mean). Lists of both.

import asyncio
import multiprocessing
import os
import time

from asyncio_alt.pubsub import Broker, Link, Listen, Tcp
from asyncio_alt.pubsub.link.shm import SharedLink
from tools.targets.child import free_port

OPTIONS = {"secret": b"secret", "max_size": 16000000, "keepalive": 60}
WARM = 5  # of each, unless there are fewer


def joined(how, broker, carrier, send, receive):
    if how == "Link":
        return Link(broker, carrier, send, receive, **OPTIONS)
    return SharedLink(broker, carrier, send, receive, threshold=256, **OPTIONS)


async def receive(how, port):
    broker = Broker()
    end = asyncio.Event()
    broker.subscribe_call("ask", lambda topic, payload: broker.publish("answer", len(payload)))
    broker.subscribe_call("end", lambda topic, payload: end.set())
    link = joined(how, broker, Tcp("127.0.0.1", port), ["answer"], ["ask", "data", "end"])
    link.BACKOFF = 0.01, 0.05
    async with link:
        await end.wait()
        await link.drain()


async def send(how, port, size, repeats):
    broker = Broker()
    answered = asyncio.Event()
    broker.subscribe_call("answer", lambda topic, payload: answered.set())
    payload = os.urandom(size)
    us = []
    link = joined(how, broker, Listen("127.0.0.1", port), ["ask", "data", "end"], ["answer"])
    async with link:
        await link.wait_connected()
        for _ in range(WARM + repeats):
            answered.clear()
            begin = time.perf_counter()
            await broker.publish_wait("ask", payload)
            await answered.wait()
            us.append((time.perf_counter() - begin) * 1e6)
        for n in (WARM, repeats):
            begin = time.perf_counter()
            for _ in range(n):
                await broker.publish_wait("data", payload)
            await link.drain()
            seconds = time.perf_counter() - begin
        await broker.publish_wait("end", None)
        await link.drain()
        assert not link.dropped and not link.resent
    return {"back": us[WARM:], "on": [seconds / repeats * 1e6]}


def run(loop, role, *args):
    return __import__(loop).run(role(*args))


def measure(how, loop, size, repeats):
    # how: "Link" or "SharedLink"; loop: "asyncio" or "uvloop"
    port = free_port()
    process = multiprocessing.get_context("spawn").Process
    other = process(target=run, args=(loop, receive, how, port), daemon=True)
    other.start()
    figures = run(loop, send, how, port, size, repeats)
    other.join()
    return figures
