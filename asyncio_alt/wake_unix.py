"""The Doorbell of the unix port; its contract is in wake.py."""

from _thread import allocate_lock
import socket

once = None  # a poll costs a system call here: a __next__ in Python is faster
idle = 3  # a scheduled callback does not end a poll: look after it


class Doorbell:
    # A datagram socket connected to itself, so that a poll with it blocks in the kernel.
    def __init__(self):
        self.stream = s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setblocking(False)
        port = id(s) >> 5
        while True:
            addr = socket.getaddrinfo("127.0.0.1", 49152 + (port & 16383))[0][-1]
            try:
                s.bind(addr)
                break
            except OSError:
                port += 1
        s.connect(addr)
        # The lock is held from the ring until it is heard: there is one datagram at most, and
        # taking the lock is atomic where threads have no GIL.
        lock = allocate_lock()
        self.any = lock.locked
        self._acquire = lock.acquire
        self._release = lock.release
        self._send = s.write
        self._recv = s.readinto

    def ring(self, b):
        if self._acquire(False):
            self._send(b)

    def clear(self, buf):
        # Without a datagram the ringing thread is still between its acquire and its write.
        if self._recv(buf):
            self._release()
