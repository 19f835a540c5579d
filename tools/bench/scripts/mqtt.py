# Messages of QoS 1 to an MQTT broker, each acknowledged: with aiomqttc alone, one after the
# other, and through a Bridge. Prints messages a second.

import time

import asyncio_alt as asyncio

asyncio.install()
aiomqttc = __import__("aiomqttc")  # after install()
Broker, mqtt = asyncio.pubsub.Broker, asyncio.pubsub.mqtt

aiomqttc.TimeoutError = asyncio.TimeoutError
aiomqttc.log = lambda text: None


async def measure(port, n):
    client = aiomqttc.MQTTClient(client_id="board", server="127.0.0.1", port=port)
    await client.connect()
    begin = time.ticks_ms()
    for _ in range(n // 10):
        assert await client.publish("t", b"x", 1)
    bare = n * 100 / time.ticks_diff(time.ticks_ms(), begin)
    await client.disconnect()
    broker = Broker()
    bridge = mqtt.Bridge(broker, mqtt.AioMqttc(client), send=["t"], qos=1, policy="block")
    async with bridge:
        while not bridge.connected:
            await asyncio.sleep_ms(10)
        begin = time.ticks_ms()
        for _ in range(n):
            await broker.publish_wait("t", b"x")
        await bridge.drain()
        print(bare, n * 1000 / time.ticks_diff(time.ticks_ms(), begin))
        assert bridge.sent == n
