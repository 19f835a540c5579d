"""SharedLink: a Link that puts large payloads in memory which two processes share, on CPython.

Each end writes to a segment of its own: memory without a name (a memfd), which the other end maps
through /proc. So nothing of it is to be found in the system, and it is gone once both have let go
of it or ended, however they did. In place of a payload the link sends where it is; the place is
free again when the message has been acknowledged.
"""

import os
from collections import deque
from contextlib import suppress
from mmap import ACCESS_READ, PAGESIZE, mmap
from stat import S_ISREG
from struct import pack, unpack

from ... import to_thread
from ..compat import const
from .handshake import Refused, mac
from .link import Link
from .peer import ACK, DATA, HEAD

try:
    from fcntl import F_ADD_SEALS, F_GET_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, fcntl
    from os import memfd_create
except ImportError:  # not Linux: it stays a Link
    memfd_create = None

# The frames of such links. The first is an ACK with random bytes behind it, which other links
# ignore; the other frames go only to a peer that has sent such bytes too. The secret makes a key
# of them, and a segment begins with it: a peer that can read and write memory of this machine can
# show it. Each end has another key, so that a message of one end proves nothing if it is sent
# back.
_SEGMENT = const(13)  # process, descriptor and size of a segment that begins with the key
_ATTACHED = const(14)  # 1, or 0 if that failed
_SHARED = const(15)  # as DATA, but for the payload: where it is and its size; _SEGMENT's, if new

_KEY = const(16)  # bytes, of a key and of the random bytes
_LINE = const(64)  # bytes: each payload begins at a multiple of it
_LEAST = const(0x400000)  # bytes of a segment for payloads, at first
_MOST = const(0x40000000)
_COUNT = const(4)  # so many payloads as large as the largest one have room, at least


class _Segment:
    # Memory that payloads are written to, one behind the other, from the start on if it is empty.
    def __init__(self, size, key):
        self.size = size
        self._places = deque()  # (number of the message, where its payload begins, and ends)
        self._largest = 0  # payload so far
        self._taken = 0  # up to there the system has given memory
        self.fd = memfd_create("asyncio_alt", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl(self.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
            self._map = mmap(self.fd, size)
            self._take(_KEY)
        except BaseException:
            os.close(self.fd)
            raise
        self._map[:_KEY] = key

    def _take(self, stop):
        # Lack of memory is an OSError here; later it would be a signal.
        if stop > self._taken:
            os.posix_fallocate(self.fd, self._taken, stop - self._taken)
            self._taken = stop

    def _room(self, n, first):
        # Where n bytes have room; None if they have not. first: the number of the first message
        # that is not acknowledged.
        places = self._places
        while places and places[0][0] - first & 0x8000:
            places.popleft()
        at = _LINE
        stop = self.size
        if places:
            begin = places[0][1]
            at = -(-places[-1][2] // _LINE) * _LINE
            if at <= begin:
                stop = begin
            elif at + n > stop:
                at = _LINE
                stop = begin
        return at if at + n <= stop else None

    def full(self, first):
        # Whether there is no room for another one as large as any so far.
        return self._room(self._largest, first) is None

    def put(self, payload, number, first):
        # Returns where the payload of a message is now; None if there is no room.
        n = len(payload)
        at = self._room(n, first)
        if at is not None:
            self._take(at + n)
            self._map[at : at + n] = payload
            self._places.append((number, at, at + n))
            self._largest = max(self._largest, n)
        return at

    def close(self):
        os.close(self.fd)
        self._map.close()


def _attach(pid, fd, size, most, key):
    # Maps a segment of another process. OSError or ValueError if it is invalid.
    if not _KEY <= size <= most:
        raise ValueError("too small, or too large")
    path = os.open("/proc/%d/fd/%d" % (pid, fd), os.O_PATH)  # whatever it is, that does nothing
    try:
        if not S_ISREG(os.fstat(path).st_mode):
            raise ValueError("no memory")
        file = os.open("/proc/self/fd/%d" % path, os.O_RDONLY)
    finally:
        os.close(path)
    try:
        # A process that reads a part that has been cut off gets a signal.
        if not fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK:
            raise ValueError("it may be cut off")
        segment = mmap(file, size, access=ACCESS_READ)
    finally:
        os.close(file)
    if segment[:_KEY] != key:
        raise ValueError("another key")
    return segment


class _Frame:
    # A DATA frame in two parts, used as if it were one.
    def __init__(self, head, payload):
        self.head = head
        self.payload = payload

    def __len__(self):
        return len(self.head) + len(self.payload)

    def __getitem__(self, key):
        if isinstance(key, slice) and key.stop is None:
            return self.payload
        return self.head[key]

    def __setitem__(self, key, value):
        self.head[key] = value


class Store:
    """A Peer's payloads in shared memory. threshold: larger payloads go that way (bytes, int);
    sides: two bytes, of this end and the other one.

    shared: how many messages were sent so."""

    def __init__(self, threshold, sides):
        self.shared = 0
        self._threshold = threshold
        self._sides = sides
        self._peer = None  # the Peer, while it is connected
        self._forget()

    def _forget(self):
        # These belong to one connection.
        self._own = None  # the random bytes of this end; None: there are to be no segments
        self._key = None  # with which the peer's segments begin
        self._peer_key = None  # the same for those of this end
        self._peer_segment = None  # the mmap of the peer's
        self._segment = None  # payloads are written to it
        self._offered = None  # the next one, which the peer has not attached yet
        self._grows = True  # False once it could not
        self._waits = False  # for the message that was in a segment which could not be attached

    def begin(self, peer, conn):
        """The peer is connected: from now on its frames come here."""
        self._peer = peer
        if memfd_create and not conn.lossy:
            self._own = os.urandom(_KEY)
            conn.carry(self._take, peer.max_size)
            conn.send(pack(">BH", ACK, peer.window.delivered) + self._own)

    def end(self):
        """It is no more."""
        for segment in (self._segment, self._offered, self._peer_segment):
            if segment:
                segment.close()
        self._forget()

    def _most(self):
        # Bytes that a segment has at most, at both ends: for all that may be under way.
        room = self._peer.window.room
        return min(PAGESIZE + (room + 1) * (self._peer.size + _LINE), _MOST)

    # Sending

    def full(self):
        segment = self._written_to()
        return segment is not None and segment.full(self._peer.window.first)

    def _written_to(self):
        # None until the peer has attached the first one; after that there is no need to wait.
        return self._segment and (self._offered or self._segment)

    def joined(self, head, payload):
        """Returns the frame of a message."""
        # bytes do not change: there is no need to keep a copy of them.
        if type(payload) is bytes and len(payload) > self._threshold:
            return _Frame(bytearray(head), payload)
        return head + payload

    def placed(self, frame):
        """Returns the frame to be written in place of that of a message."""
        end = HEAD + frame[6]
        place = None
        if self._segment and len(frame) - end > self._threshold:
            whole = type(frame) is bytearray
            place = self._put(frame, memoryview(frame)[end:] if whole else frame.payload)
        if place:
            frame = frame[:end] + place
            frame[0] = _SHARED
            self.shared += 1
        elif type(frame) is _Frame:
            frame = frame.head + frame.payload
        return frame

    def _put(self, frame, payload):
        # Returns the bytes to send in place of a payload; None if it has to be sent itself.
        n = len(payload)
        segment = self._written_to()
        larger = None
        size = min(max(1 << (_COUNT * n).bit_length(), _LEAST), self._most())
        try:
            if size > segment.size and self._grows and not self._offered:
                segment = larger = _Segment(size, self._peer_key)
            at = segment.put(payload, frame[1] << 8 | frame[2], self._peer.window.first)
        except OSError:
            self._grows = False
            if larger:
                larger.close()
            return None
        if at is None:
            return None
        return pack("<II", at, n) + (self._offer(larger) if larger else b"")

    def _offer(self, segment):
        self._offered = segment
        return pack("<III", os.getpid(), segment.fd, segment.size)

    # Receiving

    def _take(self, view):
        peer = self._peer
        conn = peer.conn
        kind = view[0]
        n = len(view)
        if self._waits and kind in (DATA, _SHARED):
            if view[1] << 8 | view[2] != peer.window.expected:
                return
            self._waits = False
        if kind == ACK and n >= 3 + _KEY and not self._peer_key:
            self._prove(conn, bytes(view[3 : 3 + _KEY]))
        elif kind == _SEGMENT and n == 13:
            return self._attach(conn, view[1:])
        elif kind == _ATTACHED and n == 2 and self._offered:
            # Of a peer that has shown no memory of its own it is not believed. One that has sent
            # its segment before this.
            return self._attached(view[1] and self._peer_segment)
        elif kind == _SHARED:
            return self._take_shared(conn, view)
        return peer.take(view)

    def _prove(self, conn, theirs):
        # The first segment is for that only: a peer that finds the key in it is on this machine.
        peer = self._peer
        self._key = mac(peer.secret, self._sides[1:], self._own, peer.peer_session)[:_KEY]
        self._peer_key = mac(peer.secret, self._sides[:1], theirs, peer.session)[:_KEY]
        try:
            conn.send(bytes((_SEGMENT,)) + self._offer(_Segment(PAGESIZE, self._peer_key)))
        except OSError:
            pass

    def _attached(self, done):
        segment, other = self._offered, self._segment
        if not done:
            segment, other = other, segment
            self._grows = False
        if other:
            other.close()
        self._segment = segment
        self._offered = None
        if segment and not done:
            self._peer.again()

    async def _attach(self, conn, view):
        # Maps a new segment of the peer's; later frames wait for that. Returns whether it is
        # there.
        pid, fd, size = unpack("<III", view)
        try:
            segment = await to_thread(_attach, pid, fd, size, self._most(), self._key)
        except (OSError, ValueError, MemoryError, RuntimeError):  # the last: there is no thread
            segment = None
        if self._peer.conn is not conn:
            if segment:
                segment.close()
            return False
        if segment:
            if self._peer_segment:
                self._peer_segment.close()
            self._peer_segment = segment
        with suppress(OSError):
            await conn.drain()  # a peer that reads no answers gets no more of them
        conn.send(bytes((_ATTACHED, segment is not None)))
        return segment is not None and self._peer.conn is conn

    def _take_shared(self, conn, view):
        end = HEAD + view[6]
        n = len(view) - end
        if n == 20:
            return self._take_outgrown(conn, view, end)
        if n != 8:
            raise Refused("no place of a payload")
        at, n = unpack("<II", view[end:])
        segment = self._peer_segment
        if not segment or at + n > len(segment) or end + n > self._peer.max_size:
            raise Refused("a payload that is outside of the segment, or too large")
        head = bytearray(view[:end])
        head[0] = DATA
        # Copied before anything looks at it: the peer may write there at any time.
        return self._peer.take(_Frame(head, segment[at : at + n]))

    async def _take_outgrown(self, conn, view, end):
        # A payload for which the peer has made a larger segment.
        try:
            attached = await self._attach(conn, view[end + 8 :])
            if self._peer.conn is not conn:
                return
            if attached:
                parked = self._take_shared(conn, view[: end + 8])
                if parked:
                    await parked
            else:
                self._waits = True  # frames that came are dropped, and sent again from there on
        except Exception as er:
            conn.give_up(er)


class SharedLink(Link):
    """A Link that hands its large payloads over in shared memory, if the peer is a SharedLink in a
    process of the same user on the same machine, and both run Linux. With any other it is a Link.

    threshold: larger payloads go that way (bytes, int, 256 or more); all else as for Link, of
    which max_size must be larger than that.

    shared: how many messages were sent so."""

    def __init__(self, broker, carrier, send=(), receive=(), *, threshold=65536, **options):
        super().__init__(broker, carrier, send, receive, **options)
        if threshold < 256:
            raise ValueError("threshold must be 256 or more")
        if threshold + HEAD >= self.peer.max_size:
            raise ValueError("max_size must be more than threshold, which is %d" % threshold)
        self.peer.store = Store(threshold, b"34" if carrier.calls else b"43")

    @property
    def shared(self):
        return self.peer.store.shared
