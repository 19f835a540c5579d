# Window without a connection: two of them, and a line that cuts, loses, repeats and mixes up.
# tests/host/test_link.py runs the same on CPython.

import random
import sys

from asyncio_alt.pubsub.link.window import Window

STEPS = 8000 if sys.platform in ("linux", "darwin") else 1500
DATA, ACK, AGAIN = 8, 9, 10


class End:
    # One end: what it took, what the other end's program has got of it, and what is on its way.
    sessions = 0

    def __init__(self, first):
        End.sessions += 1
        self.session = End.sessions
        self.other_session = 0
        self.window = Window(1 + random.randrange(8))
        self.window.first = first & 0xFFFF
        self.taken = 0  # messages: their numbers are 0, 1, ...
        self.acknowledged = 0
        self.got = None  # the last one: (session, message)
        self.held = False
        self.line = []  # frames to the other end

    def full(self):
        w = self.window
        return len(w.frames) >= w.room or w.written < len(w.frames)

    def send(self, frame):
        self.line.append(bytes(frame))

    def put(self):
        frame = bytearray((DATA, 0, 0, 0, 0)) + bytes((self.session & 255, self.session >> 8))
        self.window.add(frame + self.taken.to_bytes(4, "big"))
        self.taken += 1
        self.send(self.window.frames[-1])
        assert len(self.window.frames) <= self.window.room

    def pump(self):
        frame = self.window.next()
        while frame:
            self.send(frame)
            frame = self.window.next()
        assert self.window.written <= self.window.room

    def control(self, kind, number):
        self.send(bytes((kind, number >> 8, number & 255)))

    def receive(self, frame, lossy):
        w = self.window
        at = 3 if frame[0] == DATA else 1
        n = w.got(frame[at] << 8 | frame[at + 1])
        assert n >= 0
        self.acknowledged += n
        if frame[0] == AGAIN and not n:
            w.again()
        self.pump()
        if frame[0] != DATA:
            return
        n = w.came(frame[1] << 8 | frame[2])
        if n == 0:
            self.take(frame[5] | frame[6] << 8, int.from_bytes(frame[7:11], "big"))
        elif n == 2:
            assert lossy
            self.control(AGAIN, w.expected)
        elif n == 1:
            self.control(ACK, w.delivered)

    def take(self, session, message):
        # Each message once, and none is left out.
        if self.got and self.got[0] == session:
            assert message == self.got[1] + 1, (self.got, message)
        self.got = (session, message)
        if random.randrange(10) == 0:
            self.held = True
            self.window.hold(1)

    def release(self):
        self.held = False
        self.window.hold(0)
        self.control(ACK, self.window.delivered)


def shake_hands(ends):
    states = [
        (end.session, end.other_session, end.window.delivered, end.window.first) for end in ends
    ]
    for end, other, state in zip(ends, reversed(ends), reversed(states)):
        session, known, number, first = state
        known = known == end.session
        same = known and session == end.other_session
        w = end.window
        anew = w.meet(same, number if known else w.first, first, 100)
        assert anew in (None, (0, 0)) and (anew is None) == same
        if not anew:
            n = w.got(number)
            assert n >= 0
            end.acknowledged += n
        end.other_session = session
        end.line.clear()
        w.begin(other.window.most)
        end.pump()


def check(ends):
    for end, other in (ends, ends[::-1]):
        if other.other_session == end.session and other.got and other.got[0] == end.session:
            # All that is acknowledged was taken by the other end's program; the held one is not.
            assert end.acknowledged <= other.got[1] + 1 - other.held
        assert len(end.window.frames) == end.taken - end.acknowledged


def play(lossy, steps):
    ends = [End(65500), End(random.randrange(65536))]
    shake_hands(ends)
    restarted = 0
    for _ in range(steps):
        i = random.randrange(2)
        end, other = ends[i], ends[1 - i]
        what = random.randrange(100)
        if what < 40:
            if not end.full():
                end.put()
        elif what < 85:
            if end.line and not other.held:  # while one is held, nothing is read
                at = 0
                if lossy and random.randrange(5) == 0:
                    at = random.randrange(len(end.line))  # it comes too early
                frame = end.line[at]
                if not lossy or random.randrange(5):
                    del end.line[at]  # else it comes again
                if not lossy or random.randrange(5):
                    other.receive(frame, lossy)
        elif what < 92:
            if end.held:
                end.release()
            else:
                end.control(ACK, end.window.delivered)
        elif what < 95 and lossy:
            end.window.again()  # it has waited for too long
            end.pump()
        elif what == 95:
            for each in ends:
                each.window.begin(0)
                assert each.full()
            shake_hands(ends)
        elif what == 96 and random.randrange(10) == 0:
            ends[i] = End(random.randrange(65536))
            restarted += 1
            shake_hands(ends)
        check(ends)
    # In the end all is delivered.
    for _ in range(100):
        for end, other in (ends, ends[::-1]):
            if other.held:
                other.release()
            end.window.again()
            end.line.clear()
            end.pump()
            while end.line and not other.held:
                other.receive(end.line.pop(0), True)
            other.control(ACK, other.window.delivered)
            end.receive(other.line.pop(), True)
    check(ends)
    for end, other in (ends, ends[::-1]):
        assert end.acknowledged == end.taken and not end.window.frames
        if end.taken:
            assert other.got == (end.session, end.taken - 1)
    return ends, restarted


def test_each_message_comes_once_and_in_order_through_cuts_and_restarts():
    random.seed(1)
    ends, restarted = play(False, STEPS)
    assert restarted


def test_line_that_loses_repeats_and_mixes_up_delivers_each_once():
    random.seed(2)
    ends, restarted = play(True, STEPS)
    assert restarted


def test_numbers_begin_again_after_65535():
    a, b = End(65530), End(65533)
    shake_hands([a, b])
    for _ in range(20):
        for end, other in ((a, b), (b, a)):
            end.put()
            other.receive(end.line.pop(), False)
            if other.held:
                other.release()
            other.control(ACK, other.window.delivered)
            end.receive(other.line.pop(), False)
    assert a.window.first == 14 and b.window.first == 17
    assert a.acknowledged == b.acknowledged == 20


def test_acknowledgement_of_what_was_never_there_is_told():
    a = End(65535)
    a.window.begin(8)
    a.put()
    assert a.window.got(1) == -1 and a.window.got(5) == -1
    assert a.window.got(65530) == 0 and len(a.window.frames) == 1
    assert a.window.got(0) == 1 and not a.window.frames


def test_messages_that_another_end_has_got_are_counted():
    a = End(65534)
    a.window.most = 4
    a.window.begin(8)
    for _ in range(4):
        a.put()
    a.window.frames[3] += bytes(100)
    # Before 65532 this end has got all; it takes frames of 50 bytes.
    assert a.window.meet(False, 65532, 7, 50) == (1, 2)
    assert a.window.expected == 7 and len(a.window.frames) == 3
    assert [frame[1] << 8 | frame[2] for frame in a.window.frames] == [65534, 65535, 0]


def test_less_room_than_before_holds_frames_back():
    a = End(0)
    a.window.most = 8
    a.window.begin(8)
    for _ in range(8):
        a.put()
    a.window.begin(3)
    a.line.clear()
    a.pump()
    assert len(a.line) == 3 and a.full()
    assert a.window.got(2) == 2
    a.pump()
    assert len(a.line) == 5 and a.full()
