# Mirror without a connection: two of them, with the retained messages of two programs.
# tests/host/test_link.py runs the same on CPython.

import random
import sys

from asyncio_alt.pubsub.link.mirror import Mirror

STEPS = 8000 if sys.platform in ("linux", "darwin") else 1500
TOPICS = ["r/%d" % i for i in range(6)]


class End:
    def __init__(self):
        self.items = {}  # topic: the payload that is retained
        self.mirror = Mirror()
        self.closed = True
        self.sent = []  # topics

    def start(self):
        self.closed = False
        self.mirror.start(dict(self.items))

    def close(self):
        self.closed = True
        self.mirror.close(dict(self.items))

    def retain(self, topic, payload):
        if payload:
            self.items[topic] = payload
        else:
            self.items.pop(topic, None)

    def publish(self, topic, payload):
        self.retain(topic, payload)
        if not self.closed:  # else it is no subscriber
            self.mirror.changed(topic)

    def pump(self, other):
        while self.mirror.stale:
            topic = self.mirror.stale.popitem()[0]
            payload = self.items.get(topic, b"")
            self.sent.append(topic)
            assert other.mirror.keeps(topic, payload)
            other.retain(topic, payload)


def join(ends, anew):
    for end in ends:
        if end.closed:
            end.start()
        if anew:
            end.mirror.anew(dict(end.items))
        del end.sent[:]
    pump(ends)


def pump(ends):
    ends[0].pump(ends[1])
    ends[1].pump(ends[0])


def test_both_ends_have_the_latest_of_each_topic_and_nothing_goes_back():
    random.seed(3)
    ends = [End(), End()]
    joined = False
    anew = True
    writer = {}  # topic: the end that has published it last
    apart = {}  # the same since the connection has ended
    for n in range(STEPS):
        i = random.randrange(2)
        what = random.randrange(100)
        if what < 70:
            topic = TOPICS[random.randrange(len(TOPICS))]
            forget = topic in ends[i].items and random.randrange(4) == 0
            if ends[i].closed and topic in apart:
                forget = False  # a closed link does not see topics that come and go
            if joined or apart.get(topic, i) == i:  # not both while they are apart
                ends[i].publish(topic, b"" if forget else b"%d" % n)
                writer[topic] = apart[topic] = i
            if joined:
                pump(ends)
        elif what < 80:
            joined = False
        elif what < 85:
            joined = False
            if not ends[i].closed:
                ends[i].close()
        elif what == 85:
            # A program starts anew, and publishes nothing before it is joined.
            joined = False
            anew = True
            ends[i] = End()
            for topic in TOPICS:
                apart[topic] = 1 - i
                if writer.get(topic) == i:
                    del writer[topic]
        elif not joined:
            join(ends, anew)
            joined = True
            anew = False
        if joined:
            for topic in writer:
                assert ends[0].items.get(topic) == ends[1].items.get(topic), (n, topic)
            for k in 0, 1:
                for topic in ends[k].sent:
                    assert writer.get(topic, k) == k, (n, topic)
            for end in ends:
                del end.sent[:]
            apart.clear()


def test_topic_of_the_peer_that_is_published_while_closed_is_sent():
    a, b = End(), End()
    for end in a, b:
        end.start()
    for topic in "xyz":
        b.publish(topic, b"1")
    pump([a, b])
    a.close()
    a.publish("x", b"2")
    a.publish("y", b"")
    a.start()
    assert sorted(a.mirror.stale) == ["x", "y"]
    pump([a, b])
    assert b.items == {"x": b"2", "z": b"1"}
    assert sorted(a.sent) == ["x", "y"]


def test_retained_topics_of_the_peer_are_bounded():
    mirror = End().mirror
    assert sum([mirror.keeps("r/%d" % i, i) for i in range(300)]) == 256
    assert mirror.keeps("r/0", 5) and mirror.keeps("r/1", b"") and mirror.keeps("r/299", 5)
    assert not mirror.keeps("r/298", 5)
