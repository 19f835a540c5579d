"""Connection: one connection of a link, from the first frame of its handshake to its end."""

from ... import Event, TimeoutError, sleep
from ..compat import const, soon, ticks_diff, ticks_ms
from .frame import FramedProtocol
from .handshake import HELLO, LAST, SIZE, WHO, Refused

_PING = const(11)  # frames that are no messages
_BYE = const(12)


class Connection(FramedProtocol):
    """A protocol that calls met(conn) when it is made, for its task, and ended(conn, er) when it
    has ended or is given up."""

    def __init__(self, lossy, met, ended):
        super().__init__(SIZE, lossy)
        self.lossy = lossy
        self.over = Event()  # it has ended
        self.heard = ticks_ms()  # when the last frame came
        self.due = False  # an acknowledgement has to be sent
        # These belong to the peer, once hands are shaken.
        self.peer = None
        self.patience = 0  # ms, the keepalive of the peer
        self._met = met
        self._ended = ended
        self._said = self.heard  # when the last frame went
        self._meeting = None  # the task that attends to it
        self._why = None  # the exception that ends it

    # Its life

    def connection_made(self, transport):
        super().connection_made(transport)
        try:
            self._meeting = self._met(self)
        except Exception as er:
            self.give_up(er)

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.over.set()
        if self.patience:
            self._meeting.cancel()  # in attend()
        self.give_up(exc or EOFError("the peer has hung up"))

    def give_up(self, er):
        """Ends it, for that reason."""
        if not self._why:
            self._why = er
            if self.peer:
                self.peer.down(self)
            self._ended(self, er)
            self.transport.abort()

    def leave(self):
        """Says so to a peer, and ends."""
        if self.patience:
            self.send(bytes((_BYE,)))
        if self.peer:
            self.peer.down(self)
        self.transport.close()

    def carry(self, take, size):
        """From now on take() gets each frame, of up to size bytes."""
        self.max_size = size
        self.frame_received = take

    def begin(self):
        """Frames may come."""
        if not self._hand_out:
            self.start_dispatch()

    def unpark(self):
        """Ends the work for the frame that is parked. Returns whether it has not even begun, for
        lack of memory."""
        if self._task:
            self._task.cancel()
        return not self._task

    async def attend(self, resend):
        """Sends signs of life, and frames again: on a lossy carrier, after so many ms without an
        acknowledgement. Ends with the connection; TimeoutError if the peer is silent."""
        peer = self.peer
        pause = max(min(peer.keepalive, self.patience) // 2, 10)
        if self.lossy:
            pause = min(pause, resend // 2)
        pause /= 1000
        silent = False
        while peer.conn is self:
            now = ticks_ms()
            # Seen twice: if this side stood still for long, frames that came are read in between.
            again = silent
            silent = ticks_diff(now, self.heard) > self.patience * 5 // 2
            if self._task or not self._hand_out:
                silent = False  # it is not read
            if silent and again:
                raise TimeoutError("the peer is silent")
            if ticks_diff(now, self._said) >= peer.keepalive // 2 and not self.full:
                self.send(bytes((_PING,)))
            if self.lossy and peer.window.frames and ticks_diff(now, peer.moved) >= resend:
                if not self.transport.get_write_buffer_size():
                    peer.again()
            await sleep(pause)  # takes no memory, as wait_for() would

    def address(self):
        """Returns the peer's machine."""
        peer = self.transport.get_extra_info("peername")
        # The unix port has bytes, in which the family is followed by the port.
        return peer[4:] if isinstance(peer, (bytes, bytearray)) else peer and peer[0]

    # Frames

    def send(self, frame, rest=b""):
        if not self.transport.is_closing():
            self._said = ticks_ms()
            try:
                self._send(frame + rest if rest else frame)
            except Exception as er:  # and a part of it may be written
                self.give_up(er)

    def control(self, kind, n):
        """A frame of n bytes that is no message."""
        if n == 1 and kind == _BYE:
            self.transport.close()
        elif kind <= LAST and self.lossy:
            # The peer has begun anew; or it was slow, asked again, and answers a second time.
            if kind == HELLO or kind == WHO:
                self.transport.abort()
        elif n != 1 or kind != _PING:
            raise Refused("unknown frame")

    def _raised(self, er):
        if not self._task:
            self.peer.give_up()  # there was no memory for the task that waits for room
        self.give_up(er)

    def _frames(self):
        # Acknowledge at once all that came with one read: that saves writes, and delays none.
        self.heard = ticks_ms()
        parked = super()._frames()
        if self.due:
            self.peer.acknowledge(self)
        return parked

    def resume_writing(self):
        super().resume_writing()
        if self.patience:
            soon(self._go_on)

    def _go_on(self):
        if self.due:
            self.peer.acknowledge(self)
        self.peer.pump()
