"""Hub: joins a broker to many others, which connect to it and say their names."""

from os import urandom

from ..broker import matches
from ..compat import bounded
from .codec import to_text
from .handshake import Refused
from .link import Door, Link
from .named import Named
from .peer import Peer


class Hub:
    """Joins a broker to those that connect to a carrier, each by a Link that has a name. Use it by
    `async with Hub(...) as hub`, or by start() and close().

    carrier: a Listen of pubsub; peers: the secrets of the peers that may connect: a dict from
    their names (str) to them, or a function that gets a name and returns the secret, or None. In
    place of a secret (bytes) a tuple of secret, send and receive gives a peer its own filters;
    send, receive, window, max_size, keepalive, integrity: as for Link, for each peer; most: how
    many peers are known at a time (int, 1 to 16777215).

    A peer that connects again goes on where its last connection ended. A second connection of the
    same name takes the place of the first one, once it has proved the secret. Messages of one peer
    go to the others that match their filters. A peer that is slow or not connected loses them, and
    keeps nobody waiting but publish_wait() of this program. $peer/NAME/online is published, and
    retained, with True or False.

    peers: dict from a name to its Peer, which has connected, delivered, received, dropped, resent
    and error as a Link has them; refused: connections that did not prove a secret, or made room
    for another; error: the exception because of which it cannot listen, or that ended the last
    one of these."""

    GREETING = Link.GREETING
    BACKOFF = Link.BACKOFF
    RESEND = Link.RESEND

    # There is no one peer.
    connected = False
    secret = state = None

    def __init__(
        self,
        broker,
        carrier,
        peers,
        send=(),
        receive=(),
        *,
        window=16,
        max_size=1024,
        keepalive=15,
        most=16,
        integrity=False,
    ):
        bounded("most", most, 1)
        if not callable(peers):
            for name in peers:
                if not _is_name(name):
                    raise ValueError("peers: a name must be one level of a topic, of 32 bytes")
        self.peers = {}
        self.refused = 0
        self.error = None
        self._broker = broker
        self._find = peers if callable(peers) else peers.get
        self._filters = send, receive
        self._options = window, max_size, keepalive
        self._most = most
        self._door = Door(carrier, self, self)
        self._door.shake = Named(b"", integrity, self.find).answer
        self._door.most = max(most, self._door.most)
        self._peer(b"", send, receive)  # raises if something is invalid
        if not callable(peers):
            for name in peers:
                self._peer(*self._access(peers[name]))

    def _access(self, access):
        # A secret and filters.
        return access if isinstance(access, tuple) else (access,) + self._filters

    def _peer(self, secret, send, receive):
        return Peer(None, self._broker, send, receive, secret, *self._options)

    # Its life

    def start(self):
        """Begins to listen."""
        self._door.open()
        for name in self.peers:
            self.peers[name].start()

    async def close(self):
        """Ends it. Unacknowledged messages may be lost."""
        if self._door.task:
            await self._door.close(self._stop)

    def _stop(self):
        for name in self.peers:
            self.peers[name].stop()

    async def __aenter__(self):
        self.start()
        return self

    async def __aexit__(self, *exc):
        await self.close()

    # Its peers

    def find(self, name):
        """Returns the secret and the state function for a caller of that name (bytes)."""
        name = to_text(name)
        access = self._find(name) if _is_name(name) else None
        if access is None:
            # It does not hear whether there is such a name.
            return urandom(16), None
        access = self._access(access)
        return access[0], lambda conn: self._join(name, access).state(conn)

    def _join(self, name, access):
        # It has proved that it has the secret.
        peer = self.peers.get(name)
        if not peer:
            if len(self.peers) >= self._most and not self._make_room():
                raise Refused("there are too many peers")
            peer = self._peer(*access)
            peer.name = name
            peer.policy = "drop_new"  # so that it does not keep the other peers waiting
            peer.on_change = self._changed
            peer.start()
            self.peers[name] = peer
        return peer

    def _make_room(self):
        for name in self.peers:
            peer = self.peers[name]
            if not peer.proved:  # nor is it about to be connected
                del self.peers[name]
                peer.stop()
                self._broker.publish("$peer/%s/online" % name, None, True)
                return True

    def _changed(self, peer):
        self._broker.publish("$peer/%s/online" % peer.name, peer.connected, True)


def _is_name(name):
    # Whether it is one level of a topic.
    if not isinstance(name, str) or not name or "/" in name or len(name.encode()) > 32:
        return False
    try:
        return matches("+", "x" + name)
    except ValueError:
        return False
