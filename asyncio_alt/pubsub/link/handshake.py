"""The handshake of a Link: version, proof of the shared secret on both sides, then their states.

    caller                                            the other
    HELLO      version, 16 random bytes        ->
                                               <-     CHALLENGE  16 random bytes
    PROOF      HMAC of both                    ->
                                               <-     ACCEPT     HMAC of both, state
    READY      state                           ->

So the one that is called tells nothing before the caller has proved that it has the secret. This
is version 1; `named` has the later ones.
"""

from hashlib import sha256
from os import urandom

from ... import TimeoutError, wait_for
from ..compat import const

VERSION = 1

HELLO = const(1)
_CHALLENGE = const(2)
_PROOF = const(3)
_ACCEPT = const(4)
_READY = const(5)
WHO = 6  # on a lossy carrier: that frame belongs to no connection, begin anew
LAST = 6

_AGAIN = 0.3  # s until a frame is sent again, on a lossy carrier

SIZE = 80  # bytes that no frame of it exceeds
STATE_SIZE = 30


class Refused(Exception):
    """The peer has not got the secret, speaks another version, or breaks the rules."""


def mac(secret, side, one, two):
    # HMAC-SHA256. Each is used once, so the time that it takes to compare two tells nothing.
    if len(secret) > 64:
        secret = sha256(secret).digest()
    secret = secret + bytes(64 - len(secret))
    inner = sha256(bytes([b ^ 0x36 for b in secret]) + side + one + two).digest()
    return sha256(bytes([b ^ 0x5C for b in secret]) + inner).digest()


async def call(conn, secret, state):
    """Shakes hands as the caller, on a FramedProtocol. state: function(conn) that returns this
    side's. Returns the peer's; raises Refused, or EOFError at an early end."""
    one = urandom(16)
    two = await ask(conn, bytes((HELLO, VERSION)) + one, _CHALLENGE, 16)
    proof = bytes((_PROOF,)) + mac(secret, b"1", one, two)
    accepted = await ask(conn, proof, _ACCEPT, 32 + STATE_SIZE)
    if accepted[:32] != mac(secret, b"2", one, two):
        raise Refused("wrong secret")
    conn.send(bytes((_READY,)), state(conn))
    return accepted[32:]


async def ask(conn, frame, kind, size, no=0):
    # Sends a frame, on a lossy carrier again and again, until it is answered.
    conn.send(frame)
    while True:
        try:
            return await wait_for(_expected(conn, kind, size, no), _AGAIN)
        except TimeoutError:
            if conn.lossy and not conn.full:
                conn.send(frame)


async def _expected(conn, kind, size, no):
    while True:
        frame = await conn.read_frame()
        if len(frame) == 1 + size and frame[0] == kind:
            return frame[1:]
        if frame and frame[0] == no:
            raise Refused(frame[1:])
        if not conn.lossy:
            raise Refused("not the handshake")


async def answer(conn, secret, state):
    """The same for the one that is called. On a lossy carrier a frame may come again, and the
    caller may begin anew."""
    one = None
    proved = False
    while True:
        frame = await conn.read_frame()
        if conn.full:
            continue  # it does not read the answers
        n = len(frame)
        kind = frame[0] if n else 0
        if kind == HELLO and n == 18 and (one is None or conn.lossy):
            if frame[1] != VERSION:
                raise Refused("another version")
            if frame[2:] != one:
                one = frame[2:]
                two = urandom(16)
                proved = False
            conn.send(bytes((_CHALLENGE,)), two)
        elif kind == _PROOF and n == 33 and one and (conn.lossy or not proved):
            if frame[1:] != mac(secret, b"1", one, two):
                raise Refused("wrong secret")
            proved = True
            conn.send(bytes((_ACCEPT,)) + mac(secret, b"2", one, two), state(conn))
        elif kind == _READY and n == 1 + STATE_SIZE and proved:
            return frame[1:]
        elif not conn.lossy:
            raise Refused("not the handshake")
        elif kind > LAST:
            conn.send(bytes((WHO,)))
