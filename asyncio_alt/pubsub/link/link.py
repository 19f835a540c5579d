"""Link: joins two brokers, on MicroPython or CPython, over TCP or a serial line."""

from ... import CancelledError, Event, TimeoutError, create_task, sleep, wait_for
from ..compat import const, report
from .connection import Connection
from .handshake import Refused, answer, call
from .peer import Peer

_STRANGERS = const(4)  # connections that shake hands, at most


class Door:
    """Joins the other end to a Peer, by a carrier. times: an object with GREETING, BACKOFF and
    RESEND, as Link has them."""

    def __init__(self, carrier, peer, times):
        self.carrier = carrier
        self.strangers = []  # connections that shake hands, the oldest first
        self.most = _STRANGERS  # how many of them there are at most
        self.joined = []  # connections on which hands are shaken
        self.peer = peer
        self.task = None
        self._times = times
        self.shake = call if carrier.calls else answer

    def open(self):
        """Begins."""
        if self.task:
            raise RuntimeError("start() twice")
        self.peer.error = None
        self.task = create_task(self._run())

    async def close(self, stop):
        """Ends it, and all connections; stop() is called as soon as nobody is connected."""
        self.task.cancel()
        try:
            await self.task
        except CancelledError:
            pass
        self.task = None
        conns = self.strangers + self.joined
        for conn in conns:
            conn.leave()
        stop()
        for conn in conns:
            try:
                await wait_for(conn.over.wait(), 1)
            except TimeoutError:
                for other in conns:
                    other.transport.abort()
                await conn.over.wait()

    async def _run(self):
        least, most = self._times.BACKOFF
        pause = least
        while True:
            try:
                try:
                    if await self._connect():
                        pause = least
                except Exception as er:
                    # Nobody may be there yet to be called; everything else is news, the first
                    # time.
                    news = type(er) is not type(self.peer.error)
                    self.peer.error = er
                    if news and not (self.carrier.calls and isinstance(er, OSError)):
                        report("A link cannot connect and goes on trying", er)
                await sleep(pause)
                pause = min(2 * pause, most)
            except Exception:  # no memory; link.error has it
                await sleep(1)  # which takes none

    async def _connect(self):
        # One connection, or as many as come. Returns whether to go on without a long pause.
        made = None  # the last connection

        def factory():
            nonlocal made
            made = Connection(self.carrier.lossy, self._met, self._ended)
            return made

        server = await self.carrier.open(factory)
        if server:
            try:
                await Event().wait()  # until this task is cancelled
            finally:
                server.close()
        await made.over.wait()
        return made.patience or not self.carrier.calls

    def _met(self, conn):
        strangers = self.strangers
        if len(strangers) >= self.most:
            # The oldest one from where most of them come makes room.
            found = [other.address() for other in strangers]
            counts = [found.count(address) for address in found]
            strangers[counts.index(max(counts))].give_up(Refused("it was too slow"))
        strangers.append(conn)
        return create_task(self._meet(conn))

    async def _meet(self, conn):
        # The task of a connection: the handshake, then the periodic work.
        try:
            peer = self.peer
            greet = self.shake(conn, peer.secret, peer.state)
            if self.carrier.calls or not conn.lossy:
                greet = wait_for(greet, self._times.GREETING)
            state = await greet  # on a serial line it takes its time until somebody calls
            if conn in self.strangers:
                self.strangers.remove(conn)
                self.joined.append(conn)
                conn.peer.up(conn, state)
            await conn.attend(self._times.RESEND)
        except Exception as er:
            conn.give_up(er)

    def _ended(self, conn, er):
        conns = self.strangers if conn in self.strangers else self.joined
        if conn in conns:
            conns.remove(conn)
        peer = conn.peer or self.peer
        if self.task and not peer.connected:
            peer.error = er
        if not isinstance(er, (EOFError, OSError, TimeoutError)):
            peer.refused += 1  # the other end breaks the rules, or this one has failed
            if not isinstance(er, (Refused, ValueError, IndexError)):
                report("Exception in a link", er)


class Link:
    """Joins a broker to the one at the other end: sends it the messages that are published here
    and match `send`, publishes here those that it sends and that match `receive` (lists of
    filters). Use it by `async with Link(...) as link`, or by start() and close().

    carrier: a Tcp, Listen or Serial of pubsub; secret: bytes, the same at both ends;
    window: how many messages may be under way (int, 1 to 32767); max_size: bytes of topic and
    payload together that are taken, at most (int); keepalive: a sign of life is sent after so many
    s without a message, and a peer that is silent for three times its own is given up. Of window
    and max_size the smaller one of both ends counts. name: str, which a Hub has to be told, and in
    reports; integrity: True to give each frame a tag, so that nobody on the way can change or
    repeat it: at both ends, or they refuse each other.

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
        name="",
        integrity=False,
    ):
        self.name = name or "link"  # in reports, too
        self.carrier = carrier
        self.peer = Peer(self, broker, send, receive, secret, window, max_size, keepalive)
        self.door = Door(carrier, self.peer, self)
        if name or integrity:
            from .named import Named

            shake = Named(name.encode(), integrity)
            self.door.shake = shake.call if carrier.calls else shake.answer
        self.put = self.put_wait = self.peer.put  # it costs no call of its own

    def __getattr__(self, name):
        # connected, error, the counters, full() and unqueue() are the peer's.
        return getattr(self.peer, name)

    def start(self):
        """Begins to connect."""
        self.door.open()
        self.peer.start()

    async def close(self):
        """Ends it. Unacknowledged messages may be lost: await drain() before."""
        if self.door.task:
            await self.door.close(self.peer.stop)

    async def __aenter__(self):
        self.start()
        return self

    async def __aexit__(self, *exc):
        await self.close()

    async def wait_connected(self):
        """Waits until it is connected."""
        while not self.peer.connected:
            self.peer.changed.clear()
            await self.peer.changed.wait()

    async def drain(self):
        """Waits until the peer has got all that was taken."""
        peer = self.peer
        while peer.window.frames or peer.mirror.stale:
            peer.changed.clear()
            await peer.changed.wait()
