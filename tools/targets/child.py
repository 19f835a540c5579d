"""Child processes, as in the package; a port for them."""

import contextlib
import random
import socket

from asyncio_alt.pc.child import SLICE, converse, kill, kill_all, running  # noqa: F401


def free_port() -> int:
    """Return a port of 127.0.0.1 where nobody listens. Linux gives it to no socket that
    connects."""
    while True:
        port = random.randrange(20000, 30000)
        with contextlib.suppress(OSError), socket.socket() as s:
            # A process that is being started may have this socket for a moment longer.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            return port
