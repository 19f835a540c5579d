"""The bridge on MicroPython, with clients that are written for it."""

import asyncio
import contextlib
import os
import subprocess

import pytest

from tests.host.bridges import messages, run
from tools import Unavailable
from tools.bench import pubsub
from tools.bootstrap import ROOT
from tools.build import source
from tools.targets.unix import micropython

_AIOMQTTC = "aiomqttc", "1.0.7"

_DEVICE = """
import asyncio_alt as asyncio
asyncio.install()
import aiomqttc
aiomqttc.TimeoutError = asyncio.TimeoutError  # MicroPython has no such builtin
aiomqttc.log = lambda text: None  # it asks an RTC, which the unix port lacks
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


# mqtt_as is in no package index. This has the parts that a bridge needs, made from another client.
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


# mqtt_as itself, from the folder that --mqtt-as names. The unix port has no WiFi.
_MQTT_AS = """
import machine, sys


class network:
    STA_IF = 0

    class WLAN:
        def __init__(self, _):
            pass

        def active(self, *_):
            return True

        isconnected = connect = disconnect = config = active


class board:
    unique_id = staticmethod(lambda: b"board")


sys.modules["network"] = network
sys.modules["machine"] = board


def real(port):
    import mqtt_as

    options = {"server": "127.0.0.1", "port": port, "queue_len": 8, "client_id": "board"}
    return mqtt_as.MQTTClient(dict(mqtt_as.config, **options))
"""


@pytest.mark.parametrize(
    "more, adapter",
    [
        ("", "mqtt.AioMqttc"),
        (_LIKE_MQTT_AS, "lambda c: mqtt.MqttAs(LikeMqttAs(c))"),
        (_MQTT_AS, "lambda c: mqtt.MqttAs(real(c.port))"),
    ],
    ids=["aiomqttc", "like mqtt_as", "mqtt_as"],
)
def test_on_micropython_with_a_broker_that_is_killed(mosquitto, request, more, adapter):
    folder = request.config.option.mqtt_as
    if more is _MQTT_AS and not folder:
        pytest.skip("no --mqtt-as")

    async def main():
        script = _DEVICE % (more, mosquitto.port, adapter)
        board = await started(script, folder or "")
        try:
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


async def started(script, *path):
    """A process of MicroPython that runs this."""
    path = [ROOT, source.from_pypi(*_AIOMQTTC), *path, ".frozen"]
    board = await asyncio.create_subprocess_exec(
        micropython(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "MICROPYPATH": ":".join(map(str, path))},
    )
    board.stdin.write(script.encode())
    board.stdin.write_eof()
    return board


_ODD_MQTT_AS = """
async def main():
    client = aiomqttc.MQTTClient(client_id="board", server="127.0.0.1", port=%d)
    try:
        mqtt.MqttAs(client)
    except ValueError as er:
        print("queue_len" in str(er))
    like = LikeMqttAs(client)
    adapter = mqtt.MqttAs(like)
    broker = Broker()
    got = broker.subscribe("#")
    asyncio.get_event_loop().set_exception_handler(lambda *_: None)
    for n in range(3):
        bridge = mqtt.Bridge(broker, adapter, send=["#"], receive=["cmd"], qos=1, timeout=2)
        async with bridge:
            broker.publish("t", b"1")
            await bridge.drain()
            got.get_nowait()
            like.queue.put_nowait((b"\\xff", b"", False, None))
            like.queue.put_nowait((b"cmd", b"%%d" %% n, False, {1: 2}))
            print(await got.get(), bridge.connects, bridge.sent, bridge.refused)


asyncio.run(main())
"""


def test_mqtt_as_with_properties_and_bytes_that_are_no_topic_serves_bridge_after_bridge(mosquitto):
    async def main():
        head = _DEVICE.split("async def main")[0] % _LIKE_MQTT_AS
        board = await started(head + _ODD_MQTT_AS % mosquitto.port)
        said = (await board.stdout.read()).decode().splitlines()
        assert said == ["True", *(f"('cmd', b'{n}') 1 1 1" for n in range(3))]

    run(main())


def test_qos_1_is_8_times_as_fast_as_one_message_at_a_time():
    try:
        rates = pubsub.acknowledged(80)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert rates["bridge"] > 8 * rates["aiomqttc"]
