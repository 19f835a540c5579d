"""Addresses of sockets as CPython has them: (host, port). MicroPython's unix port takes and gives
bytes in place of that."""

import socket


def pair(addr):
    """Returns an address that a socket has given (tuple or bytes) as a tuple: (host, port), with
    two more for IPv6. Of a unix socket: its path (str), or None if it has none."""
    if isinstance(addr, tuple):
        return addr
    if len(addr) < 3:
        return None
    addr = socket.sockaddr(addr)
    if len(addr) == 2:
        return bytes(addr[1]).split(b"\0")[0].decode() or None
    return (socket.inet_ntop(addr[0], addr[1]),) + addr[2:]


def resolve(addr, name, family=0):
    """Returns the family of an address, and the address in the form that a socket takes. addr:
    (host, port), or that form (bytes-like). family: 0 for any. If the host is not a number, a name
    server is asked, and the loop waits for that. OSError if the host is not known, or not in that
    family; TypeError and ValueError have the name (str) of the argument."""
    if isinstance(addr, tuple) and len(addr) > 1:
        if not isinstance(addr[0], str) or not isinstance(addr[1], int):
            raise TypeError(name + " must be (host, port), a str and an int")
        if not 0 <= addr[1] <= 65535:
            raise ValueError(name + ": port must be 0 to 65535")
        for ai in socket.getaddrinfo(addr[0], addr[1]):
            if family in (0, ai[0]):
                return ai[0], ai[-1]
        raise OSError(name + " has no address of this family")
    if hasattr(socket, "sockaddr") and isinstance(addr, (bytes, bytearray)) and len(addr) > 2:
        return family or socket.sockaddr(addr)[0], addr
    raise TypeError(name + " must be (host, port)")
