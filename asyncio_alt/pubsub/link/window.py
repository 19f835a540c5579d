"""Window: the numbers of a link's messages, and the frames that are kept until acknowledged.

It reads no clock and does no input or output. A number has 16 bits. In a frame it stands in bytes
1 and 2, the acknowledgement of the other direction in bytes 3 and 4, the higher byte first.
"""

from ..compat import const

_LESS = const(0x8000)  # a difference of two numbers that has this bit is less than 0


class Window:
    """Both directions, as one end sees them. most: how many frames may be under way (int)."""

    def __init__(self, most):
        self.most = most
        # Sending
        self.frames = []  # those that are not acknowledged, the oldest first
        self.first = 0  # the number of the first of them
        self.written = 0  # how many of them the connection has got
        self.room = 0  # how many there may be; 0: there is no connection
        # Receiving
        self.expected = 0  # the number that comes next
        self.delivered = 0  # before that all is delivered: `expected`, unless one is held
        self._asked = False  # for the one that is missing

    # Sending

    def add(self, frame):
        """Keeps a frame (bytearray or alike) and numbers it. There must be room, and all frames be
        written; this one is to be written now."""
        frames = self.frames
        n = self.first + len(frames)
        frame[1] = n >> 8 & 255
        frame[2] = n & 255
        n = self.delivered
        frame[3] = n >> 8
        frame[4] = n & 255
        frames.append(frame)
        self.written += 1

    def next(self):
        """Returns the frame to be written next; None if there is no such frame."""
        n = self.written
        if n >= len(self.frames) or n >= self.room:
            return
        frame = self.frames[n]
        self.written = n + 1
        n = self.delivered
        frame[3] = n >> 8
        frame[4] = n & 255
        return frame

    def got(self, number):
        """The other end has got all frames before that number. Returns how many of them are new;
        -1 if they were never there."""
        n = number - self.first & 0xFFFF
        if n & _LESS:
            return 0  # it has said so before
        if n > len(self.frames):
            return -1
        del self.frames[:n]
        self.first = number
        self.written = max(self.written - n, 0)
        return n

    def again(self):
        """All frames are to be written again. Returns how many were."""
        n = self.written
        self.written = 0
        return n

    # Receiving

    def came(self, number):
        """That message has come. Returns 0 if it is the expected one: then it counts as delivered,
        unless hold() is called. 1: it came before; 2: others are missing, and the other end has
        to be asked for them; 3: it has been asked."""
        if number != self.expected:
            if self.expected - number & _LESS == 0:
                return 1
            asked = self._asked
            self._asked = True
            return 3 if asked else 2
        self.expected = self.delivered = number + 1 & 0xFFFF
        self._asked = False
        return 0

    def hold(self, n):
        """1: the message that came last is not delivered yet; 0: it is."""
        self.delivered = self.expected - n & 0xFFFF

    # Connections

    def meet(self, same, number, first, size):
        """Hands are shaken: the other end has got all before `number`, maybe from another end, and
        its first message will be `first`. same: both know each other's session. Returns false if
        they go on where they were. If not, frames of more than size bytes are dropped; returns how
        many were, and how many that were acknowledged it has not got."""
        lost = self.first - number & 0xFFFF
        if same and (self.first == number or lost & _LESS):
            if not self.delivered - first & _LESS:
                return
        frames = [frame for frame in self.frames if len(frame) <= size]
        dropped = len(self.frames) - len(frames)
        self.frames = frames
        for i, frame in enumerate(frames):
            n = self.first + i
            frame[1] = n >> 8 & 255
            frame[2] = n & 255
        self.expected = self.delivered = first
        return dropped, 0 if lost & _LESS else lost

    def begin(self, room):
        """There is a connection, on which the other end lets so many frames be under way; 0: there
        is none."""
        self.room = min(room, self.most)
        self.written = 0
        self._asked = False
