"""Link: joins two brokers, on MicroPython or CPython, over TCP or a serial line."""

import struct
from os import urandom

from ... import CancelledError, Event, TimeoutError, create_task, sleep, wait_for
from ..broker import matches
from ..compat import const, report, soon, ticks_diff, ticks_ms
from .frame import FramedProtocol
from .handshake import HELLO, LAST, SIZE, WHO, Refused, answer, call
from .messages import Messages

_PING = const(11)  # frames that are no messages
_BYE = const(12)

# A side's state: its session; the peer's session that it knows, and the number that it expects
# there; the number of the first message that it will send; the largest frame that it takes, its
# window, and its keep-alive in ms.
_STATE = "<8s8sHHIHI"

_DAY = const(86400000)  # ms
_STRANGERS = const(4)  # connections that shake hands, at most
_NEW_START = const(0x8000)  # a difference of two numbers that has this bit is less than 0


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
        self.why = None  # the exception for which this end gave it up

    def connection_made(self, transport):
        super().connection_made(transport)
        try:
            self.link._met(self)
        except Exception as er:
            self.link._refuse(self, er)

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.over.set()
        if self.peer_keepalive:
            self.meeting.cancel()  # it attends to it
        self.link._down(self)
        self.link._failed(self.why or exc or EOFError("the peer has hung up"))

    def give_up(self, er):
        self.why = er
        self.link._down(self)
        self.link._failed(er)
        self.transport.abort()

    def send(self, frame, rest=b""):
        if not self.transport.is_closing():
            self.said = ticks_ms()
            try:
                self._send(frame + rest if rest else frame)
            except Exception as er:  # and a part of it may be written
                self.give_up(er)

    def begin(self):
        # Messages may come.
        if not self._hand_out:
            self.start_dispatch()

    def frame_received(self, view):
        return self.link._take(self, view)

    def _raised(self, er):
        self.link._refuse(self, er)

    def _frames(self):
        # Acknowledge at once all that came with one read: that saves writes, and delays none.
        self.heard = ticks_ms()
        parked = super()._frames()
        if self.due:
            self.link._acknowledge(self)
        return parked

    def resume_writing(self):
        super().resume_writing()
        soon(self._go_on)

    def _go_on(self):
        if self.due:
            self.link._acknowledge(self)
        self.link._pump()

    def address(self):
        # The peer's machine.
        peer = self.transport.get_extra_info("peername")
        # The unix port has bytes, in which the family is followed by the port.
        return peer[4:] if isinstance(peer, (bytes, bytearray)) else peer and peer[0]


class Link(Messages):
    """Joins a broker to the one at the other end: sends it the messages that are published here
    and match `send`, publishes here those that it sends and that match `receive` (lists of
    filters). Use it by `async with Link(...) as link`, or by start() and close().

    carrier: a Tcp, Listen or Serial of pubsub; secret: bytes, the same at both ends;
    window: how many messages may be under way (int, 1 to 32767); max_size: bytes of topic and
    payload together that are taken, at most (int); keepalive: a sign of life is sent after so many
    s without a message, and a peer that is silent for three times its own is given up. Of window
    and max_size the smaller one of both ends counts.

    A message that put() takes is delivered once, also if the connection breaks before that: the
    next one goes on where it ended, as long as both ends live. While there is no connection, or
    the peer is slow, the link is a subscriber that is full: publish() drops the message,
    publish_wait() waits for the peer, and the latest retained message of each topic is sent as
    soon as possible. Messages from the peer are not sent back.

    connected (bool); delivered: messages that the peer has got; received: those it has sent;
    dropped: those that were refused at either end, or lost to another peer, and retained ones that
    are not kept; resent: frames; refused: connections of peers that had not got the secret, broke
    the rules or made room for another; error: the exception that ended the last connection, or
    attempt; None while it is connected."""

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
                matches(filter, "t")  # raises if it is invalid
        if not isinstance(secret, (bytes, bytearray)):
            raise TypeError("secret must be bytes")
        if not 0 < window < 32768:
            raise ValueError("window must be 1 to 32767")
        if not 0 < max_size < 0x1000000:
            raise ValueError("max_size must be 1 to 16777215")
        if not 0 < keepalive * 1000 <= _DAY:
            raise ValueError("keepalive must be more than 0, and 86400 at most")
        super().__init__(broker, receive, max_size)
        self.name = "link"  # in reports
        self.carrier = carrier
        self.refused = 0
        self.error = None
        self._send = tuple(send)
        self._secret = bytes(secret)
        self._window = window
        self._keepalive = int(keepalive * 1000)
        self._task = None
        self._strangers = []  # connections that shake hands, the oldest first
        self._proved = None  # the last one with a peer that has proved that it has the secret
        self._changed = Event()  # it is connected, or all is delivered
        self._session = None  # 8 bytes, from the first start() on: a fork must not copy them

    # Its life

    def start(self):
        """Begins to connect."""
        if self._task:
            raise RuntimeError("start() twice")
        self.error = None
        self._session = self._session or urandom(8)
        self._task = create_task(self._run())
        theirs = self._theirs
        self._theirs = {}
        for filter in self._send:
            self._broker.attach(filter, self)  # which puts the retained messages
        self._theirs = theirs
        for topic in theirs:
            self._stale.pop(topic, None)

    async def close(self):
        """Ends it. Unacknowledged messages may be lost: await drain() before."""
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
        for conn in [self._conn] + self._strangers + [self._held]:
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
        least, most = self.BACKOFF
        pause = least
        while True:
            try:
                if await self._connect():
                    pause = least
            except Exception as er:
                self._cannot(er)
            try:
                await sleep(pause)
                pause = min(2 * pause, most)
            except MemoryError:
                await sleep(1)  # which takes none

    async def _connect(self):
        # One connection, or as many as come. Returns whether to go on without a long pause.
        made = None  # the last connection

        def factory():
            nonlocal made
            made = _Connection(self)
            return made

        server = await self.carrier.open(factory)
        if server:
            try:
                await Event().wait()  # until this task is cancelled
            finally:
                server.close()
        await made.over.wait()
        return made.peer_keepalive or not self.carrier.calls

    def _cannot(self, er):
        # Nobody may be there yet to be called; everything else is news, the first time.
        news = type(er) is not type(self.error)
        self.error = er
        if news and not (self.carrier.calls and isinstance(er, OSError)):
            try:
                report("A link cannot connect and goes on trying", er)
            except Exception:
                pass  # no memory: link.error has it

    def _met(self, conn):
        # There is a new connection.
        strangers = self._strangers
        if len(strangers) >= _STRANGERS:
            # The oldest one from where most of them come makes room.
            found = [other.address() for other in strangers]
            counts = [found.count(address) for address in found]
            self._refuse(strangers[counts.index(max(counts))], Refused("it was too slow"))
        strangers.append(conn)
        conn.meeting = create_task(self._meet(conn))

    async def _meet(self, conn):
        # The task of a connection: the handshake, then the periodic work.
        try:
            greet = call if self.carrier.calls else answer
            greet = greet(conn, self._secret, lambda: self._state(conn))
            if self.carrier.calls or not conn.lossy:
                greet = wait_for(greet, self.GREETING)
            self._up(conn, await greet)  # on a serial line it takes its time until somebody calls
            await self._attend(conn)
        except (EOFError, OSError, TimeoutError) as er:
            conn.give_up(er)
        except Exception as er:
            self._refuse(conn, er)

    def _state(self, conn):
        # The peer has proved that it has the secret. The state sent here must still hold in _up():
        # so one connection stays, the last one; the peer has given up those before.
        other = self._proved
        if other and other is not conn:
            other.give_up(Refused("another connection has taken its place"))
        self._proved = conn
        return struct.pack(
            _STATE,
            self._session,
            self._peer,
            self._delivered,
            self._first,
            self._max_size,
            self._window,
            self._keepalive,
        )

    def _up(self, conn, state):
        # Hands are shaken.
        if conn is not self._proved:
            raise Refused("another connection has taken its place")
        session, known, number, first, size, window, keepalive = struct.unpack(_STATE, state)
        if not 0 < keepalive <= _DAY:
            raise Refused("keepalive of more than a day")
        self._size = min(size, self._max_size)
        # Both ends know all of this, and so come to the same conclusion.
        if (
            known == self._session
            and session == self._peer
            and not (number - self._first | self._delivered - first) & _NEW_START
        ):
            if not self._got(number):
                raise Refused("it has got what was not sent")
        else:
            self._begin_anew(number if known == self._session else self._first)
            self._peer = session
            self._next = self._delivered = first
        self._strangers.remove(conn)
        self._room = min(window, self._window)
        self._written = 0
        self.resent += len(self._out)
        self._spilt = False
        self._conn = conn
        self.connected = True
        self.error = None
        conn.peer_keepalive = keepalive
        conn.max_size = self._max_size
        self._changed.set()
        self._pump()
        self._begin(conn)

    def _begin(self, conn):
        if not self._held:
            conn.begin()

    def _begin_anew(self, number):
        # One of both has just started, or had another peer since: this peer has got the messages
        # before that number, and those delivered from there on are lost to it.
        lost = self._first - number & 0xFFFF
        if lost and not lost & _NEW_START:
            self.dropped += lost
            report("Another peer has used a link", Refused("%d messages are lost" % lost))
        self._renumber()
        for filter in self._send:
            for topic, _ in self._broker.retained(filter):
                if topic not in self._theirs:
                    self._stale[topic] = None

    def _down(self, conn):
        # A connection has ended, or is about to. May come twice.
        if conn in self._strangers:
            self._strangers.remove(conn)
        if self._proved is conn:
            self._proved = None
        if self._conn is conn:
            self._conn = None
            self.connected = False
            self._room = 0
            while self._late:
                late = self._late[0]
                self.unqueue(late[3])
                late[3].done(self)

    def _failed(self, er):
        # It has ended because of that.
        if self._task and not self.connected:
            self.error = er

    def _refuse(self, conn, er):
        self.refused += 1
        conn.give_up(er)
        if self._held is conn and not conn._task:  # there was no memory for the task
            self.dropped += 1
            self._release()
        if not isinstance(er, (Refused, ValueError, IndexError)):
            report("Exception in a link", er)

    async def _attend(self, conn):
        # Signs of life, and the frames to be sent again.
        pause = max(min(self._keepalive, conn.peer_keepalive) // 2, 10)
        if conn.lossy:
            pause = min(pause, self.RESEND // 2)
        pause /= 1000
        silent = False
        while self._conn is conn:
            now = ticks_ms()
            # Seen twice: if this side stood still for long, frames that came are read in between.
            again = silent
            silent = ticks_diff(now, conn.heard) > conn.peer_keepalive * 5 // 2
            if conn._task or self._held:
                silent = False  # it is not read
            if silent and again:
                return conn.give_up(TimeoutError("the peer is silent"))
            if ticks_diff(now, conn.said) >= self._keepalive // 2 and not conn.full:
                conn.send(bytes((_PING,)))
            if conn.lossy and self._out and ticks_diff(now, self._moved) >= self.RESEND:
                if not conn.transport.get_write_buffer_size():
                    self._again()
            await sleep(pause)  # takes no memory, as wait_for() would

    def _control(self, conn, kind, n):
        # A frame that is no message.
        if n == 1 and kind == _BYE:
            conn.transport.close()
        elif kind <= LAST and conn.lossy:
            # The peer has begun anew; or it was slow, asked again, and answers a second time.
            if kind == HELLO or kind == WHO:
                conn.transport.abort()
        elif n != 1 or kind != _PING:
            raise Refused("unknown frame")
