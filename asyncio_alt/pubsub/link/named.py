"""The handshake of a Link that has a name, or whose frames are sealed: versions 2 and 3.

    caller                                            the other
    HELLO      version, 16 random bytes, name  ->
                                               <-     CHALLENGE  16 random bytes
    PROOF      HMAC of these                   ->
                                               <-     ACCEPT     HMAC with the state, state
    READY      HMAC with the state, state      ->

In place of an answer REFUSED says why.
"""

from os import urandom

from .handshake import HELLO, LAST, STATE_SIZE, WHO, Refused, ask, mac

_CHALLENGE = 2
_PROOF = 3
_ACCEPT = 4
_READY = 5
_REFUSED = 7
_NAME = 32  # bytes that a name has, at most


class Named:
    """name: what a caller says (bytes); sealed: whether frames get a tag; find: a function(name)
    that returns the secret and the state function of a caller, if these depend on its name."""

    def __init__(self, name, sealed, find=None):
        if len(name) > _NAME:
            raise ValueError("name must have 32 bytes, at most")
        self._version = 3 if sealed else 2
        self._name = name
        self._find = find

    def _seal(self, conn, secret, one, two, sides):
        if self._version == 3:
            from .seal import Seal

            Seal(conn, *[mac(secret, side, one, two) for side in sides])

    async def call(self, conn, secret, state):
        """As handshake.call()."""
        one = bytes((self._version,)) + urandom(16) + self._name
        two = await self._ask(conn, bytes((HELLO,)) + one, _CHALLENGE, 16)
        proof = bytes((_PROOF,)) + mac(secret, b"5", one, two)
        accepted = await self._ask(conn, proof, _ACCEPT, 32 + STATE_SIZE)
        theirs = accepted[32:]
        if accepted[:32] != mac(secret, b"6", one, two + theirs):
            raise Refused("wrong secret")
        ours = state(conn)
        conn.send(bytes((_READY,)) + mac(secret, b"9", one, two + ours), ours)
        self._seal(conn, secret, one, two, (b"7", b"8"))
        return theirs

    async def _ask(self, conn, frame, kind, size):
        try:
            return await ask(conn, frame, kind, size, _REFUSED)
        except Refused as er:
            if isinstance(er.args[0], bytes):
                raise Refused("the peer says: " + str(er.args[0], "utf-8"))
            raise er

    async def answer(self, conn, secret, state):
        """As handshake.answer()."""
        one = None
        proved = False
        while True:
            frame = await conn.read_frame()
            if conn.full:
                continue  # it does not read the answers
            n = len(frame)
            kind = frame[0] if n else 0
            body = frame[1:]
            if kind == HELLO and 18 <= n <= 18 + _NAME and (one is None or conn.lossy):
                if body[0] != self._version:
                    if body[0] > 1:
                        _refuse(conn, "integrity=True at one end only")
                    raise Refused("another version")
                if body != one:
                    one = body
                    two = urandom(16)
                    proved = False
                    if self._find:
                        secret, state = self._find(one[17:])
                conn.send(bytes((_CHALLENGE,)), two)
            elif kind == _PROOF and n == 33 and one and (conn.lossy or not proved):
                if body != mac(secret, b"5", one, two):
                    _refuse(conn, "wrong name or secret")
                proved = True
                try:
                    ours = state(conn)
                except Refused as er:
                    _refuse(conn, str(er))
                conn.send(bytes((_ACCEPT,)) + mac(secret, b"6", one, two + ours), ours)
            elif kind == _READY and n == 33 + STATE_SIZE and proved:
                theirs = body[32:]
                if body[:32] != mac(secret, b"9", one, two + theirs):
                    raise Refused("a changed state")
                self._seal(conn, secret, one, two, (b"8", b"7"))
                return theirs
            elif not conn.lossy:
                raise Refused("not the handshake")
            elif kind > LAST:
                conn.send(bytes((WHO,)))


def _refuse(conn, why):
    conn.send(bytes((_REFUSED,)) + why.encode())
    raise Refused(why)
