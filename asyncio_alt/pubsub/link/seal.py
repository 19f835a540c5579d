"""Seal: each frame of a link has a tag, so that nobody on the way can change, repeat or drop it.

Behind a frame stand its number in that direction (4 bytes) and the first 8 bytes of the
HMAC-SHA256 of both, by a key that this direction of this connection has alone.
"""

from hashlib import sha256

from .handshake import HELLO, WHO, Refused

_TAG = 12  # bytes behind a frame


class Seal:
    """Takes the place of a connection's send() and carry()."""

    def __init__(self, conn, own, other):
        self._conn = conn
        self._own = _pads(own)
        self._other = _pads(other)
        self._sent = self._came = 0
        self._write = conn.send
        self._carry = conn.carry
        conn.send = self.send
        conn.carry = self.carry

    def send(self, frame, rest=b""):
        frame = bytes(frame) + rest
        self._sent += 1
        number = self._sent.to_bytes(4, "big")
        self._write(frame, number + _tag(self._own, number, frame))

    def carry(self, take, size):
        def check(view):
            n = len(view) - _TAG
            number = view[n : n + 4]
            at = int.from_bytes(bytes(number), "big")
            conn = self._conn
            if n < 1 or view[n + 4 :] != _tag(self._other, number, view[:n]):
                if not conn.lossy:
                    raise Refused("a frame without its tag")
                # The peer may have begun anew; all else comes again.
                return take(view) if view[0] in (HELLO, WHO) and n < 40 else None
            if at <= self._came or at > self._came + 1 and not conn.lossy:
                if not conn.lossy:
                    raise Refused("a frame is missing, or has come again")
                return
            self._came = at
            return take(view[:n])

        self._carry(check, size + _TAG)


def _pads(key):
    key = key + bytes(32)
    return bytes([b ^ 0x36 for b in key]), bytes([b ^ 0x5C for b in key])


def _tag(pads, number, frame):
    inner = sha256(pads[0])
    inner.update(number)
    inner.update(frame)
    outer = sha256(pads[1])
    outer.update(inner.digest())
    return outer.digest()[:8]
