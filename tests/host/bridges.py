"""Bridges to a real Mosquitto, for tests."""

import asyncio
import contextlib

from asyncio_alt.pubsub import mqtt

_LIMIT = 30  # seconds that anything here may take


def run(coro):
    asyncio.run(asyncio.wait_for(coro, _LIMIT))


@contextlib.asynccontextmanager
async def bridged(mosquitto, broker, client=None, **options):
    """A bridge from this broker that runs and is connected."""
    client = client or mqtt.AioMqtt(mosquitto.client(timeout=2))
    bridge = mqtt.Bridge(broker, client, **{"retry": (0.05, 0.2), **options})
    task = asyncio.create_task(bridge.run())
    try:
        await until(lambda: bridge.connected)
        yield bridge
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


async def messages(client, n):
    """Return the next n messages that an MQTT client gets: (topic, payload, retained)."""
    got = []
    async for m in client.messages:
        got.append((str(m.topic), m.payload, m.retain))
        if len(got) == n:
            return got


@contextlib.contextmanager
def reports():
    """A list of the reports to the loop's exception handler meanwhile: (message, exception)."""
    got = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, seen: got.append((seen["message"], seen["exception"])))
    yield got
    loop.set_exception_handler(None)
