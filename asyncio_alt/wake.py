"""The Doorbell: how code outside the loop (an interrupt, another thread) ends the loop's sleep.

Every variant has
    stream      what the loop registers with its poller; readable while the bell has rung
    ring(b)     rings; never blocks, never allocates; may be called from a hard interrupt or,
                where the port has threads, from any thread; b: one byte, whichever
    any()       true while the bell has rung
    clear(buf)  makes it silent; the caller looks afterwards for what has been set; buf: a
                bytearray(1) to spoil
State is set before ring() and looked at after clear(), so no ring is lost.

once(0) is an iterator that yields once, in C and without an allocation; None where there is none.
idle is how long in ms (-1: no limit) the loop polls when nothing it knows of can wake it.
"""

import select

idle = -1

try:
    from micropython import RingIO

    class Doorbell:
        # C code all the way: an interrupt handler rings with one method call.
        def __init__(self):
            self.stream = r = RingIO(1)
            self.ring = r.write
            self.any = r.any
            self.clear = r.readinto

    # A poll of one stream that is always ready.
    once = select.poll()
    once.register(RingIO(1), select.POLLOUT)
    once = once.ipoll

except ImportError:
    import io

    class Doorbell(io.IOBase):
        def __init__(self):
            self.stream = self
            self.rung = False

        def ioctl(self, req, arg):
            return self.rung if req == 3 else -1  # MP_STREAM_POLL

        def ring(self, b):
            self.rung = True

        def any(self):
            return self.rung

        def clear(self, buf):
            self.rung = False

    once = None
