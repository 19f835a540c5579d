"""The bridge between a Broker and a real Mosquitto, on CPython and on MicroPython."""

import asyncio
import contextlib
import os
import subprocess

import pytest

from asyncio_alt.pubsub import Broker, mqtt
from tools import source
from tools.bootstrap import ROOT
from tools.targets.unix import micropython

_AIOMQTTC = "aiomqttc", "1.0.7"
_LIMIT = 30  # seconds that anything here may take


def run(coro):
    asyncio.run(asyncio.wait_for(coro, _LIMIT))


@contextlib.asynccontextmanager
async def bridged(mosquitto, broker, **options):
    """A bridge from this broker that runs and is connected."""
    bridge = mqtt.Bridge(
        broker, mqtt.AioMqtt(mosquitto.client(timeout=2)), retry=(0.05, 0.2), **options
    )
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


def test_topics_and_payloads_are_mapped_both_ways(mosquitto):
    async def main():
        broker = Broker()
        options = {"send": ["t/#"], "receive": ["cmd/+"], "local": "a/", "remote": "pico/"}
        async with bridged(mosquitto, broker, **options) as bridge, mosquitto.client() as peer:
            await peer.subscribe("#")
            for payload in (
                b"bytes",
                bytearray(b"array"),
                "tëxt",
                7,
                1.5,
                {"k": [1, None]},
                (1, 2),
            ):
                broker.publish("a/t/x", payload)
            broker.publish("a/no", b"")
            broker.publish("b/t/x", b"")
            sent = [m[1] for m in await messages(peer, 7)]
            assert sent[:5] == [b"bytes", b"array", "tëxt".encode(), b"7", b"1.5"]
            assert sent[5:] == [b'{"k": [1, null]}', b"[1, 2]"]
            broker.publish("a/t", b"parent")
            assert await messages(peer, 1) == [("pico/t", b"parent", False)]

            got = broker.subscribe("#")
            for topic in ("pico/cmd/led", "pico/cmd", "pico/t/x", "cmd/led"):
                await peer.publish(topic, b"on")
            await peer.publish("pico/cmd/last", b"")
            assert await got.get() == ("a/cmd/led", b"on")
            assert await got.get() == ("a/cmd/last", b"")
            assert (bridge.sent, bridge.received) == (8, 2)

    run(main())


@pytest.mark.parametrize("qos", [0, 1])
def test_retained_flag_goes_both_ways(mosquitto, qos):
    async def main():
        broker = Broker()
        async with mosquitto.client() as peer:
            await peer.publish("cmd/before", b"1", retain=True)
        options = {"send": ["t/#"], "receive": ["cmd/#"], "qos": qos}
        async with bridged(mosquitto, broker, **options) as bridge:
            await until(lambda: broker.retained() == [("cmd/before", b"1")])
            broker.publish("t/kept", b"2", retain=True)
            broker.publish("t/gone", b"3")
            await until(lambda: bridge.sent == 2)
        async with mosquitto.client() as peer:
            await peer.subscribe("t/#")
            await peer.publish("t/end", b"")
            assert await messages(peer, 2) == [("t/kept", b"2", True), ("t/end", b"", False)]
        # What is known is not delivered again by the next connection.
        calls = []
        broker.subscribe_call("cmd/#", lambda *m: calls.append(m))
        async with bridged(mosquitto, broker, **options) as bridge, mosquitto.client() as peer:
            await peer.publish("cmd/after", b"4")
            await until(lambda: bridge.received)
            assert calls == [("cmd/before", b"1"), ("cmd/after", b"4")]

    run(main())


def test_what_mqtt_sends_back_is_dropped_once(mosquitto):
    async def main():
        broker = Broker()
        got = broker.subscribe("#", maxlen=99)
        options = {"send": ["#"], "receive": ["#"], "qos": 1}
        other = Broker()
        async with (
            bridged(mosquitto, broker, **options) as bridge,
            bridged(mosquitto, other, **options) as far,
            mosquitto.client() as peer,
        ):
            for n in range(10):
                broker.publish(f"t/{n % 3}", b"%d" % (n % 2))
            other.publish("far", b"x")
            await until(lambda: bridge.sent == 10 and far.received == 10)
            await peer.publish("t/1", b"1", qos=1)  # equal to an echo, and not one
            await until(lambda: bridge.received == 2)
            await asyncio.sleep(0.1)
            assert (bridge.sent, bridge.received, far.sent, far.received) == (10, 2, 1, 11)
            assert got.queued == 12

    run(main())


def test_nothing_is_lost_while_the_broker_is_down(mosquitto):
    async def main():
        broker = Broker()
        options = {"send": ["#"], "qos": 1, "maxlen": 4, "policy": "block"}
        async with bridged(mosquitto, broker, **options) as bridge:
            for turn in range(2):
                mosquitto.kill()
                publishing = asyncio.create_task(publish_all(broker, turn))
                await asyncio.sleep(0.1)
                assert not publishing.done() and bridge.out.full()
                mosquitto.start()
                assert max(await publishing) <= 1
                await until(lambda: bridge.sent == 20 * (turn + 1))
                assert bridge.out.dropped == 0 and bridge.connects >= turn + 2
                async with mosquitto.client() as peer:
                    await peer.subscribe("#")
                    kept = await messages(peer, 20)
                assert sorted(kept) == sorted((f"{turn}/{n}", b"%d" % n, True) for n in range(20))

    async def publish_all(broker, turn):
        return [
            await broker.publish_wait(f"{turn}/{n}", b"%d" % n, retain=True) for n in range(20)
        ]

    run(main())


def test_offline_queue_has_a_bound_and_counts(mosquitto):
    async def main():
        broker = Broker()
        async with bridged(mosquitto, broker, send=["#"], maxlen=4) as bridge:
            mosquitto.kill()
            await until(lambda: not bridge.connected)
            assert [broker.publish("t", n) for n in range(6)] == [0, 0, 0, 0, 1, 1]
            mosquitto.start()
            async with mosquitto.client() as peer:
                await peer.subscribe("t")
                await until(lambda: bridge.connected)
                broker.publish("t", "end")
                payloads = [m[1] for m in await messages(peer, 1)]
                while payloads[-1] != b"end":
                    payloads += [m[1] for m in await messages(peer, 1)]
            # 0 and 1 were dropped; the rest may have come before the peer subscribed.
            assert bridge.out.dropped == 2 and bridge.sent == 5
            assert payloads == [b"2", b"3", b"4", b"5", b"end"][-len(payloads) :]

    run(main())


def test_cancelling_leaves_nothing_behind(mosquitto):
    async def main():
        broker = Broker()
        before = asyncio.all_tasks()
        async with bridged(mosquitto, broker, send=["#"]):
            assert broker.sinks()
        assert not broker.sinks() and asyncio.all_tasks() == before

    run(main())


def test_bad_arguments_are_named():
    broker = Broker()
    for error, name, options in (
        (ValueError, "qos", {"qos": 2}),
        (TypeError, "send", {"send": "t/#"}),
        (TypeError, "receive", {"receive": "t"}),
        (ValueError, "filter", {"send": ["a/#/b"]}),
        (ValueError, "retry", {"retry": (2, 1)}),
        (ValueError, "policy", {"policy": "x"}),
        (TypeError, "maxlen", {"maxlen": "x"}),
    ):
        with pytest.raises(error, match=name):
            mqtt.Bridge(broker, None, **options)


_DEVICE = """
import asyncio_alt as asyncio
asyncio.install()
import aiomqttc
aiomqttc.TimeoutError = asyncio.TimeoutError  # MicroPython has no such builtin
aiomqttc.log = lambda text: None  # it asks an RTC, which the unix port has not
%s
from asyncio_alt.pubsub import Broker, mqtt


async def main():
    broker = Broker()
    client = aiomqttc.MQTTClient(client_id="board", server="127.0.0.1", port=%d, keepalive=5)
    bridge = mqtt.Bridge(broker, (%s)(client), send=["t/#"], receive=["cmd/#"],
                         remote="pico/", qos=1, retry=(0.1, 0.2))
    got = broker.subscribe("cmd/#")
    task = asyncio.create_task(bridge.run())
    while not bridge.connected:
        await asyncio.sleep_ms(10)
    print("connected")
    async for topic, payload in got:
        print(topic, payload)
        broker.publish("t/answer", payload, retain=True)
        if payload == b"end":
            break
    while bridge.sent < bridge.received:
        await asyncio.sleep_ms(10)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("ended", bridge.sent, bridge.received, bridge.connects, len(broker.sinks()))


asyncio.run(main())
"""


# mqtt_as is in no package index. What a bridge needs of it, made of another client.
_LIKE_MQTT_AS = """
class Messages(asyncio.Queue):
    def __aiter__(self):
        return self

    def __anext__(self):
        return self.get()


class LikeMqttAs:
    def __init__(self, client):
        self.client = client
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self.queue = Messages()
        client.on_message = self.message

    async def message(self, _, topic, payload, retain):
        self.queue.put_nowait((topic.encode(), payload, bool(retain)))

    async def connect(self):
        asyncio.create_task(self.keep())
        await self.up.wait()

    async def keep(self):
        while True:
            while not await self.client.connect():
                await asyncio.sleep_ms(50)
            self.up.set()
            while not self.client.protocol.stream.at_eof():
                await asyncio.sleep_ms(50)
            self.down.set()
            await self.client.handle_disconnect()

    async def subscribe(self, topic, qos):
        await self.client.subscribe(topic, qos)

    async def publish(self, topic, payload, retain, qos):
        while not await self.client.publish(topic, payload, qos, retain):
            await asyncio.sleep_ms(50)
"""


@pytest.mark.parametrize(
    "more, adapter",
    [("", "mqtt.AioMqttc"), (_LIKE_MQTT_AS, "lambda c: mqtt.MqttAs(LikeMqttAs(c))")],
    ids=["aiomqttc", "mqtt_as"],
)
def test_on_micropython_with_a_broker_that_is_killed(mosquitto, more, adapter):
    async def main():
        script = _DEVICE % (more, mosquitto.port, adapter)
        path = [ROOT, source.from_pypi(*_AIOMQTTC), ".frozen"]
        board = await asyncio.create_subprocess_exec(
            micropython(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "MICROPYPATH": ":".join(map(str, path))},
        )
        try:
            board.stdin.write(script.encode())
            board.stdin.write_eof()
            said = asyncio.create_task(lines(board.stdout))
            for payload in b"1", b"end":
                async with mosquitto.client() as peer:
                    await peer.subscribe("pico/t/#")
                    answer = asyncio.create_task(messages(peer, 1))
                    while not answer.done():  # until the board has subscribed
                        await peer.publish("pico/cmd/led", payload, qos=1)
                        await asyncio.sleep(0.3)
                    assert answer.result()[0][:2] == ("pico/t/answer", payload)
                if payload == b"1":
                    mosquitto.kill()
                    await asyncio.sleep(0.1)
                    mosquitto.start()
            got = await said
            assert got[0] == "connected" and "cmd/led b'1'" in got, got
            assert got[-1].startswith("ended") and got[-1].endswith(" 2 1"), got
        finally:
            with contextlib.suppress(ProcessLookupError):
                board.kill()

    async def lines(stream):
        return (await stream.read()).decode().splitlines()

    run(main())
