"""FramedProtocol: whole messages over any transport, on MicroPython and CPython.

On a carrier that loses nothing (TCP) a frame is its length, as in an MQTT packet (7 bits a byte,
the lowest first, the top bit says that more follow), and its bytes. On one that does (a UART) it
is a packet of RFC 1055 (SLIP), with a delimiter at both ends. Its last 4 bytes are the CRC-32 of
the others, lowest byte first. Both are put together and taken apart by C code.
"""

import sys
from binascii import crc32
from errno import ECONNRESET

from ... import BufferedProtocol, Event
from ..compat import const, report

try:
    from ... import create_task
    from ...ioqueue import octets
except ImportError:  # CPython
    # Not create_task(), which may run the coroutine at once (eager_task_factory): a frame that is
    # parked has to be out of the way first.
    from asyncio import Task as create_task

    def octets(data, what):
        try:
            view = memoryview(data)
            return view.cast("B") if view.nbytes else b""
        except TypeError as er:
            raise TypeError(what + " must be bytes-like and contiguous") from er


_PC = sys.platform in ("linux", "darwin", "win32")
_CHUNK = 8192 if _PC else 256  # bytes of the buffer, at first
_LARGE = 65536 if _PC else 0  # and at least once a frame does not fit
_MOST = const(0xFFFFFFF)  # the most that four bytes of length can say
_RESIDUE = const(0x2144DF1C)  # the CRC-32 of whatever has its own at its end
_BYTES = (bytes, bytearray)

_END = b"\xc0"
_ESC = b"\xdb"
_ESC_END = b"\xdb\xdc"
_ESC_ESC = b"\xdb\xdd"


class FramedProtocol(BufferedProtocol):
    """A protocol that sends and receives frames: bytes with a beginning and an end. First, in a
    handshake, a task awaits read_frame(); after start_dispatch() the loop calls frame_received().

    max_size: bytes in a frame (int), at most. A peer that announces more is hung up on before
    memory is taken. lossy: True for a carrier that may lose, add or change bytes: each costs the
    frame that it hits and no other."""

    def __init__(self, max_size=1024, lossy=False):
        if not 0 < max_size <= _MOST:
            raise ValueError("max_size must be 1 to %d" % _MOST)
        self.max_size = max_size  # may be changed at any time
        self.transport = None
        self.full = False  # send no more for now: drain()
        self.bad = 0  # frames received that were damaged or too large
        self._lossy = lossy
        self._live = False  # frames are handed out: it dispatches, and no frame is parked
        self._task = None  # runs the coroutines of parked frames
        self._hand_out = None  # _hands(), once it is live
        self._changed = Event()  # read_frame() and drain() are to look again
        self._buf = bytearray(_CHUNK)
        self._view = memoryview(self._buf)
        self._pos = 0  # _buf[_pos:_end] is received and not handed out
        self._end = 0
        self._need = 0  # bytes that the frame at _pos takes in _buf, as far as is known
        self._seen = 0  # lossy: up to here there is no delimiter
        self._skip = False  # lossy: the bytes before the next delimiter are no frame

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, exc):
        self.full = False
        self._changed.set()

    # Receiving

    async def read_frame(self):
        """Waits for a frame of the handshake; returns it (bytes). EOFError when no more can come.
        Nothing is lost if it is cancelled."""
        if self._hand_out:
            raise RuntimeError("read_frame() after start_dispatch()")
        while True:
            frame = self._next()
            if frame is not None:
                return bytes(frame)
            self._tidy()
            if self.transport.is_closing():
                raise EOFError
            self._changed.clear()
            self.transport.resume_reading()
            await self._changed.wait()

    def start_dispatch(self):
        """Ends the handshake: from now on frame_received() is called, also for frames that are
        there already."""
        if self._hand_out:
            raise RuntimeError("start_dispatch() twice")
        self._hand_out = self._hands().__next__
        self._hand_out()
        self._live = True
        self._hand_out()
        if self._live:
            self.transport.resume_reading()

    def frame_received(self, view):
        """Called with each frame (memoryview), which is to be used or copied before this returns:
        the next frame takes its place. To await something, return a coroutine: then reading pauses
        and the frame stays until that has ended. If it raises, that is reported and the frame
        dropped. If this method itself raises, that is reported and the connection aborted."""

    def get_buffer(self, sizehint):
        end = self._end
        if sizehint > 0 and end == len(self._buf):
            self._grow(0)  # TLS of CPython 3.10 goes on, while paused, with data it has read
            end = self._end
        return self._view[end:] if end else self._view

    def buffer_updated(self, nbytes):
        self._end += nbytes
        if self._live:
            self._hand_out()
        else:
            self.transport.pause_reading()
            self._changed.set()

    def data_received(self, data):
        """For a transport of CPython's that knows no buffers, as of a pipe or a serial line."""
        if self._end + len(data) > len(self._buf):
            self._grow(len(data))
        self._view[self._end : self._end + len(data)] = data
        self.buffer_updated(len(data))

    def _hands(self):
        # Hands out the frames that are there, up to one that is parked; yields its coroutine if
        # there is a task to run it, which is given to a new one if not. A generator: its call
        # frame stays, where a function with a `try` would have a new one on MicroPython's heap.
        parked = None
        while True:
            yield parked
            try:
                parked = self._frames()
            except Exception as er:
                parked = None
                self._raised(er)

    def _frames(self):
        while True:
            pos = self._pos
            end = self._end
            # The usual case first: all of a short frame is there.
            n = self._buf[pos] if pos < end else 128
            stop = pos + 1 + n
            if n < 128 and stop <= end and n <= self.max_size and not self._lossy:
                self._pos = stop
                it = self._view[pos + 1 : stop]
            else:
                it = self._next()
                if it is None:
                    return self._tidy()
            it = self.frame_received(it)
            if it:
                return self._park(it)
            if self._pos == end:
                self._pos = self._end = self._seen = 0
                return
            if self.transport.is_closing():
                return

    def _park(self, parked):
        if not self._task:
            self._live = False
            self.transport.pause_reading()
            self._task = create_task(self._run(parked))
        return parked

    def _raised(self, er):
        report("Exception in frame_received()", er)
        self.transport.abort()

    async def _run(self, parked):
        while parked:
            try:
                await parked
            except Exception as er:
                report("Exception in a parked frame", er)
            if self.transport.is_closing():
                return
            parked = self._hand_out()
        self._task = None
        self._live = True
        self.transport.resume_reading()

    def _next(self):
        # Takes the next frame out of the buffer; None if there is no whole one.
        if self._lossy:
            return self._next_packet()
        pos = self._pos
        end = self._end
        if pos == end:
            return
        buf = self._buf
        n = buf[pos]
        start = pos + 1
        if n > 127:
            n -= 128
            shift = 7
            while shift < 28:
                if start == end:
                    self._need = start - pos + 1
                    return
                b = buf[start]
                start += 1
                n += (b & 127) << shift
                if b < 128:
                    break
                shift += 7
            else:
                n = _MOST + 1
        if n > self.max_size:
            self.bad += 1
            self._pos = end
            self.transport.abort()
            return
        stop = start + n
        if stop > end:
            self._need = stop - pos
            return
        self._pos = stop
        return self._view[start:stop]

    def _next_packet(self):
        buf = self._buf
        end = self._end
        while True:
            start = self._pos
            stop = buf.find(_END, self._seen, end)
            if stop < 0:
                break
            self._pos = self._seen = stop + 1
            if self._skip:
                self._skip = False
                continue
            if stop == start:
                continue  # between two frames
            frame = self._view[start:stop]
            if buf.find(_ESC, start, stop) >= 0:
                frame = bytes(frame).replace(_ESC_END, _END).replace(_ESC_ESC, _ESC)
                frame = memoryview(frame)
            # More than a CRC: that of nothing is 4 zeros, which a broken line reads as well.
            if 4 < len(frame) <= self.max_size + 4 and crc32(frame) == _RESIDUE:
                return frame[:-4]
            self.bad += 1
        left = end - start
        most = 2 * self.max_size + 9  # all of it escaped, and a delimiter
        if left >= most or self._skip:
            if not self._skip:
                self._skip = True
                self.bad += 1
            self._pos = end
        elif left == len(buf):
            self._need = min(2 * left, most)
        self._seen = end

    def _tidy(self):
        # Moves the remaining bytes to the front of the buffer, or of one that is large enough.
        pos = self._pos
        left = self._end - pos
        if left:
            old = self._view
            if self._need > len(old):
                self._buf = bytearray(max(self._need, _LARGE))
                self._view = memoryview(self._buf)
            elif not pos:
                return
            self._view[:left] = old[pos : self._end]
        self._pos = 0
        self._end = left
        self._seen = max(self._seen - pos, 0)

    def _grow(self, n):
        # Goes on in a buffer with room for n bytes more at least. Parked frames stay in the old.
        old = self._view[self._pos : self._end]
        left = len(old)
        self._buf = bytearray(max(2 * left + n, len(self._buf)))
        self._view = memoryview(self._buf)
        self._view[:left] = old
        self._seen = max(self._seen - self._pos, 0)
        self._pos = 0
        self._end = left

    # Sending

    def send_frame(self, *parts):
        """Sends a frame of all parts (bytes-like), joined: as much as the carrier takes at once,
        the rest when it takes more. Never waits; look at `full` before, or await drain().
        TypeError for other parts (on a MicroPython without uctypes, for items of more than a byte
        too), ValueError if there is more than max_size of them, or nothing on a lossy carrier,
        OSError as Transport.write() raises it."""
        data = parts[0] if len(parts) == 1 else _joined(parts)
        if not isinstance(data, _BYTES):
            data = octets(data, "send_frame: parts")
        self._send(data)

    def _send(self, data):
        n = len(data)
        if n > self.max_size:
            raise ValueError("send_frame: %d bytes, max_size is %d" % (n, self.max_size))
        if self._lossy:
            if not n:
                raise ValueError("send_frame: a lossy carrier takes no empty frame")
            data = bytes(data)
            data += crc32(data).to_bytes(4, "little")
            data = _END + data.replace(_ESC, _ESC_ESC).replace(_END, _ESC_END) + _END
        elif n < 128:
            # Not bytes: MicroPython would compute the hash of all.
            data = bytearray((n,)) + data
        elif n < 16384:
            data = bytearray((n & 127 | 128, n >> 7)) + data
        else:
            data = _length(n) + data
        self.transport.write(data)

    async def drain(self):
        """Waits while the peer is so slow that `full` is True. OSError if the connection has
        ended."""
        while self.full:
            self._changed.clear()
            await self._changed.wait()
        if self.transport.is_closing():
            raise OSError(ECONNRESET, "connection lost")

    def pause_writing(self):
        self.full = True

    def resume_writing(self):
        self.full = False
        self._changed.set()


def _length(n):
    head = bytearray()
    while n > 127:
        head.append(n & 127 | 128)
        n >>= 7
    head.append(n)
    return head


def _joined(parts):
    data = b""
    for part in parts:
        data += octets(part, "send_frame: parts")
    return data
