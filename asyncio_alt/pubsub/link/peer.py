"""Peer: all that a link has of the other end, from one connection to the next."""

import struct
from os import urandom

from ... import Event
from ..broker import matches
from ..compat import const, report, ticks_ms
from .codec import decode, encode, to_text, to_utf8
from .handshake import SIZE, Refused
from .mirror import Mirror
from .window import Window

# The frames, by their first byte; handshake and connection have others.
DATA = const(8)  # number, acknowledgement, kind, length of topic, topic, payload
ACK = const(9)  # acknowledgement alone: the number before which all has been delivered
_AGAIN = const(10)  # the number of the one that was lost, before which all has come

_KIND = const(3)  # these bits are codec's
_RETAIN = const(4)
HEAD = const(7)  # bytes before the topic

_TOPICS = const(32)  # topics that are remembered, at most

# A side's state: its session; the peer's session that it knows, and the number that it expects
# there; the number of the first message that it will send; the largest frame that it takes, its
# window, and its keep-alive in ms.
_STATE = "<8s8sHHIHI"

_DAY = const(86400000)  # ms
_CANNOT = "cannot carry"


class Peer:
    """Sends the messages of a broker that match `send` to the other end, and publishes those of
    the other end that match `receive`. It is a sink of the broker. All else as for Link, which has
    one peer.

    sink: the object that the broker is to know; None: the Peer."""

    def __init__(self, sink, broker, send, receive, secret, window, max_size, keepalive):
        for name, filters in (("send", send), ("receive", receive)):
            if isinstance(filters, str):
                raise TypeError(name + " must be a list of filters")
            for filter in filters:
                matches(filter, "t")  # raises if it is invalid
        if not isinstance(secret, (bytes, bytearray)):
            raise TypeError("secret must be bytes")
        if not 0 < window < 32768:
            raise ValueError("window must be 1 to 32767")
        if not 0 < max_size < 0x1000000:
            raise ValueError("max_size must be 1 to 16777215")
        keepalive *= 1000
        if not 0 < keepalive <= _DAY:
            raise ValueError("keepalive must be more than 0, and 86400 at most")
        self.connected = False
        self.delivered = self.received = self.dropped = self.resent = self.refused = 0
        self.error = None
        self.secret = bytes(secret)
        self.max_size = max(max_size + HEAD, SIZE)  # of a frame
        self.keepalive = int(keepalive)  # ms
        self.conn = None  # the connection, once hands are shaken
        self.session = None  # 8 bytes, from the first start() on: a fork must not copy them
        self.peer_session = bytes(8)
        self.window = Window(window)
        self.mirror = Mirror()
        self.store = None  # where payloads are put that do not go over the connection
        self.size = 0  # bytes that a frame may have which is sent
        self.moved = 0  # ticks of the last acknowledgement
        self._sink = sink or self
        self._broker = broker
        self._send = tuple(send)
        self._receive = tuple(receive)
        self.proved = None  # the last connection that has proved that it has the secret
        self.changed = Event()  # it is connected, or all is delivered
        self.on_change = None  # called when `connected` has changed
        self._heads = {}  # topic: the beginning of a frame, up to its payload
        self._late = []  # (topic, payload, retain, ticket): publish_wait() waits
        # The last message of this connection waits for room in the broker. Until it has room, also
        # later connections are not read: so one message is held, at most.
        self.held = None
        self._topics = {}  # a topic's bytes: (the topic, whether it matches `receive`)

    # Its life

    def start(self):
        """Becomes a sink of the broker."""
        self.session = self.session or urandom(8)
        for filter in self._send:
            self._broker.attach(filter, self._sink)
        self.mirror.start(self._retained())

    def stop(self):
        """Ends that."""
        for filter in self._send:
            self._broker.detach(filter, self._sink)
        self.give_up()
        self.mirror.close(self._retained())

    def _retained(self):
        found = {}
        for filter in self._send:
            found.update(self._broker.retained(filter))
        return found

    # Its connections

    def state(self, conn):
        """Returns this end's state (bytes), for a connection that has proved that it has the
        secret."""
        # The state sent here must still hold in up(): so one connection stays, the last one; the
        # other end has given up those before.
        other = self.proved
        if other and other is not conn:
            other.give_up(EOFError("another connection has taken its place"))
        self.proved = conn
        conn.peer = self
        w = self.window
        return struct.pack(
            _STATE,
            self.session,
            self.peer_session,
            w.delivered,
            w.first,
            self.max_size,
            w.most,
            self.keepalive,
        )

    def up(self, conn, state):
        """Hands are shaken, and that is the other end's state. Refused if it is invalid."""
        if conn is not self.proved:
            raise Refused("too late")
        session, known, number, first, size, window, keepalive = struct.unpack(_STATE, state)
        if not 0 < keepalive <= _DAY:
            raise Refused("keepalive of more than a day")
        self.size = min(size, self.max_size)
        w = self.window
        # Both ends know all of this, and so come to the same conclusion.
        known = known == self.session
        anew = w.meet(
            known and session == self.peer_session, number if known else w.first, first, self.size
        )
        if anew:
            # One of both has just started, or had another peer since.
            self.peer_session = session
            self.dropped += anew[0] + anew[1]
            if anew[1]:
                report("Another peer has used a link", Refused("%d messages are lost" % anew[1]))
            self.mirror.anew(self._retained())
        elif not self._got(number):
            raise Refused("it has got what was not sent")
        w.begin(window)
        self.resent += len(w.frames)
        self.mirror.spilt = False
        self.conn = conn
        self.connected = True
        self.error = None
        self.changed.set()
        conn.patience = keepalive
        conn.carry(self.take, self.max_size)
        if self.on_change:
            self.on_change(self)
        self.pump()
        if self.store:
            self.store.begin(self, conn)
        if not self.held:
            conn.begin()

    def down(self, conn):
        """A connection has ended, or is about to. May come twice."""
        if self.proved is conn:
            self.proved = None
        if self.conn is conn:
            self.conn = None
            self.connected = False
            del conn.frame_received
            self.window.begin(0)
            if self.store:
                self.store.end()
            while self._late:
                late = self._late[0]
                self.unqueue(late[3])
                late[3].done(self._sink)
            if self.on_change:
                self.on_change(self)

    # The sink, as the broker knows it

    def full(self):
        w = self.window
        n = len(w.frames)
        return (
            n >= w.room
            or w.written < n
            or self.conn.full
            or self.store is not None
            and self.store.full()
        )

    def put(self, topic, payload, retain=False, ticket=None):
        """Sends a message. Returns 0, or 1 if the link is full: then it is dropped, or kept until
        there is room if publish_wait() waits, with its ticket, and there is a connection."""
        if retain:
            self.mirror.changed(topic)
        if not self._late and not self.full():
            return self._post(topic, payload, retain)
        if ticket and self.conn:
            if isinstance(payload, memoryview):
                payload = bytes(payload)
            self._late.append((topic, payload, retain, ticket))
            ticket.wait(self._sink)
        elif not retain:
            self.dropped += 1
        return 1

    def unqueue(self, ticket):
        for i, late in enumerate(self._late):
            if late[3] is ticket:
                self._late.pop(i)
                self.dropped += not late[2]
                break

    # MicroPython keeps frames of up to 11 words on the C stack: those of all that is called for
    # each message should be. See docs/protocols.md.

    def _post(self, topic, payload, retain):
        if retain:
            self.mirror.stale.pop(topic, None)
        frame = self._heads.get(topic)
        kind = 0
        if not frame or type(payload) is not bytes:
            frame, kind, payload = self._made(topic, payload)
            if not frame:
                return 1
        if retain:
            kind |= _RETAIN
        frame = self.store.joined(frame, payload) if self.store else frame + payload
        if len(frame) > self.size:
            # It can never be sent: that is no fault of the connection.
            return self._lost(topic, ValueError("payload is too large"), _CANNOT)
        frame[5] = kind
        if not self.window.frames:
            self.moved = ticks_ms()
        self.window.add(frame)
        if self.store:
            frame = self.store.placed(frame)
        self.conn.due = False
        self.conn.send(frame)
        return 0

    def _made(self, topic, payload):
        # The beginning of a frame, up to its payload; None if a link cannot carry that.
        try:
            head = self._heads.get(topic)
            if not head:
                name = to_utf8(topic)
                if len(name) > 255:
                    raise ValueError("topic: a link carries 255 bytes, at most")
                head = bytearray((DATA, 0, 0, 0, 0, 0, len(name))) + name
                _remember(self._heads, topic, head)
            kind, payload = encode(payload)
            return head, kind, payload
        except Exception as er:
            self._lost(topic, er, _CANNOT)
            return None, 0, None

    def _lost(self, topic, er, what="has lost"):
        self.dropped += 1
        report("A link %s a message of topic %r" % (what, topic), er)
        return 1

    def pump(self):
        """Writes what there is room for."""
        w = self.window
        while w.written < len(w.frames) and self.conn and not self.conn.full:
            frame = w.next()
            if not frame:
                break
            self.conn.due = False
            self.conn.send(self.store.placed(frame) if self.store else frame)
        stale = self.mirror.stale
        while (self._late or stale) and not self.full():
            try:
                if self._late:
                    topic, payload, retain, ticket = self._late.pop(0)
                    ticket.done(self._sink)
                else:
                    topic = stale.popitem()[0]
                    kept = self._broker.retained(topic)
                    payload = kept[0][1] if kept else b""
                    retain = True
                self._post(topic, payload, retain)
            except Exception as er:
                self._lost(topic, er)
        if not w.frames:
            self.changed.set()

    def _got(self, number):
        # The other end has got all frames before it. Returns false if they were not sent.
        n = self.window.got(number)
        if n > 0:
            self.delivered += n
            self.moved = ticks_ms()
            self.pump()
        return n >= 0

    def again(self):
        """Sends all again that is not acknowledged."""
        self.resent += self.window.again()
        self.moved = ticks_ms()
        self.pump()

    # Receiving

    def acknowledge(self, conn):
        if conn.full:
            conn.due = True  # once the peer reads
            return
        conn.due = False
        n = self.window.delivered
        conn.send(bytes((ACK, n >> 8, n & 255)))

    def take(self, view):
        """A frame has come, by the connection."""
        conn = self.conn
        kind = view[0]
        if kind != DATA and kind != ACK and kind != _AGAIN:
            return conn.control(kind, len(view))
        n = view[3] << 8 | view[4] if kind == DATA else view[1] << 8 | view[2]
        if n != self.window.first and not self._got(n):
            if not conn.lossy:
                raise Refused("it has got what was not sent")
        elif kind == _AGAIN:
            self.again()
        if kind == DATA and conn is self.conn:  # still: to send may have failed
            return self._message(conn, view)

    def _message(self, conn, view):
        # If it is the one, it counts as received, good or bad: the peer will not send it again.
        n = self.window.came(view[1] << 8 | view[2])
        if n:
            return self._out_of_turn(conn, n)
        conn.due = True
        n = HEAD + view[6]
        if n > len(view):
            raise Refused("it ends within the topic")
        known = bytes(view[HEAD:n])
        known = self._topics.get(known) or self._learn(known)
        if known[1]:
            n = view[n:]
            if view[5] & _KIND:
                return self._decode(known[0], view[5], n)
            return self._publish(known[0], view[5], bytes(n))
        self.dropped += 1

    def _learn(self, name):
        topic = to_text(name)
        known = (topic, any([matches(filter, topic) for filter in self._receive]))
        _remember(self._topics, name, known)
        return known

    def _out_of_turn(self, conn, n):
        if n == 1:
            conn.due = True  # it came before
        elif not conn.lossy:
            raise Refused("a message is missing")
        elif n == 2:
            n = self.window.expected
            conn.send(bytes((_AGAIN, n >> 8, n & 255)))

    def _decode(self, topic, kind, view):
        try:
            payload = decode(kind & _KIND, view)
        except (MemoryError, OverflowError, RuntimeError) as er:
            self._lost(topic, er)  # it is right, and too much for this machine
            return
        return self._publish(topic, kind, payload)

    def _publish(self, topic, kind, payload):
        retain = kind & _RETAIN != 0
        if retain and not self.mirror.keeps(topic, payload):
            retain = False
            self.dropped += 1
        self.received += 1
        if self._broker.would_wait(topic, self._sink):
            self.held = self.conn
            self.window.hold(1)
            return self._publish_wait(self.conn, topic, payload, retain)
        self._broker.publish(topic, payload, retain, self._sink)

    async def _publish_wait(self, held, topic, payload, retain):
        # When it is done, the connection and the peer may be others.
        try:
            await self._broker.publish_wait(topic, payload, retain, self._sink)
        except Exception as er:
            self._lost(topic, er)
        finally:
            if self.held is held:
                self.held = None
                self.window.hold(0)
        conn = self.conn
        if conn:
            self.acknowledge(conn)
            conn.begin()

    def give_up(self):
        """The message that waits for room in the broker is lost to those that have none."""
        held = self.held
        if held:
            self.held = None
            self.window.hold(0)
            self.dropped += held.unpark()


def _remember(topics, topic, what):
    if len(topics) >= _TOPICS:
        topics.popitem()
    topics[topic] = what
