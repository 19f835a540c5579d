"""The work of a Link while it is connected: numbered messages, kept until acknowledged."""

from ..broker import matches
from ..compat import const, report, ticks_ms
from .codec import decode, encode, to_text, to_utf8
from .handshake import SIZE, Refused

# The frames, by their first byte; handshake and link have others. Numbers have 16 bits.
_DATA = const(8)  # number, acknowledgement, kind, length of topic, topic, payload
_ACK = const(9)  # acknowledgement alone: the number before which all has been delivered
_AGAIN = const(10)  # the number of the one that was lost, before which all has come

_KIND = const(3)  # these bits are codec's
_RETAIN = const(4)
_HEAD = const(7)  # bytes before the topic

_KEPT = const(256)  # retained topics that are taken from the peer, at most
_TOPICS = const(32)  # topics that are remembered, at most


class Messages:
    # The part of a Link that is a sink of its broker, and that publishes the peer's messages.

    def __init__(self, broker, receive, max_size):
        self.connected = False
        self.delivered = self.received = self.dropped = self.resent = 0
        self._broker = broker
        self._receive = tuple(receive)
        self._max_size = max(max_size + _HEAD, SIZE)  # of a frame
        self._conn = None  # the connection, once hands are shaken
        self._peer = bytes(8)  # the peer's session
        # Sending
        self._heads = {}  # topic: the beginning of a frame, up to its payload
        self._out = []  # the frames that are not acknowledged
        self._first = 0  # the number of the first of them
        self._written = 0  # how many of them are written to the connection
        self._room = 0  # how many there may be; 0 if not connected
        self._size = 0  # bytes that a frame may have
        self._moved = 0  # ticks of the last acknowledgement
        # As keys: a set that finds no memory to grow crashes MicroPython.
        self._stale = {}  # topics of retained payloads that are to be sent
        self._late = []  # (topic, payload, retain, ticket): publish_wait() waits
        # Receiving
        self._next = 0  # the number that is expected
        self._delivered = 0  # up to there all is delivered: as _next, or the one that is held
        # The last message of this connection waits for room in the broker. Until it has room, also
        # later connections are not read: so one message is held, at most.
        self._held = None
        self._spilt = False  # it was reported that retained messages are not kept
        # A topic's bytes: [the topic, whether it matches `receive`]; in place of True the broker's
        # sinks for it, once it is known that none of them would have the publisher wait.
        self._topics = {}
        self._theirs = {}  # topics of retained payloads that are the peer's

    # The sink, as the broker knows it

    def full(self):
        n = len(self._out)
        return n >= self._room or self._written < n or self._conn.full

    def put(self, topic, payload, retain=False, ticket=None):
        """Sends a message. Returns 0, or 1 if the link is full: then it is dropped, or kept until
        there is room if publish_wait() waits, with its ticket, and there is a connection."""
        if retain:
            self._theirs.pop(topic, None)
        if not self._late and not self.full():
            return self._post(topic, payload, retain)
        if ticket and self._conn:
            if isinstance(payload, memoryview):
                payload = bytes(payload)
            self._late.append((topic, payload, retain, ticket))
            ticket.wait(self)
        else:
            self._drop(topic, retain)
        return 1

    put_wait = put

    def _drop(self, topic, retain):
        if retain:
            self._stale[topic] = None
        else:
            self.dropped += 1

    def unqueue(self, ticket):
        for i, late in enumerate(self._late):
            if late[3] is ticket:
                self._late.pop(i)
                self._drop(late[0], late[2])
                break

    # MicroPython keeps small frames on the C stack: those of all that is called for each message
    # should be. See docs/protocols.md.

    def _post(self, topic, payload, retain):
        head = self._heads.get(topic) or self._head(topic)
        kind = 0
        if head and type(payload) is not bytes:
            kind, payload = self._encode(topic, payload)
        if not head or payload is None:
            return 1
        if retain:
            kind |= _RETAIN
            self._stale.pop(topic, None)
        n = self._first + len(self._out)
        frame = head + payload
        if len(frame) > self._size:
            return self._refused(topic, ValueError("payload: it is too large for this link"))
        frame[1] = n >> 8 & 255
        frame[2] = n & 255
        frame[5] = kind
        if not self._out:
            self._moved = ticks_ms()
        self._out.append(frame)
        self._write(frame)
        return 0

    def _head(self, topic):
        # None if a link cannot carry that.
        try:
            name = to_utf8(topic)
            if len(name) > 255:
                raise ValueError("topic: a link carries 255 bytes, at most")
            head = bytearray((_DATA, 0, 0, 0, 0, 0, len(name))) + name
            _remember(self._heads, topic, head)
            return head
        except Exception as er:
            self._refused(topic, er)

    def _encode(self, topic, payload):
        try:
            return encode(payload)
        except Exception as er:
            self._refused(topic, er)
            return 0, None

    def _refused(self, topic, er):
        # A message can never be sent: that is no fault of the connection.
        self.dropped += 1
        report("A link cannot carry a message of topic %r" % topic, er)
        return 1

    def _write(self, frame):
        self._written += 1
        n = self._delivered
        frame[3] = n >> 8
        frame[4] = n & 255
        conn = self._conn
        conn.due = False
        conn.send(frame)

    def _pump(self):
        # There may be room.
        out = self._out
        while self._conn and self._written < len(out) and not self._conn.full:
            self._write(out[self._written])
        while (self._late or self._stale) and not self.full():
            try:
                if self._late:
                    topic, payload, retain, ticket = self._late.pop(0)
                    ticket.done(self)
                else:
                    topic = self._stale.popitem()[0]
                    payload = self._broker._retained.get(topic, b"")
                    retain = True
                self._post(topic, payload, retain)
            except Exception as er:
                self._lost(topic, er)
        if not out:
            self._changed.set()

    def _got(self, number):
        # The peer has got all frames before it. Returns false if they were not sent.
        n = number - self._first & 0xFFFF
        if n & 0x8000:
            return True  # older than the known number
        if n > len(self._out):
            return False
        if n:
            del self._out[:n]
            self._first = number
            self._written = max(self._written - n, 0)
            self.delivered += n
            self._moved = ticks_ms()
            self._pump()
        return True

    def _again(self):
        self.resent += self._written
        self._written = 0
        self._moved = ticks_ms()
        self._pump()

    def _renumber(self):
        # The peer may take smaller frames than the one before it did.
        out = [frame for frame in self._out if len(frame) <= self._size]
        self.dropped += len(self._out) - len(out)
        self._out = out
        for i, frame in enumerate(out):
            n = self._first + i
            frame[1] = n >> 8 & 255
            frame[2] = n & 255

    # Receiving

    def _acknowledge(self, conn):
        if conn.full:
            conn.due = True  # once the peer reads
            return
        conn.due = False
        n = self._delivered
        conn.send(bytes((_ACK, n >> 8, n & 255)))

    def _take(self, conn, view):
        kind = view[0]
        if kind != _DATA and kind != _ACK and kind != _AGAIN:
            return self._control(conn, kind, len(view))
        if conn is not self._conn:
            return  # another one has taken its place
        n = view[3] << 8 | view[4] if kind == _DATA else view[1] << 8 | view[2]
        if n != self._first and not self._got(n):
            if not conn.lossy:
                raise Refused("it has got what was not sent")
        elif kind == _AGAIN:
            self._again()
        if kind == _DATA and conn is self._conn:  # still: to send may have failed
            return self._message(conn, view)

    def _message(self, conn, view):
        n = view[1] << 8 | view[2]
        if n != self._next:
            return self._out_of_turn(conn, n)
        # From here on it counts as received, good or bad: the peer will not send it again.
        self._next = self._delivered = n + 1 & 0xFFFF
        conn.due = True
        conn.asked = False
        n = _HEAD + view[6]
        if n > len(view):
            raise Refused("it ends within the topic")
        known = view[_HEAD:n]
        known = self._topics.get(bytes(known)) or self._learn(bytes(known))
        if known[1] is not False:
            if view[5] & _KIND:
                return self._decode(known, view[5], view[n:])
            return self._publish(known, view[5], bytes(view[n:]))
        self.dropped += 1

    def _learn(self, name):
        topic = to_text(name)
        known = [topic, any([matches(filter, topic) for filter in self._receive])]
        _remember(self._topics, name, known)
        return known

    def _out_of_turn(self, conn, n):
        if not self._next - n & 0x8000:
            conn.due = True  # it came before
        elif not conn.lossy:
            raise Refused("a message is missing")
        elif not conn.asked:
            conn.asked = True
            conn.send(bytes((_AGAIN, self._next >> 8, self._next & 255)))

    def _decode(self, known, kind, view):
        try:
            payload = decode(kind & _KIND, view)
        except (MemoryError, OverflowError, RuntimeError) as er:
            # It is right, and too much for this machine.
            return self._lost(known[0], er)
        return self._publish(known, kind, payload)

    def _lost(self, topic, er):
        self.dropped += 1
        report("A link has lost a message of topic %r" % topic, er)

    def _publish(self, known, retain, payload):
        retain = retain & _RETAIN != 0 and self._keeps(known[0], payload)
        self.received += 1
        if known[1] is not self._broker._routes.get(known[0]) and self._blocked(known):
            self._held = self._conn
            self._delivered = self._next - 1 & 0xFFFF
            return self._deliver(known[0], payload, retain)
        self._broker.publish(known[0], payload, retain, self)

    def _keeps(self, topic, payload):
        # Whether a retained message is retained here.
        theirs = self._theirs
        if payload is None or isinstance(payload, (bytes, str)) and not payload:
            theirs.pop(topic, None)
        elif topic not in theirs:
            if len(theirs) >= _KEPT:
                self.dropped += 1
                if not self._spilt:
                    self._spilt = True
                    er = ValueError("the peer retains more than %d topics" % _KEPT)
                    report("A link does not retain %r, and maybe others" % topic, er)
                return False
            theirs[topic] = None
        self._stale.pop(topic, None)
        return True

    def _blocked(self, known):
        # Whether a subscriber has no room, and would rather have the publisher wait.
        sinks = self._broker._routes.get(known[0])
        if sinks is None:
            sinks = self._broker._route(known[0])
        known[1] = sinks
        for sink in sinks:
            if sink is not self and _waits(sink):
                known[1] = True
                if sink.full():
                    return True

    async def _deliver(self, topic, payload, retain):
        # When it is done, the connection and the peer may be others.
        try:
            await self._broker.publish_wait(topic, payload, retain, self)
        except Exception as er:
            self._lost(topic, er)
        finally:
            self._release()
        conn = self._conn
        if conn:
            self._acknowledge(conn)
            conn.begin()

    def _release(self):
        self._held = None
        self._delivered = self._next


def _waits(sink):
    return hasattr(sink, "unqueue") and getattr(sink, "policy", "block") == "block"


def _remember(topics, topic, what):
    if len(topics) >= _TOPICS:
        topics.popitem()
    topics[topic] = what
