"""The Doorbell of the unix port; its contract is in wake.py."""

import socket
from _thread import allocate_lock

once = None  # a poll costs a system call here: a __next__ in Python is faster
idle = 3  # a scheduled callback does not end a poll: look after it
hurry = True

# A datagram socket connected to itself, so that a poll with it blocks in the kernel.
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _bind():
    port = 49152 + (id(stream) >> 5 & 8191)
    for port in range(port, port + 1000):
        addr = socket.getaddrinfo("127.0.0.1", port)[0][-1]
        try:
            stream.bind(addr)
            break
        except OSError:
            pass
    else:
        raise OSError("no free UDP port")
    stream.connect(addr)
    stream.setblocking(False)


_bind()

# The lock is held from the ring until it is heard, so that a bell that rings is not rung again.
# Taking it is atomic where threads have no GIL.
_lock = allocate_lock()
rung = _lock.locked


def ring(b):
    if _lock.acquire(False):
        stream.write(b)


def clear(buf):
    # Let go in any case. Without a datagram the ringing thread is still between its acquire and
    # its write, and will ring once more; or a KeyboardInterrupt came between the two.
    stream.readinto(buf)
    if rung():
        _lock.release()
