"""Connections over unix sockets, on MicroPython's unix port."""

import socket

from . import core
from .server import serve
from .stream import Stream, _close, _dial

_AF_UNIX = 1


def _address(path):
    # As the C library has it: MicroPython takes that in place of a path.
    if not hasattr(socket, "sockaddr"):
        raise OSError(97, "this port has no unix sockets")  # EAFNOSUPPORT
    if not isinstance(path, str):
        raise TypeError("path must be a str")
    data = path.encode()
    if not 0 < len(data) < 108 or b"\0" in data:
        raise ValueError("path must be 1 to 107 bytes without a zero")
    return _AF_UNIX.to_bytes(2, "little") + data + b"\0"


async def open_unix_connection(path):
    """Connects to the unix socket at path (str); returns (reader, writer), which are one Stream.
    OSError if nobody listens there, or if the port has no unix sockets."""
    addr = _address(path)
    s = socket.socket(_AF_UNIX, socket.SOCK_STREAM)
    try:
        s.setblocking(False)
        _dial(s, addr)
        await core.sleep_ms(0)
    except BaseException:
        _close(s, None)
        raise
    stream = Stream(s, {"peername": path})
    return stream, stream


async def start_unix_server(cb, path, backlog=5, *, max_connections=None):
    """Starts a server at path (str), as start_server() with the same cb, backlog and
    max_connections; returns a Server. A socket that an ended server has left there is removed;
    the server itself leaves its own. OSError if another file is there, or a server that runs."""
    addr = _address(path)
    _remove(path, addr)
    return await serve(
        cb, (_AF_UNIX, socket.SOCK_STREAM, 0, addr), backlog, None, None, max_connections
    )


def _remove(path, addr):
    import os

    try:
        if os.stat(path)[0] & 0xF000 != 0xC000:  # S_IFSOCK
            return
    except OSError:
        return
    s = socket.socket(_AF_UNIX, socket.SOCK_STREAM)
    try:
        s.setblocking(False)
        s.connect(addr)
    except OSError as er:
        if er.errno == 111:  # ECONNREFUSED: nobody listens
            os.remove(path)
    finally:
        s.close()
