"""Link: joins two brokers, on MicroPython or CPython, over TCP or a serial line."""

import struct
from os import urandom

from .. import CancelledError, Event, Lock, TimeoutError, create_task, sleep, wait_for
from .broker import matches
from .codec import decode, encode
from .frame import FramedProtocol, const
from .handshake import LAST, SIZE, Refused, answer, call
from .waiter import report

try:
    from time import ticks_diff, ticks_ms
except ImportError:  # CPython
    from time import monotonic

    def ticks_ms():
        return int(monotonic() * 1000)

    def ticks_diff(later, earlier):
        return later - earlier


# The frames after the handshake, by their first byte. Numbers of messages have 16 bits.
# Each that carries messages acknowledges those of the other side too.
_DATA = const(8)  # number, acknowledged, kind of payload and flag, length of topic, topic, payload
_ACK = const(9)  # number: all before that have been delivered
_AGAIN = const(10)  # number: that one was lost, all before have come
_PING = const(11)
_BYE = const(12)

_KIND = const(3)
_RETAIN = const(4)  # the flag
_HEAD = const(7)  # bytes before the topic

# A side's state: its session; the peer's session that it knows, and the number that it expects
# there; the number of the first message that it will send; the largest frame that it takes, its
# window, and its keep-alive in ms.
_STATE = "<8s8sHHIHI"

_STRANGERS = const(4)  # connections that shake hands, at most
_KEPT = const(256)  # retained topics that are taken from the peer, at most
_TOPICS = const(32)  # topics of which it is remembered whether they are wanted


class _Connection(FramedProtocol):
    def __init__(self, link):
        super().__init__(SIZE, link.carrier.lossy)
        self.link = link
        self.lossy = link.carrier.lossy
        self.over = Event()  # it has ended
        self.said = self.heard = ticks_ms()  # when the last frame went, and came
        self.peer_keepalive = 0  # ms; 0: hands are not shaken yet
        self.due = False  # an acknowledgement has to be sent
        self.asked = False  # for the message that was lost

    def connection_made(self, transport):
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        try:
            sock.setsockopt(6, 1, 1)  # TCP_NODELAY: small frames do not wait for each other
        except (AttributeError, OSError):
            pass  # there is none, or it is TLS's
        self.link._met(self)

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.over.set()
        self.link._down(self)

    def send(self, *parts):
        if not self.transport.is_closing():
            self.said = ticks_ms()
            self.send_frame(*parts)

    def frame_received(self, view):
        self.heard = ticks_ms()
        try:
            return self.link._take(self, view)
        except Exception as er:
            self.link._refuse(self, er)

    def _hand_out(self):
        # Acknowledge at once all that came with one read: that saves writes, and delays none.
        parked = super()._hand_out()
        if self.due:
            self.acknowledge()
        return parked

    def acknowledge(self):
        self.due = False
        n = self.link._delivered
        self.send(bytes((_ACK, n >> 8, n & 255)))

    def resume_writing(self):
        super().resume_writing()
        self.link._pump()


class Link:
    """Joins a broker to the one at the other end: sends it what is published here and matches
    `send`, publishes here what it sends and matches `receive` (lists of filters). Use it by `async
    with Link(...) as link`, or by start() and close().

    carrier: a Tcp, Listen or Serial of pubsub.carrier; secret: bytes, the same at both ends;
    window: how many messages may be under way (int, 1 to 32767); max_size: bytes of topic and
    payload together that are taken, at most (int); keepalive: a sign of life is sent after so many
    s without a message, and a peer that is silent for 2.5 times its own is given up. Of window and
    max_size the smaller one of both ends counts.

    A message that put() takes is delivered once, also if the connection breaks before that: the
    next one goes on where it ended, as long as both ends live. While there is none, or the peer is
    slow, the link is a subscriber that is full: publish() drops the message, publish_wait() waits
    for the peer, and the latest of what is retained is sent as soon as it can be. What the peer
    sent is not sent back.

    connected (bool); delivered: messages that the peer has got; received: those it has sent;
    dropped: those that were refused at either end; resent: frames; refused: connections whose
    peer had not got the secret or broke the rules."""

    GREETING = 5  # s for a handshake
    BACKOFF = (0.1, 30)  # s before it connects again: at first, and at most
    RESEND = 300  # ms without an acknowledgement, on a lossy carrier

    def __init__(
        self,
        broker,
        carrier,
        send=(),
        receive=(),
        *,
        secret=b"",
        window=16,
        max_size=1024,
        keepalive=15,
    ):
        for name, filters in (("send", send), ("receive", receive)):
            if isinstance(filters, str):
                raise TypeError(name + " must be a list of filters")
            for filter in filters:
                matches(filter, "t")  # raises if it is none
        if not isinstance(secret, (bytes, bytearray)):
            raise TypeError("secret must be bytes")
        if not 0 < window < 32768:
            raise ValueError("window must be 1 to 32767")
        if not 0 < max_size < 0x1000000:
            raise ValueError("max_size must be 1 to 16777215")
        if not 0 < keepalive <= 86400:
            raise ValueError("keepalive must be more than 0, and 86400 at most")
        self.name = "link"  # in reports
        self.carrier = carrier
        self.connected = False
        self.delivered = self.received = self.dropped = self.resent = self.refused = 0
        self._broker = broker
        self._send = tuple(send)
        self._receive = tuple(receive)
        self._secret = bytes(secret)
        self._window = window
        self._max_size = max(max_size + _HEAD, SIZE)
        self._keepalive = int(keepalive * 1000)
        self._task = None
        self._strangers = []  # connections that shake hands
        self._conn = None  # the one that has
        self._changed = Event()  # it is connected, or all is delivered
        self._session = urandom(8)
        self._peer = bytes(8)  # its session
        # Sending
        self._out = []  # the frames that are not acknowledged
        self._first = 0  # the number of the first of them
        self._written = 0  # how many of them are written to the connection
        self._room = 0  # how many there may be; 0 if not connected
        self._size = 0  # what a frame may have
        self._moved = 0  # ticks of the last acknowledgement
        self._stale = set()  # topics whose retained payload is to be sent
        self._late = []  # (topic, payload, retain, ticket): publish_wait() waits
        # Receiving
        self._next = 0  # the number that is expected
        self._delivered = 0  # up to there all is delivered
        self._turn = Lock()  # held by a message that waits for room in the broker
        self._wanted = {}  # topic: whether it matches `receive`
        self._theirs = set()  # topics whose retained payload is the peer's

    # Its life

    def start(self):
        """Begins to connect."""
        if self._task:
            raise RuntimeError("start() twice")
        self._task = create_task(self._run())
        theirs = self._theirs
        self._theirs = set()
        for filter in self._send:
            self._broker.attach(filter, self)  # which puts what is retained
        self._theirs = theirs
        self._stale -= theirs

    async def close(self):
        """Ends it. What is not acknowledged may be lost: await drain() before."""
        if not self._task:
            return
        for filter in self._send:
            self._broker.detach(filter, self)
        self._task.cancel()
        try:
            await self._task
        except CancelledError:
            pass
        self._task = None
        for conn in [self._conn] + self._strangers:
            if conn:
                if conn is self._conn:
                    conn.send(bytes((_BYE,)))
                conn.transport.close()
                try:
                    await wait_for(conn.over.wait(), 1)
                except TimeoutError:
                    conn.transport.abort()
                    await conn.over.wait()
                if conn._task:
                    conn._task.cancel()

    async def __aenter__(self):
        self.start()
        return self

    async def __aexit__(self, *exc):
        await self.close()

    async def wait_connected(self):
        """Waits until it is connected."""
        while not self.connected:
            self._changed.clear()
            await self._changed.wait()

    async def drain(self):
        """Waits until the peer has got all that was taken."""
        while self._out or self._stale:
            self._changed.clear()
            await self._changed.wait()

    async def _run(self):
        made = None  # the last connection

        def factory():
            nonlocal made
            made = _Connection(self)
            return made

        least, most = self.BACKOFF
        pause = least
        while True:
            try:
                server = await self.carrier.open(factory)
                if server:
                    try:
                        await Event().wait()  # until this task is cancelled
                    finally:
                        server.close()
                await made.over.wait()
                if made.peer_keepalive or not self.carrier.calls:
                    pause = least
            except OSError:
                pass
            await sleep(pause)
            pause = min(2 * pause, most)

    def _met(self, conn):
        # There is a new connection.
        if len(self._strangers) < _STRANGERS:
            self._strangers.append(conn)
            conn.meeting = create_task(self._meet(conn))
        else:
            self.refused += 1
            conn.transport.abort()

    async def _meet(self, conn):
        # The task of a connection: the handshake, then what is due from time to time.
        try:
            try:
                greet = (call if self.carrier.calls else answer)(conn, self._secret, self._state)
                if self.carrier.calls or not conn.lossy:
                    greet = wait_for(greet, self.GREETING)
                state = await greet  # on a serial line it takes its time until somebody calls
            finally:
                self._strangers.remove(conn)
            self._up(conn, state)
            await self._attend(conn)
        except (EOFError, OSError, TimeoutError):
            conn.transport.abort()
        except Exception as er:
            self._refuse(conn, er)

    def _state(self):
        return struct.pack(
            _STATE,
            self._session,
            self._peer,
            self._next,
            self._first,
            self._max_size,
            self._window,
            self._keepalive,
        )

    def _up(self, conn, state):
        # Hands are shaken.
        session, known, number, first, size, window, keepalive = struct.unpack(_STATE, state)
        if not keepalive:
            raise Refused("no keepalive")
        if self._conn:
            self._conn.transport.abort()  # the peer has given it up
            self._down(self._conn)
        self._size = min(size, self._max_size)
        if known != self._session:
            # The peer has just started: it knows none of what this side had sent.
            self._renumber()
            for filter in self._send:
                for topic, _ in self._broker.retained(filter):
                    if topic not in self._theirs:
                        self._stale.add(topic)
        elif not self._got(number):
            raise Refused("it has got what was not sent")
        if session != self._peer:
            self._peer = session
            self._next = self._delivered = first
        self._room = min(window, self._window)
        self._written = 0
        self.resent += len(self._out)
        self._conn = conn
        self.connected = True
        conn.peer_keepalive = keepalive
        conn.max_size = self._max_size
        self._changed.set()
        self._pump()
        conn.start_dispatch()

    def _renumber(self):
        # The peer may take smaller frames than the one before it did.
        out = [frame for frame in self._out if len(frame) <= self._size]
        self.dropped += len(self._out) - len(out)
        self._out = out
        for i, frame in enumerate(out):
            n = self._first + i
            frame[1] = n >> 8 & 255
            frame[2] = n & 255

    def _down(self, conn):
        # A connection has ended.
        if self._conn is conn:
            self._conn = None
            self.connected = False
            self._room = 0
            while self._late:
                _, _, _, ticket = self._late.pop(0)
                self.dropped += 1
                ticket.done(self)

    def _refuse(self, conn, er):
        if not isinstance(er, (Refused, ValueError, IndexError)):
            report("Exception in a link", er)
        self.refused += 1
        conn.transport.abort()

    async def _attend(self, conn):
        # Signs of life, and what is to be sent again.
        pause = min(self._keepalive, conn.peer_keepalive) // 2
        if conn.lossy:
            pause = min(pause, self.RESEND // 2)
        while self._conn is conn:
            now = ticks_ms()
            if not conn._task and ticks_diff(now, conn.heard) > conn.peer_keepalive * 5 // 2:
                return conn.transport.abort()
            if ticks_diff(now, conn.said) >= self._keepalive // 2:
                conn.send(bytes((_PING,)))
            if conn.lossy and self._out and ticks_diff(now, self._moved) >= self.RESEND:
                if not conn.transport.get_write_buffer_size():
                    self._again()
            try:
                await wait_for(conn.over.wait(), pause / 1000)
            except TimeoutError:
                pass

    # The sink, as the broker knows it

    def full(self):
        """Whether put() would drop the message."""
        return len(self._out) >= self._room or self._conn.full or self._written < len(self._out)

    def put(self, topic, payload, retain=False):
        """Sends a message. Returns 1 if it was dropped because the link is full, else 0."""
        if retain:
            self._theirs.discard(topic)
        if self._late or self.full():
            if retain:
                self._stale.add(topic)
            else:
                self.dropped += 1
            return 1
        return self._post(topic, payload, retain)

    def queue(self, topic, payload, retain, ticket):
        """Keeps a message of publish_wait() until there is room. False if not connected."""
        if not self._conn:
            return False
        if isinstance(payload, memoryview):
            payload = bytes(payload)
        self._late.append((topic, payload, retain, ticket))
        return True

    def unqueue(self, ticket):
        """Forgets the message of the ticket, whose publish_wait() was cancelled."""
        for i, late in enumerate(self._late):
            if late[3] is ticket:
                self.dropped += 1
                self._late.pop(i)
                break

    def _post(self, topic, payload, retain):
        name = topic.encode()
        if len(name) > 255:
            raise ValueError("topic: a link carries 255 bytes, at most")
        kind, data = encode(payload)
        if retain:
            kind |= _RETAIN
            self._stale.discard(topic)
        n = self._first + len(self._out)
        frame = bytearray((_DATA, n >> 8 & 255, n & 255, 0, 0, kind, len(name)))
        frame.extend(name)
        frame.extend(data)
        if len(frame) > self._size:
            self.dropped += 1
            return 1
        if not self._out:
            self._moved = ticks_ms()
        self._out.append(frame)
        self._write(frame)
        return 0

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
        conn = self._conn
        out = self._out
        while conn and self._written < len(out) and not conn.full:
            self._write(out[self._written])
        while (self._late or self._stale) and not self.full():
            try:
                if self._late:
                    topic, payload, retain, ticket = self._late.pop(0)
                    ticket.done(self)
                else:
                    topic = self._stale.pop()
                    payload = self._broker._retained.get(topic, b"")
                    retain = True
                self._post(topic, payload, retain)
            except Exception as er:
                report("Exception in a link", er)
        if not out:
            self._changed.set()

    def _got(self, number):
        # The peer has got what was before it. Returns false if that was not sent.
        n = number - self._first & 0xFFFF
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

    # What comes

    def _take(self, conn, view):
        kind = view[0]
        if conn is not self._conn:
            return  # another one has taken its place
        n = len(view)
        if kind == _DATA:
            return self._message(conn, view)
        if n == 3 and (kind == _ACK or kind == _AGAIN):
            if self._got(view[1] << 8 | view[2]):
                if kind == _AGAIN:
                    self._again()
            elif not conn.lossy:
                raise Refused("it has got what was not sent")
        elif n == 1 and kind == _BYE:
            conn.transport.close()
        elif kind <= LAST and conn.lossy:
            conn.transport.abort()  # the peer has begun anew
        elif n != 1 or kind != _PING:
            raise Refused("unknown frame")

    def _message(self, conn, view):
        n = view[1] << 8 | view[2]
        if not self._got(view[3] << 8 | view[4]) and not conn.lossy:
            raise Refused("it has got what was not sent")
        if n != self._next:
            if not conn.lossy:
                raise Refused("a message is missing")
            if self._next - n & 0x8000:  # it comes too early
                if not conn.asked:
                    conn.asked = True
                    conn.send(bytes((_AGAIN, self._next >> 8, self._next & 255)))
            else:
                conn.due = True  # it came before
            return
        # From here on it counts as received, good or bad: the peer will not send it again.
        self._next = n + 1 & 0xFFFF
        conn.asked = False
        kind = view[5]
        end = _HEAD + view[6]
        if end > len(view):
            raise Refused("it ends within the topic")
        topic = str(view[_HEAD:end], "utf-8")
        wanted = self._wanted.get(topic)
        if wanted is None:
            wanted = any([matches(filter, topic) for filter in self._receive])
            if len(self._wanted) >= _TOPICS:
                self._wanted.popitem()
            self._wanted[topic] = wanted
        if wanted:
            payload = decode(kind & _KIND, view[end:])
            retain = bool(kind & _RETAIN) and self._keeps(topic, payload)
            self.received += 1
            if self._turn.locked() or self._blocked(topic):
                return self._deliver(topic, payload, retain, self._next, self._peer)
        # What is published while it is delivered acknowledges it.
        self._delivered = self._next
        conn.due = True
        if wanted:
            self._broker.publish(topic, payload, retain, self)
        else:
            self.dropped += 1

    def _keeps(self, topic, payload):
        # Whether a retained message is retained here.
        theirs = self._theirs
        if payload is None or isinstance(payload, (bytes, str)) and not payload:
            theirs.discard(topic)
        elif topic not in theirs:
            if len(theirs) >= _KEPT:
                return False
            theirs.add(topic)
        self._stale.discard(topic)
        return True

    def _blocked(self, topic):
        # Whether a subscriber has no room, and would rather have the publisher wait.
        for sink in self._broker._routes.get(topic) or self._broker._route(topic):
            if sink is not self and sink.full() and hasattr(sink, "queue"):
                if getattr(sink, "policy", "block") == "block":
                    return True

    async def _deliver(self, topic, payload, retain, number, session):
        # When it is this one's turn, the connection and the peer may be others.
        async with self._turn:
            await self._broker.publish_wait(topic, payload, retain, self)
        if self._peer == session:
            self._delivered = number
            if self._conn:
                self._conn.acknowledge()
