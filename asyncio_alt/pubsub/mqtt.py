"""Bridge: a Broker joined to an MQTT broker, through a client that the program has."""

import json
import time

from .. import Event, create_task, gather, sleep
from .broker import matches
from .channel import Subscription
from .waiter import report

_ECHO_S = 10  # how long the echo of a message is waited for


def encode(payload):
    """A payload as MQTT has it (bytes): bytes-like as it is, str in UTF-8, None empty, all else as
    JSON. TypeError, or ValueError on CPython, if it has no JSON."""
    if payload is None:
        return b""
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    return json.dumps(payload).encode()


class _Out(Subscription):
    # What waits to be sent: as a payload each has (bytes, whether it is retained).
    def put(self, topic, payload, retain=False, ticket=None):
        return super().put(topic, (encode(payload), bool(retain)), retain, ticket)

    put_wait = put


class Bridge:
    """Joins broker (a Broker) to an MQTT broker while run() runs, or in an `async with`.

    client: an adapter (AioMqttc, MqttAs, AioMqtt) or what has its methods. send, receive: filters
    (iterables of str) of the topics that go to MQTT, and that come from there. local, remote: what
    the topics begin with on either side ahead of what the filters name: send=["t/#"],
    remote="pico/" sends "t/1" as "pico/t/1". qos: 0 or 1, both ways. maxlen, policy: of the queue
    of what is to be sent, as for Broker.subscribe(); it holds while there is no connection.
    retry: the first and the longest pause in s between two attempts to connect.

    A message that came from MQTT is not sent back there; one that MQTT sends back because a
    filter of receive matches it too is dropped. With QoS 1 a message is kept until MQTT has
    acknowledged it, and then may come there twice. A last will is the client's to set.

    connected: bool; sent, received: how many messages; connects: how often it connected; error:
    the exception that ended the last connection, or attempt; out: the queue, with its `queued` and
    `dropped`. ValueError, TypeError for bad arguments."""

    def __init__(
        self,
        broker,
        client,
        *,
        send=(),
        receive=(),
        local="",
        remote="",
        qos=0,
        maxlen=32,
        policy="drop_old",
        retry=(1, 60),
    ):
        if qos not in (0, 1):
            raise ValueError("qos must be 0 or 1")
        for name, filters in (("send", send), ("receive", receive)):
            if isinstance(filters, str):
                raise TypeError(name + " must be a list of filters")
        self._send = [local + f for f in send]
        self._receive = [remote + f for f in receive]
        for f in self._send + self._receive:
            matches(f, "x")  # raises if it is none
        first, longest = retry
        if not 0 < first <= longest:
            raise ValueError("retry must be two numbers of s, the first one at most the second")
        self._broker = broker
        self._client = client
        self._local = local
        self._remote = remote
        self._qos = qos
        self._retry = retry
        self._unsent = None  # the message that is being sent
        self._sent = Event()  # none is, and none waits
        self._echoes = []  # (topic, payload, time) of those that MQTT is to send back
        self.out = _Out(broker, "mqtt", maxlen, policy, False)
        self.connected = False
        self.sent = self.received = self.connects = 0
        self.error = None

    async def run(self):
        """Keeps the two joined until it is cancelled."""
        for f in self._send:
            self._broker.attach(f, self.out)
        pause, longest = self._retry
        try:
            while True:
                try:
                    await self._session()
                except Exception as er:
                    self.error = er
                if self.connected:
                    self.connected = False
                    pause = self._retry[0]
                await sleep(pause)
                pause = min(2 * pause, longest)
        finally:
            self.connected = False
            for f in self._send:
                self._broker.detach(f, self.out)

    async def _session(self):
        # Runs until the connection is lost; raises why.
        client = self._client
        self._echoes.clear()
        tasks = []
        try:
            await client.connect()
            tasks.append(create_task(client.receive(self._put)))
            for f in self._receive:
                await client.subscribe(f, self._qos)
            self.connected = True
            self.connects += 1
            tasks.append(create_task(self._sending()))
            await gather(*tasks)
            raise OSError("the MQTT client has ended")
        finally:
            for t in tasks:
                t.cancel()
            await gather(*tasks, return_exceptions=True)
            try:
                await client.disconnect()
            except Exception:
                pass  # what ended the connection is raised already

    async def _sending(self):
        while True:
            if not self._unsent:
                self._unsent = await self.out.get()
            topic, (payload, retain) = self._unsent
            topic = self._remote + topic[len(self._local) :]
            for f in self._receive:
                if matches(f, topic):
                    self._echoes = self._echoes[-63:]
                    self._echoes.append((topic, payload, time.time()))
                    break
            await self._client.publish(topic, payload, self._qos, retain)
            self._unsent = None
            self.sent += 1
            if not self.out.queued:
                self._sent.set()

    async def drain(self):
        """Waits until all that was queued is sent."""
        while self.out.queued or self._unsent:
            self._sent.clear()
            await self._sent.wait()

    async def __aenter__(self):
        self._task = create_task(self.run())
        return self

    async def __aexit__(self, *exc):
        self._task.cancel()
        await gather(self._task, return_exceptions=True)

    def _echo(self, topic, payload):
        # Whether this is what we have sent ourselves.
        for echo in self._echoes:
            if echo[0] == topic and echo[1] == payload:
                self._echoes.remove(echo)
                return abs(time.time() - echo[2]) <= _ECHO_S
        return False

    def _put(self, topic, payload, retain):
        # The client has received this.
        if not topic.startswith(self._remote) or self._echo(topic, payload):
            return
        topic = self._local + topic[len(self._remote) :]
        if retain:
            for _, known in self._broker.retained(topic):
                if encode(known) == payload:
                    return  # from an earlier connection, or from here
        self.received += 1
        try:
            self._broker.publish(topic, payload, retain, self.out)
        except Exception as er:
            report("Exception in an MQTT bridge", er)


# Adapters. Each has
#   connect(), disconnect()              the latter also after a failure
#   subscribe(filter, qos)
#   publish(topic, payload, qos, retain) returns when it is sent, with QoS 1 acknowledged
#   receive(put)                         calls put(topic, payload, retain) for what comes
# and raises any Exception when there is no connection, or no longer.


class _Adapter:
    def __init__(self, client):
        self._c = client


class AioMqttc(_Adapter):
    """Adapter for an MQTTClient of aiomqttc, for MicroPython. It connects when the bridge says so;
    its own reconnection stays off, as it is by default."""

    async def connect(self):
        if not await self._c.connect():
            raise OSError("MQTT: no connection")

    async def disconnect(self):
        self._c.on_message = None
        await self._c.disconnect()
        await self._c.handle_disconnect()

    async def subscribe(self, filter, qos):
        await self._c.subscribe(filter, qos)

    async def publish(self, topic, payload, qos, retain):
        if not await self._c.publish(topic, payload, qos, retain):
            raise OSError("MQTT: not acknowledged")

    async def receive(self, put):
        async def message(_, topic, payload, retain):
            put(topic, payload, retain)

        c = self._c
        c.on_message = message
        while c.connected and not c.protocol.stream.at_eof():
            await sleep(1)  # it does not tell
        raise OSError("MQTT: connection lost")


class MqttAs(_Adapter):
    """Adapter for an MQTTClient of mqtt_as whose config["queue_len"] is 1 or more. It reconnects
    by itself."""

    _begun = False

    async def connect(self):
        if self._begun:
            await self._c.up.wait()
        else:
            await self._c.connect()
            self._begun = True
        self._c.up.clear()

    async def disconnect(self):
        pass  # it would not connect again

    async def subscribe(self, filter, qos):
        await self._c.subscribe(filter, qos)

    async def publish(self, topic, payload, qos, retain):
        await self._c.publish(topic, payload, retain, qos)

    async def receive(self, put):
        task = create_task(self._messages(put))
        try:
            await self._c.down.wait()
            self._c.down.clear()
        finally:
            task.cancel()
        raise OSError("MQTT: connection lost")

    async def _messages(self, put):
        async for topic, payload, retain in self._c.queue:
            put(topic.decode(), bytes(payload), retain)


class AioMqtt(_Adapter):
    """Adapter for a Client of aiomqtt, for CPython."""

    _entered = False

    async def connect(self):
        await self._c.__aenter__()
        self._entered = True

    async def disconnect(self):
        if self._entered:
            self._entered = False
            await self._c.__aexit__(None, None, None)

    async def subscribe(self, filter, qos):
        await self._c.subscribe(filter, qos)

    async def publish(self, topic, payload, qos, retain):
        await self._c.publish(topic, payload, qos, retain)

    async def receive(self, put):
        async for m in self._c.messages:
            put(str(m.topic), m.payload, m.retain)
