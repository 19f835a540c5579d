"""Adapters: the methods that a Bridge needs of an MQTT client, for each known client."""

import sys

from .. import CancelledError, Event, TimeoutError, create_task, sleep, wait_for
from .compat import report, ticks_diff, ticks_ms

if sys.implementation.name != "micropython":
    from .. import Future, wait

_MANY = 65535  # messages of QoS 1 under way, if MQTT sets no limit

# Each adapter has
#   connect(), disconnect()              the latter also after a failure
#   subscribe(filter, qos)
#   publish(topic, payload, qos, retain) returns when it is sent, with QoS 1 acknowledged
#   receive(put)                         calls put(topic, payload, retain) for each message
# and raises any Exception when there is no connection, or no longer. It may have
#   window        how many messages of QoS 1 MQTT lets be under way
#   as_published  True: retain is as it was published, not only after a subscription
#   connect_s     how long connect() may take, if that is more than timeout


class Calls:
    # A client's coroutines, each in a task of its own: so their time and their exceptions,
    # CancelledError too, do not hit the bridge's own task.
    def __init__(self):
        self._error = None  # the first that one raised
        self._tasks = {}  # number: Task
        self._number = 0
        self._changed = Event()  # one has ended

    def start(self, fn, *args):
        """Runs fn(*args) until it ends, or stop()."""
        self._number = n = self._number + 1
        task = create_task(self._run(n, fn, args))
        if not task.done():  # CPython's eager tasks
            self._tasks[n] = task

    async def _run(self, n, fn, args):
        try:
            await fn(*args)
        except (Exception, CancelledError) as er:
            self._error = self._error or er
        self._tasks.pop(n, None)
        self._changed.set()

    async def call(self, limit, fn, *args):
        """Runs it to its end, in up to limit seconds; raises the exception of it, or of another
        one meanwhile."""
        done = []

        async def run():
            await fn(*args)
            done.append(True)

        self.start(run)
        try:
            await wait_for(self.failed(done), limit)
        except TimeoutError:
            raise OSError("MQTT: the client takes longer than " + str(limit) + " s")

    async def failed(self, done=()):
        """Until one has raised, which is raised here, or something is in done."""
        while not done:
            if self._error:
                if isinstance(self._error, CancelledError):
                    raise OSError("MQTT: the client was cancelled")
                raise self._error
            self._changed.clear()
            await self._changed.wait()

    async def stop(self, limit):
        """Cancels all. Tasks that have not ended within limit seconds are left behind."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        begin = ticks_ms()
        pause = 0
        while not all([task.done() for task in tasks]):
            if ticks_diff(ticks_ms(), begin) > limit * 1000:
                report("MQTT bridge", OSError("the client does not end when it is cancelled"))
                break
            await sleep(pause)
            pause = min(pause + 0.001, 0.02)


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
        self._c.protocol._pending_pubacks.clear()  # of publish() that was cancelled

    async def subscribe(self, filter, qos):
        await self._c.subscribe(filter, qos)

    async def publish(self, topic, payload, qos, retain):
        # It would connect by itself.
        if not (self._c.connected and await self._c.publish(topic, payload, qos, retain)):
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
    """Adapter for an MQTTClient of mqtt_as with a config["queue_len"] of 1 or more: ValueError
    otherwise. It reconnects by itself, and stays connected when the bridge has ended."""

    connect_s = 90  # the first time it waits for the WiFi, too

    def __init__(self, client):
        if not hasattr(client, "queue"):
            raise ValueError('client: its config["queue_len"] must be 1 or more')
        super().__init__(client)
        self._begun = False
        self._up = False  # until `down` is set

    async def connect(self):
        c = self._c
        if not self._begun:
            await c.connect()
            self._begun = True
        if c.down.is_set():
            c.down.clear()
            self._up = False
        if not self._up:
            await c.up.wait()
            c.up.clear()
            self._up = True

    async def disconnect(self):
        pass  # it would not connect again

    async def subscribe(self, filter, qos):
        await self._c.subscribe(filter, qos)

    async def publish(self, topic, payload, qos, retain):
        await self._c.publish(topic, payload, retain, qos)

    async def receive(self, put):
        calls = Calls()
        calls.start(self._messages, put)
        calls.start(self._lost)
        try:
            await calls.failed()
        finally:
            await calls.stop(1)

    async def _lost(self):
        await self._c.down.wait()
        raise OSError("MQTT: connection lost")

    async def _messages(self, put):
        async for message in self._c.queue:
            topic = message[0]  # with mqttv5 there are properties after the flag
            try:
                topic = str(topic, "utf-8")
            except ValueError:
                pass  # the bridge refuses it
            put(topic, bytes(message[1]), message[2])
        raise OSError("MQTT: the queue has ended")


class AioMqtt(_Adapter):
    """Adapter for a Client of aiomqtt, for CPython. With protocol=V5 it asks for MQTT 5's
    retain-as-published, and keeps to the broker's receive maximum."""

    def __init__(self, client):
        super().__init__(client)
        self._entering = None  # the Task that connects, which nobody may cancel
        self._wanted = self._entered = False
        paho = client._client
        self.as_published = paho.protocol == 5
        client.pending_calls_threshold = max(client.pending_calls_threshold, _MANY)
        connected = paho.on_connect

        def on_connect(client, userdata, flags, reason, properties=None):
            self.window = getattr(properties, "ReceiveMaximum", _MANY)
            connected(client, userdata, flags, reason, properties)

        paho.on_connect = on_connect

    async def connect(self):
        # If it were cancelled, aiomqtt would refuse to be entered again.
        self._wanted = True
        if not self._entering:
            self._entering = create_task(self._c.__aenter__())
        await wait([self._entering])
        entering = self._entering
        self._entering = None
        entering.result()
        self._entered = True

    async def disconnect(self):
        self._wanted = False
        entering = self._entering
        if entering:
            await wait([entering], timeout=1)
            if not entering.done():
                entering.add_done_callback(self._late)
                return
            self._entering = None
            self._entered = not entering.cancelled() and not entering.exception()
        try:
            if self._entered:
                self._entered = False
                await self._c.__aexit__(None, None, None)
        finally:
            self._clear()

    def _late(self, _):
        if not self._wanted:
            self._leaving = create_task(self.disconnect())

    def _clear(self):
        # Clear the state that aiomqtt and paho keep of a lost connection. With it they would not
        # wait for the next CONNACK, and would send messages that the bridge sends again itself,
        # or has given up.
        c = self._c
        paho = c._client
        paho._sock_close()
        paho.drop_out_messages()
        paho._inflight_messages = 0
        if c._connected.done():
            c._connected = Future()
        if c._lock.locked():
            c._lock.release()

    async def subscribe(self, filter, qos):
        if self.as_published:
            paho = sys.modules["paho.mqtt.subscribeoptions"]  # aiomqtt has imported it
            options = paho.SubscribeOptions(qos, retainAsPublished=True)
            await self._c.subscribe(filter, options=options)
        else:
            await self._c.subscribe(filter, qos)

    async def publish(self, topic, payload, qos, retain):
        await self._c.publish(topic, payload, qos, retain)

    async def receive(self, put):
        async for m in self._c.messages:
            put(str(m.topic), m.payload, m.retain)
