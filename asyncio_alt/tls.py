"""TLS connections before their handshake ends: how long that may take, and how many may try."""

from time import ticks_add, ticks_diff

from micropython import const

from . import core

_LOOK_MS = const(1000)  # how often it looks at them, at most
_LOOKS = const(5)  # so often, before one of more than `most` gives way


def timeout_ms(ssl, seconds):
    """An ssl_handshake_timeout, in ms. TypeError or ValueError if invalid, or without ssl."""
    if not ssl:
        raise ValueError("ssl_handshake_timeout needs ssl")
    try:
        ms = int((seconds + 0) * 1000)
    except (TypeError, ValueError):
        raise TypeError("ssl_handshake_timeout must be a number")
    if not 0 < ms < 1 << 29:
        raise ValueError("ssl_handshake_timeout must be more than 0 s and less than 6 days")
    return ms


class Handshakes:
    """Closes each connection that it was given and that has not shaken hands in time. No
    MicroPython tells when they are shaken: it is taken from the first byte that is read or sent.
    most (int): of more than so many that have sent nothing the oldest is closed at once, and of
    more that are slow the oldest is closed after some seconds."""

    # A connection has `shaken`, true also once it is closed, and _fail(exc), which closes it.

    def __init__(self, most=None):
        self._most = most
        self._all = []  # [connection, ticks at which it has failed, how often looked at]
        self._task = None

    def add(self, conn, ms):
        """Gives conn ms (int) from now. Returns its entry: a list, with conn as the first item."""
        entry = [conn, ticks_add(core.ticks(), ms), 0]
        if not self._task or self._task.done():
            self._task = core.create_task(self._look(min(ms, _LOOK_MS)))
        self._all.append(entry)
        return entry

    def forget(self, entry):
        """Leaves the connection of this entry alone."""
        if entry in self._all:
            self._all.remove(entry)

    def silent(self):
        """The entries (list) of those that have sent nothing, the oldest first."""
        return [entry for entry in self._all if isinstance(entry[0], Silent)]

    async def _look(self, ms):
        while self._all:
            await core.sleep_ms(ms)
            for entry in self._all[:]:
                conn = entry[0]
                entry[2] += 1
                if conn.shaken:
                    self.forget(entry)
                elif ticks_diff(core.ticks(), entry[1]) >= 0 or (
                    self._most and len(self._all) > self._most and entry[2] > _LOOKS
                ):
                    self.forget(entry)
                    try:
                        conn._fail(OSError(110, "TLS handshake timed out"))  # ETIMEDOUT
                    except Exception as er:
                        core.report("Exception in a TLS handshake", er)


class Doorman:
    """Takes each connection of a TLS server. most: see Handshakes. ms (int): for each handshake.
    connected: called with the TLS socket, the one under it and the peer's address, once
    the peer has begun; returns the connection."""

    def __init__(self, ssl, most, ms, connected):
        self.ssl = ssl
        self.ms = ms
        self.most = max(most, 1)
        self.connected = connected
        self.hands = Handshakes(self.most)

    def __call__(self, s, raw, addr):
        Silent(self, s, addr)
        silent = self.hands.silent()
        if len(silent) > self.most:
            silent[0][0]._fail(None)

    def close(self):
        """Closes the connections that have sent nothing."""
        for entry in self.hands.silent():
            entry[0]._fail(None)


class Silent:
    """A connection that is to begin TLS: until then it costs no memory for that."""

    shaken = False

    def __init__(self, doorman, s, addr):
        self._doorman = doorman
        self._s = s
        self._addr = addr
        core._io_queue.watch(s, 1, self)
        try:
            self._entry = doorman.hands.add(self, doorman.ms)
        except BaseException:
            core._io_queue.watch(s, 0, self)
            raise

    def _fail(self, exc):
        self._doorman.hands.forget(self._entry)
        core._io_queue.watch(self._s, 0, self)
        self._s.close()

    def _raised(self, er):
        core.report("Exception in a server", er)

    def _ready(self, ev):
        core._io_queue.watch(self._s, 0, self)
        doorman = self._doorman
        s = raw = self._s
        try:
            s = doorman.ssl.wrap_socket(s, server_side=True, do_handshake_on_connect=False)
            s.setblocking(False)
            self._entry[0] = doorman.connected(s, raw, self._addr)
        except Exception as er:
            doorman.hands.forget(self._entry)
            try:
                s.close()
            finally:
                if raw is not s:
                    raw.close()
                self._raised(er)


def limit(conn, ms):
    """Has conn closed unless hands are shaken in ms (int)."""
    Handshakes().add(conn, ms)
