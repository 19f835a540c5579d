"""The carriers of a Link: Tcp, Listen and Serial.

Any other object with open() and two attributes is one too: `calls`, whether this end begins the
handshake (one of the two must), and `lossy`, whether bytes may be lost or changed on the way.
"""

import sys

_MICROPYTHON = sys.implementation.name == "micropython"


def _loop():
    # Where create_connection() and create_server() are.
    if _MICROPYTHON:
        from ... import protocol

        return protocol
    from ... import get_running_loop

    return get_running_loop()


class Tcp:
    """Connects to a host (str) and port (int). ssl: None, or an SSLContext for TLS."""

    calls = True
    lossy = False

    def __init__(self, host, port, ssl=None):
        self.host = host
        self.port = port
        self.ssl = ssl

    async def open(self, factory):
        """Connects the protocol that factory() makes. OSError if that cannot be done."""
        await _loop().create_connection(factory, self.host, self.port, ssl=self.ssl)


class Listen(Tcp):
    """Has the peer connect to an address (str) and port (int) of this machine. ssl: None, or an
    SSLContext with a certificate for TLS."""

    calls = False

    async def open(self, factory):
        """Returns a server, which connects protocols until it is closed."""
        return await _loop().create_server(factory, self.host, self.port, ssl=self.ssl)


class Serial:
    """A UART, or another stream of MicroPython's. calls: True at one end of the line, False at the
    other."""

    lossy = True

    def __init__(self, stream, calls):
        self.stream = stream
        self.calls = calls

    async def open(self, factory):
        """Connects the protocol that factory() makes."""
        from ... import connect_stream

        connect_stream(factory(), self.stream)
