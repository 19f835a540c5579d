"""Bridge: a Broker joined to an MQTT broker, through a client that the program has."""

import json

from .. import Event, TimeoutError, create_task, gather, sleep, wait_for
from .broker import matches
from .compat import report, ticks_diff, ticks_ms
from .mqtt_client import AioMqtt as AioMqtt
from .mqtt_client import AioMqttc as AioMqttc
from .mqtt_client import Calls
from .mqtt_client import MqttAs as MqttAs
from .subscription import Subscription

try:
    from micropython import const
except ImportError:

    def const(value):
        return value


_ECHO_MS = const(10_000)  # how long the echo of a message is waited for
_ECHOES = const(64)  # of how many messages
_TRIES = const(3)  # how often a message may end the connection
_WINDOW = const(16)  # how many of QoS 1 are under way; Mosquitto's own limit is 20
_STEADY_S = const(1)  # after that a connection is no failure
_LIVE = const(32)  # how many topics' last messages are remembered
_ASK_S = 0.2  # the pause before the broker is asked for its retained messages,
_ASK_EACH_S = 0.02  # and so much more for each message of the last answer


def encode(payload):
    """A payload as MQTT has it (bytes): bytes-like as it is, str in UTF-8, None empty, all else as
    JSON. TypeError or ValueError if it has no JSON."""
    if payload is None:
        return b""
    if isinstance(payload, str):
        return payload.encode()
    if not isinstance(payload, (bool, int, float, list, tuple, dict)):
        try:
            return bytes(memoryview(payload))
        except TypeError:
            pass
    _check(payload)
    return json.dumps(payload).encode()


def _check(value):
    # MicroPython's json writes values that have no JSON, too.
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError("payload: a key in JSON must be a str")
            _check(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check(item)
    elif isinstance(value, float):
        if value - value != 0:
            raise ValueError("payload: inf and nan have no JSON")
    elif value is not None and not isinstance(value, (str, int)):
        raise TypeError("payload: a " + type(value).__name__ + " has no JSON")


def _tell(text, topic, er):
    # Reports a message that is given up.
    try:
        text = text + repr(topic)
    except MemoryError:
        pass
    report(text, er)


class _Out(Subscription):
    # The messages to be sent: as a payload each has (bytes, whether it is retained).
    def put(self, topic, payload, retain=False, ticket=None):
        bridge = self.bridge
        if not topic.startswith(bridge._local):
            return 0  # "a" matches the filter "a/#"
        try:
            message = (encode(payload), bool(retain))
            bridge._there(topic)
        except Exception as er:
            bridge._give_up(topic, er)
            return 1
        return super().put(topic, message, retain, ticket)

    put_wait = put

    def holds(self, topic):
        # Whether a retained message of a topic waits.
        last = None
        for item in self._queue:
            if last == topic and item[1]:
                return True
            last = item
        return False


class Bridge:
    """Joins broker (a Broker) to an MQTT broker while run() runs, or in an `async with`.

    client: an adapter (AioMqttc, MqttAs, AioMqtt) or an object with its methods. send, receive:
    filters (iterables of str) of the topics that go to MQTT, and that come from there. local,
    remote: the prefix of the topics on either side, which the filters leave out: send=["t/#"],
    remote="pico/" sends "t/1" as "pico/t/1". qos: 0 or 1, both ways. maxlen, policy: of the queue
    of messages to be sent, as for Broker.subscribe(); it holds while there is no connection.
    retry: the first and the longest pause in s between two attempts to connect. timeout: how
    long each call of the client may take, in s.

    A message that came from MQTT is not sent back there; one that MQTT sends back because a
    filter of receive matches it too is dropped. With QoS 1 a message is kept until MQTT has
    acknowledged it, and then may come there twice. One that cannot be sent, or ends the connection
    three times, is given up and reported. A last will is the client's to set.

    connected: bool; sent, received: how many messages; refused: how many were given up, those on
    the way to MQTT also count as out.dropped; connects: how often it connected; error:
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
        timeout=10,
    ):
        if qos not in (0, 1):
            raise ValueError("qos must be 0 or 1")
        for name, prefix in (("local", local), ("remote", remote)):
            if not isinstance(prefix, str):
                raise TypeError(name + " must be a str")
            if "+" in prefix or "#" in prefix or "\0" in prefix:
                raise ValueError(name + " must not have +, # or a zero byte")
        for name, filters in (("send", send), ("receive", receive)):
            if isinstance(filters, str):
                raise TypeError(name + " must be a list of filters")
        self._send = [local + f for f in send]
        self._receive = [remote + f for f in receive]
        for f in self._send + self._receive:
            matches(f, "x")  # raises if it is invalid
        first, longest = retry
        if not 0 < first <= longest:
            raise ValueError("retry must be two numbers of s, the first one at most the second")
        if not timeout > 0:
            raise ValueError("timeout must be a number of s above 0")
        self._broker = broker
        self._client = client
        self._as_published = getattr(client, "as_published", False)
        self._local = local
        self._remote = remote
        self._qos = qos
        self._retry = retry
        self._timeout = timeout
        self._joined = self._running = False
        self._calls = None  # of this connection
        self._steady = False  # it has lasted for a while
        # Not acknowledged yet: [topic, payload, retain, tries], the oldest first.
        self._unsent = []
        self._under_way = 0  # so many of these, from the first one on
        self._suspects = 0  # so many are sent one by one: any of them may have ended a connection
        self._room = Event()  # less are under way
        self._sent = Event()  # none is unsent, and none waits
        self._echoes = []  # (topic, payload, retain, time) of those that MQTT is to send back
        self._turn = 0  # the number of this connection
        self._kept = {}  # a topic that MQTT retains: the number of the connection that told so
        self._live = {}  # topic: hash of the last message that was not marked as retained
        self._marked = 0  # how many were, lately
        self._unsure = []  # filters: their messages may be retained there
        self._news = Event()  # there are such
        self.out = _Out(broker, "mqtt", maxlen, policy, False)
        self.out.bridge = self
        self.connected = False
        self.sent = self.received = self.refused = self.connects = 0
        self.error = None

    # Running

    def _join(self):
        # Also takes the counts out of the broker's own again, where _part() has put them.
        if not self._joined:
            self._joined = True
            self._count(-1)
            for f in self._send:
                self._broker.attach(f, self.out)

    def _part(self):
        if self._joined:
            self._joined = False
            self._count(1)
            for f in self._send:
                try:
                    self._broker.detach(f, self.out)
                except ValueError:
                    pass  # somebody has done so

    def _count(self, sign):
        self._broker._delivered += sign * self.out.delivered
        self._broker._dropped += sign * self.out.dropped

    async def run(self):
        """Keeps the two joined until it is cancelled. RuntimeError if it runs already."""
        if self._running:
            raise RuntimeError("this bridge runs already")
        self._running = True
        pause, longest = self._retry
        try:
            self._join()
            while True:
                self._steady = False
                try:
                    await self._connection()
                except Exception as er:
                    self.error = er
                self.connected = False
                if self._steady:
                    pause = self._retry[0]
                await sleep(pause)
                pause = min(2 * pause, longest)
        finally:
            self.connected = self._running = False
            self._part()

    async def _connection(self):
        # Runs until the connection is lost; raises why.
        client = self._client
        limit = self._timeout
        calls = Calls()
        self._echoes.clear()
        self._unsure.clear()
        self._marked = 0
        self._turn += 1
        self._suspects = len(self._unsent)
        try:
            await calls.call(max(limit, getattr(client, "connect_s", 0)), client.connect)
            self._calls = calls
            calls.start(self._receiving)
            for f in self._receive:
                await calls.call(limit, client.subscribe, f, self._qos)
            self.connected = True
            self.connects += 1
            calls.start(self._sending, calls)
            if not self._as_published:
                calls.start(self._asking, calls)
            await self._watch(calls)
        except Exception as er:
            if self._under_way == 1:  # alone, so it may be the reason
                self._blame(self._unsent[0], er)
            raise
        finally:
            self._calls = None
            self._under_way = 0
            await calls.stop(limit)
            calls = Calls()
            try:
                await calls.call(limit, client.disconnect)
            except Exception:
                pass  # the error that ended the connection is raised already
            await calls.stop(limit)

    async def _receiving(self):
        await self._client.receive(self._put)
        raise OSError("the MQTT client has ended")

    async def _watch(self, calls):
        # Raises the error that ends the connection, or OSError if acknowledgements stop.
        pause = min(_STEADY_S, self._timeout)
        last = None
        while True:
            try:
                await wait_for(calls.failed(), pause)
            except TimeoutError:
                self._steady = True
                pause = self._timeout
                done = self._under_way and 1 + self.sent + self.refused
                if done and done == last:
                    raise OSError("MQTT: no end within " + str(pause) + " s of publish()")
                last = done

    # To MQTT

    def _there(self, topic):
        # The topic there. ValueError if it cannot be one.
        there = self._remote + topic[len(self._local) :]
        matches("#", there)
        return there

    def _give_up(self, topic, er):
        self.refused += 1
        self.out.dropped += 1
        _tell("MQTT bridge: given up, a message of ", topic, er)

    def _blame(self, message, er):
        message[3] += 1
        if message[3] >= _TRIES:
            self.out.delivered -= 1
            self._give_up(message[0], er)
            self._forget(message)

    def _forget(self, message):
        for i, one in enumerate(self._unsent):
            if one is message:
                self._unsent.pop(i)
                break
        if not (self._unsent or self.out.queued):
            self._sent.set()

    async def _sending(self, calls):
        # Has the messages sent in their order, up to _WINDOW of them at a time.
        unsent = self._unsent
        window = min(_WINDOW, getattr(self._client, "window", _WINDOW)) if self._qos else 1
        while True:
            while self._under_way >= (1 if self._suspects else window):
                self._room.clear()
                await self._room.wait()
            if self._under_way == len(unsent):
                topic, (payload, retain) = await self.out.get()
                unsent.append([topic, payload, retain, 0])
            message = unsent[self._under_way]
            self._under_way += 1
            if self._qos:
                calls.start(self._send_one, calls, message)
            else:
                await self._send_one(calls, message)

    async def _send_one(self, calls, message):
        topic, payload, retain, _ = message
        there = self._there(topic)
        for f in self._receive:
            if matches(f, there):
                if len(self._echoes) >= _ECHOES:
                    self._echoes.pop(0)
                self._echoes.append((there, payload, retain, ticks_ms()))
                if retain and payload:
                    self._kept[topic] = self._turn
                elif retain:
                    self._kept.pop(topic, None)
                break
        try:
            await self._client.publish(there, payload, self._qos, retain)
        except (TypeError, ValueError) as er:
            if calls is self._calls and self._under_way > 1:  # else it is blamed as the only one
                self._blame(message, er)
            raise
        if calls is self._calls:
            self.sent += 1
            self._under_way -= 1
            if self._suspects:
                self._suspects -= 1
            self._forget(message)
            self._room.set()

    async def drain(self):
        """Waits until all that was queued is sent, or given up."""
        while self.out.queued or self._unsent:
            self._sent.clear()
            await self._sent.wait()

    async def __aenter__(self):
        if self._joined:
            raise RuntimeError("this bridge runs already")
        self._join()
        self._task = create_task(self.run())
        return self

    async def __aexit__(self, *exc):
        self._task.cancel()
        await gather(self._task, return_exceptions=True)
        self._part()  # it may have been cancelled before it began

    # From MQTT

    def _put(self, topic, payload, retain):
        # The client has received this. Raises nothing: that would end the client.
        try:
            self._take(topic, payload, bool(retain))
        except Exception as er:
            self.refused += 1
            _tell("MQTT bridge: not published, a message of ", topic, er)

    def _take(self, there, payload, retain):
        if not there.startswith(self._remote):
            return
        topic = self._local + there[len(self._remote) :]
        known = self._broker._retained.get(topic, b"")
        same = _same(known, payload)
        as_published = self._as_published
        if not retain or as_published:
            echo = self._echo(there, payload)
            if echo:
                # It has come there after the message that came from there meanwhile.
                if echo[2] and not same and not self._is_newer(topic):
                    self._publish(topic, payload, True)
                return
        if retain:
            self._marked += 1
            # Whether it comes of a subscription; if not, it was published just now.
            old = not as_published or self._kept.get(topic) != self._turn
            self._kept[topic] = self._turn
            if old:
                if same or self._is_newer(topic):
                    return
                if self._live.get(topic) == hash(payload):
                    self._broker._retain(topic, payload)  # it is here already
                    return
        elif not as_published:
            # MQTT leaves the mark away in a message that a subscriber gets as it is published.
            retain = topic in self._kept
            if not retain:
                self._remember(topic, there, payload)
        self._publish(topic, payload, retain)

    def _publish(self, topic, payload, retain):
        self.received += 1
        if retain and not payload:
            self._kept.pop(topic, None)
        self._broker.publish(topic, payload, retain, self.out)

    def _is_newer(self, topic):
        # Whether a retained message of ours is still on its way.
        for message in self._unsent:
            if message[0] == topic and message[2]:
                return True
        return self.out.holds(topic)

    def _echo(self, there, payload):
        # The message that we have sent ourselves, if this is its echo.
        for i, echo in enumerate(self._echoes):
            if echo[0] == there and echo[1] == payload:
                self._echoes.pop(i)
                return echo if ticks_diff(ticks_ms(), echo[3]) <= _ECHO_MS else None

    def _remember(self, topic, there, payload):
        live = self._live
        if topic not in live and len(live) >= _LIVE:
            del live[next(iter(live))]
        live[topic] = hash(payload)
        for f in self._receive:
            if f not in self._unsure and matches(f, there):
                self._unsure.append(f)
                self._news.set()

    async def _asking(self, calls):
        # A new subscription has MQTT send its retained messages, with a mark. The more they are,
        # the more seldom it is asked for them.
        while True:
            self._news.clear()
            while not self._unsure:
                await self._news.wait()
            await sleep(_ASK_S + _ASK_EACH_S * self._marked)
            self._marked = 0
            filters = list(self._unsure)
            self._unsure.clear()
            for f in filters:
                await calls.call(self._timeout, self._client.subscribe, f, self._qos)


def _same(known, payload):
    # Whether a payload that is retained here is these bytes.
    try:
        return known == payload or encode(known) == payload
    except Exception:
        return False
