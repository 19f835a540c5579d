"""The Doorbell: how code outside the loop (an interrupt, another thread) ends the loop's sleep.

Each variant of this module has
    stream      the loop registers it with its poller; readable while the bell has rung
    ring(b)     rings; never blocks, never allocates; may be called from a hard interrupt or,
                where the port has threads, from any thread; b: one byte, whichever
    rung()      true while the bell has rung
    clear(buf)  makes it silent; the caller looks afterwards for set flags; buf: a
                bytearray(1) to spoil
    idle        how long in ms (-1: no limit) the loop polls when nothing it knows of can wake it
    hurry       a poll that shall not wait does so all the same, unless a descriptor is ready
    once(0)     an iterator that yields once, in C and without an allocation; once is None where
                the port has no such iterator
    new_once()  another once, where there is one
State is set before ring() and looked at after clear(), so no ring is lost.
"""

import select

idle = -1
hurry = False

try:
    from micropython import RingIO

    # C code all the way: an interrupt handler rings with one method call.
    stream = RingIO(1)
    ring = stream.write
    rung = stream.any
    clear = stream.readinto

    def new_once():
        # A poll of one stream that is always ready.
        p = select.poll()
        p.register(RingIO(1), select.POLLOUT)
        p = p.ipoll
        p(0)  # makes the tuple that it gives from now on
        return p

    once = new_once()

except ImportError:
    import io

    class _Bell(io.IOBase):
        def __init__(self):
            self.rang = False  # here: an attribute that a handler sets first takes heap

        def ioctl(self, req, arg):
            return self.rang if req == 3 else -1  # MP_STREAM_POLL

        def ring(self, b):
            self.rang = True

        def rung(self):
            return self.rang

        def clear(self, buf):
            self.rang = False

    stream = _Bell()
    ring = stream.ring
    rung = stream.rung
    clear = stream.clear
    once = None
