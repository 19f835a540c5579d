# with: tasks, pubsub
# Broker and subscriptions. tests/host/test_pubsub.py runs the same on CPython.

import sys

import asyncio_alt as asyncio
from asyncio_alt import pubsub
from asyncio_alt.pubsub import Broker, matches

MICROPYTHON = sys.implementation.name == "micropython"


# Filters

# Filter, topics that it matches, topics that it does not: all of MQTT 3.1.1, section 4.7, first.
MATCHES = (
    (
        "sport/tennis/player1/#",
        "sport/tennis/player1 sport/tennis/player1/ranking sport/tennis/player1/score/wimbledon",
        "sport/tennis sport/tennis/player2 sport/tennis/player12 Sport/tennis/player1",
    ),
    ("sport/#", "sport sport/ sport/a/b", "sports /sport"),
    ("#", "a a/b / /a", "$SYS $SYS/a $"),
    (
        "sport/tennis/+",
        "sport/tennis/player1 sport/tennis/player2 sport/tennis/",
        "sport/tennis/player1/ranking sport/tennis sport//tennis",
    ),
    ("sport/+", "sport/", "sport"),
    ("+", "finance a", "/finance a/b $SYS"),
    ("+/+", "/finance a/b /", "finance /a/b $SYS/a"),
    ("/+", "/finance /", "finance"),
    ("+/tennis/#", "a/tennis /tennis/ a/tennis/b/c", "a/b/tennis $a/tennis"),
    ("sport/+/player1", "sport/tennis/player1 sport//player1", "sport/player1 sport/a/b/player1"),
    ("$SYS/#", "$SYS $SYS/a $SYS/a/b", "SYS/a $SYSTEM/a"),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", "$SYS/monitor $SYS/other/Clients"),
    ("a/+/#", "a/$b a/b/c a/", "a b/c"),
    ("a/#", "a/$b/c", "$a/b"),
    ("ACCOUNTS", "ACCOUNTS", "Accounts /ACCOUNTS ACCOUNTS/"),
    ("/", "/", "a / // a/"),
    ("Accounts payable", "", "Accounts"),
    ("é/+", "é/ß", "e/ß"),
)


@needs("pc")
def test_filters_match_as_in_mqtt():
    broker = Broker()
    got = []
    for filter, yes, no in MATCHES:
        call = broker.subscribe_call(filter, lambda topic, payload: got.append(topic))
        topics = [t for t in yes.split(" ") if t]
        for topic in topics:
            assert matches(filter, topic), (filter, topic)
            broker.publish(topic, 1)
        assert got == topics, (filter, got)
        for topic in [t for t in no.split(" ") if t not in yes.split(" ")]:
            assert not matches(filter, topic), (filter, topic)
            broker.publish(topic, 1)
        assert got == topics, (filter, got)
        call.close()
        got.clear()
        assert not broker._root


@needs("pc")
def test_what_is_no_filter_and_no_topic():
    broker = Broker()
    for filter in ("", "sport/tennis#", "sport/tennis/#/ranking", "sport+", "#/a", "a/b+/c", "##"):
        raises(ValueError, matches, filter, "a", match="filter")
        raises(ValueError, broker.subscribe, filter, match="filter")
        raises(ValueError, broker.subscribe_call, filter, print, match="filter")
    for filter in (None, b"a", 1):
        raises(TypeError, broker.subscribe, filter, match="filter")
    for topic in ("", "a/+", "#", "a#", "+a", "a\0b"):
        raises(ValueError, broker.publish, topic, 1, match="topic")
    for topic in (None, b"a", 1, [], ("a",)):
        raises(TypeError, broker.publish, topic, 1, match="topic")
    raises(ValueError, broker.subscribe, "a\0", match="filter")
    for kept in (False, True):
        raises(ValueError, broker.retained, "a/#/b", match="filter")
        raises(TypeError, broker.retained, None, match="filter")
        broker._retained["a"] = kept
    assert broker.published == 0 and broker.sinks() == [] and not broker._root


@needs("pc")
def test_length_of_topics_is_limited_as_in_mqtt():
    broker = Broker()
    for text in ("x" * 65536, "\u00e9" * 32768, "\U0001f600" * 16384):
        raises(ValueError, broker.publish, text, 1, match="topic")
        raises(ValueError, broker.subscribe, text, match="filter")
        broker.subscribe(text[1:]).close()


@needs("pc")
def test_topics_are_utf8_without_surrogates():
    broker = Broker()
    good = ("\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000")
    for text in good + ("\U0010ffff", "a\u0800\x80/\U0001f600b"):
        assert broker.publish(text, 1) == 0.0 and matches(text, text)
    texts = ["\ud800", "a\udbff", "\udc00/b", "\udfff", "\ud83d\ude00"]
    if MICROPYTHON:
        for data in (
            b"\xc0\x80",
            b"\xc1\xbf",
            b"\xe0\x80\xaf",
            b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80",
        ):
            texts.append(str(data, "utf-8"))
    published = broker.published
    for text in texts:
        raises(ValueError, broker.publish, text, 1, match="topic")
        raises(ValueError, broker.subscribe, text, match="filter")
        raises(ValueError, matches, "#", text, match="topic")
        raises(ValueError, broker.retained, text, match="filter")
    assert broker.published == published and not broker._root


def test_many_levels_need_no_stack():
    broker = Broker()
    got = []
    deep = "/".join("abcdefgh" * 25)
    for filter in (deep, deep + "/#", "+/" * 199 + "+", "a/#"):
        broker.subscribe_call(filter, lambda topic, payload: got.append(payload))
    broker.publish(deep, 1)
    assert got == [1] * 4


@needs("pc")
async def test_bad_arguments_are_named():
    broker = Broker()
    raises(ValueError, lambda: broker.subscribe("a", policy="drop"), match="policy")
    raises(ValueError, lambda: broker.subscribe("a", maxlen=-1), match="maxlen")
    raises(TypeError, lambda: broker.subscribe("a", maxlen="1"), match="maxlen")
    for bits in (24, 29, 30, 31, 32, 59, 60, 61, 63, 64, 100):
        raises(ValueError, lambda: broker.subscribe("a", maxlen=1 << bits), match="maxlen")
    for policy in ("drop_old", "latest"):
        raises(ValueError, lambda: broker.subscribe("a", maxlen=0, policy=policy), match="maxlen")
    raises(TypeError, broker.subscribe_call, "a", None, match="fn")
    raises(ValueError, broker.detach, "a/b/c", None, match="sink")
    assert not broker._root and not broker.sinks()
    await araises(ValueError, broker.publish_wait("a/#", 1), match="topic")


@needs("pc")
def test_nodes_looked_at_do_not_grow_with_filters_that_do_not_match():
    looks = [0]

    class Root:
        # Counts the lookups in it; all filters below have a first level of their own.
        def __init__(self, node):
            self.node = node

        def get(self, *args):
            looks[0] += 1
            return self.node.get(*args)

        def __contains__(self, key):
            looks[0] += 1
            return key in self.node

        def __getitem__(self, key):
            return self.node[key]

    counts = []
    for n in (10, 60):
        broker = Broker()
        for i in range(n):
            broker.subscribe_call("room%d/+/temperature" % i, print)
        broker.subscribe_call("a/b", print)
        broker.subscribe_call("+/b", print)
        broker._root = Root(broker._root)
        looks[0] = 0
        assert len(broker._route("a/b")) == 2
        counts.append(looks[0])
    assert 0 < counts[0] == counts[1], counts


# Policies and the rating


@needs("pc")
def test_rating_of_no_subscriber_and_of_functions():
    broker = Broker()
    assert broker.publish("a", 1) == 0.0
    broker.subscribe_call("a", lambda topic, payload: None)
    assert broker.publish("a", 1) == 0.0
    assert isinstance(broker.publish("a", 1), float)


def test_policies_of_one_full_subscriber():
    for policy, maxlen, left, lost in (
        ("block", 3, [0, 1, 2], 7),
        ("drop_new", 3, [0, 1, 2], 7),
        ("drop_old", 3, [7, 8, 9], 7),
        ("latest", 3, [9], 9),
        ("latest", None, [9], 9),
        ("drop_old", None, [2, 3, 4, 5, 6, 7, 8, 9], 2),
        ("drop_old", 1, [9], 9),
        ("drop_new", 0, [], 10),
        ("block", 0, [], 10),
    ):
        broker = Broker()
        sub = broker.subscribe("a/+", maxlen=maxlen, policy=policy)
        assert sub.maxlen == (maxlen if maxlen is not None else 1 if policy == "latest" else 8)
        room = sub.maxlen
        rates = [broker.publish("a/b", i) for i in range(10)]
        if policy == "latest" and maxlen == 3:
            assert rates == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1], rates
        else:
            assert rates == [0.0] * room + [1.0] * (10 - room), (policy, rates)
        assert sub.full() == (len(left) >= room)
        got = taken(sub)
        assert got == left, (policy, got)
        assert sub.dropped == lost and sub.delivered == len(left), (policy, sub.dropped)
        assert broker.publish("a/b", 1) == (0.0 if room else 1.0)


def test_rating_is_the_share_of_subscribers_that_were_full():
    for n in (2, 3, 5, 16, 20):
        broker = Broker()
        subs = [broker.subscribe("a", maxlen=i + 1, policy="drop_new") for i in range(n)]
        for i in range(n + 1):
            assert broker.publish("a", i) == i / n
        taken(subs[-1])
        assert broker.publish("a", 0) == (n - 1) / n
        for sub in subs[1:]:
            sub.close()
        assert broker.publish("a", 0) == 1.0


@needs("pc")
def test_ring_wraps():
    broker = Broker()
    for policy in ("drop_old", "drop_new", "block", "latest"):
        for maxlen in (1, 2, 3):
            sub = broker.subscribe("+", maxlen=maxlen, policy=policy)
            expected = []
            for i in range(40):
                for j in range(i % 5):
                    broker.publish("ab"[i % 2], (i, j))
                    if len(expected) < maxlen:
                        expected.append((i, j))
                    elif policy == "drop_old":
                        expected = expected[1:] + [(i, j)]
                    elif policy == "latest":
                        expected = [(i, j)]
                assert sub.queued == len(expected)
                for _ in range(min(i % 3, len(expected))):
                    topic, payload = sub.get_nowait()
                    assert payload == expected.pop(0)
                    assert topic == "ab"[payload[0] % 2]
            sub.close()


# Delivery


@needs("pc")
def test_delivery_is_in_the_order_of_subscription():
    broker = Broker()
    got = []
    filters = ["a/b/c", "#", "+/b/#", "a/#", "a/+/c", "a/b/c", "a/b/#", "+/+/+", "#"]
    for i, filter in enumerate(filters):
        broker.subscribe_call(filter, lambda topic, payload, i=i: got.append(i))
    for _ in range(2):
        broker.publish("a/b/c", 1)
    assert got == list(range(9)) * 2, got


async def test_raising_subscriber_is_reported_and_the_others_get_the_message():
    broker = Broker()
    got = []

    class Bad:
        name = "bad sink"

        def put(self, topic, payload, retain):
            raise ValueError("sink")

        def full(self):
            return False

    broker.subscribe_call("a", lambda topic, payload: 1 // 0)
    broker.attach("a", Bad())
    broker.subscribe_call("a", lambda topic, payload: got.append(payload))
    with Reports() as reports:
        assert broker.publish("a", 1) == 0.0
        assert await broker.publish_wait("a", 2) == 0.0
    assert got == [1, 2]
    assert [type(r["exception"]) for r in reports.got] == [ZeroDivisionError, ValueError] * 2
    assert "subscriber a" in reports.got[0]["message"]
    assert "bad sink" in reports.got[1]["message"]


@needs("pc")
def test_subscribers_that_come_and_go_inside_a_delivery():
    broker = Broker()
    got = []

    def first(topic, payload):
        got.append(("first", payload))
        if payload == 1:
            second.close()
            broker.subscribe_call("a", lambda topic, payload: got.append(("new", payload)))
            queue.close()

    def last(topic, payload):
        got.append(("last", payload))
        self_closing.close()
        self_closing.close()

    broker.subscribe_call("a", first)
    second = broker.subscribe_call("a", lambda topic, payload: got.append(("second", payload)))
    queue = broker.subscribe("a", policy="drop_new")
    self_closing = broker.subscribe_call("a", last)
    assert broker.publish("a", 1) == 0.0
    broker.publish("a", 2)
    assert got == [("first", 1), ("last", 1), ("first", 2), ("new", 2)], got
    assert queue.queued == 0 and queue.dropped == 0
    assert len(broker.sinks()) == 2


@needs("pc")
def test_new_retained_message_and_new_subscriber_inside_its_delivery():
    broker = Broker()
    got = []

    def subscribe(topic, payload):
        call.close()
        broker.subscribe_call("a", lambda topic, payload: got.append(payload))

    call = broker.subscribe_call("a", subscribe)
    broker.publish("a", 1, retain=True)
    assert got == [1], got


@needs("pc")
async def test_cancelled_error_of_a_function_is_reported():
    def fail(topic, payload):
        raise asyncio.CancelledError

    broker = Broker()
    broker.subscribe_call("a", fail)
    sub = broker.subscribe("a")
    with Reports() as reports:
        assert broker.publish("a", 1) == 0.0
        assert await broker.publish_wait("a", 2) == 0.0
    assert taken(sub) == [1, 2] and len(reports.got) == 2


@needs("pc")
def test_subscription_with_further_filters_gets_a_message_once_and_ends_with_close():
    broker = Broker()
    other = Broker()
    sub = broker.subscribe("a/#", maxlen=1, policy="drop_new")
    call = broker.subscribe_call("b", lambda topic, payload: None)
    for filter in ("+/b", "a/b", "a/#", "a/b"):
        broker.attach(filter, sub)
    broker.attach("a/b", call)
    other.attach("x", sub)
    assert broker.publish("a/b", 1) == 0.0 and sub.queued == 1 and call.delivered == 1
    assert broker.publish("a/b", 2) == 0.5 and sub.dropped == broker.dropped == 1
    assert other.publish("x", 1) == 1.0
    broker.detach("+/b", sub)
    assert broker.publish("c/b", 1) == 0.0
    sub.close()
    call.close()
    assert not broker._root and not other._root and broker.dropped == sub.dropped == 3
    raises(ValueError, broker.attach, "a", sub, match="closed")
    assert not broker.sinks()


@needs("pc")
def test_close_of_what_was_detached():
    broker = Broker()
    sub = broker.subscribe("a")
    broker.detach("a", sub)
    sub.close()
    assert sub.filter == "a" and not broker._root


@needs("pc")
def test_closed_subscribers_leave_nothing():
    broker = Broker()
    filters = ["a", "a/b", "a/#", "#", "+/b/+/#", "a/b/c/d", "/", "a"]
    subs = [broker.subscribe(f) for f in filters]
    assert [f for f, _ in broker.sinks()] == filters
    for i in (3, 0, 7, 4, 1, 2, 6, 5):
        broker.publish("a/b/c/d", 1)
        subs[i].close()
        subs[i].close()
        filters[i] = None
        assert [f for f, _ in broker.sinks()] == [f for f in filters if f]
    assert not broker._root
    assert broker.publish("a/b/c/d", 1) == 0.0
    assert [s.queued for s in subs] == [0] * 8


@needs("pc")
def test_topics_in_any_number():
    broker = Broker()
    got = []
    broker.subscribe_call("t/+", lambda topic, payload: got.append(topic == "t/%d" % payload))
    for _ in range(2):
        for i in range(100):
            broker.publish("t/%d" % i, i)
    assert got == [True] * 200
    assert len(broker._routes) <= 40


# Retained messages


def test_retained_messages():
    broker = Broker()
    broker.publish("a/x", 1, retain=True)
    broker.publish("a/x", 2, True)
    broker.publish("a/y", 3, True)
    broker.publish("b/z", 4, True)
    broker.publish("$SYS/up", 5, True)
    broker.publish("a/w", 6)
    got = []
    broker.subscribe_call("a/#", lambda topic, payload: got.append((topic, payload)))
    assert sorted(got) == [("a/x", 2), ("a/y", 3)]
    sub = broker.subscribe("#", maxlen=10)
    assert sorted(taken(sub)) == [2, 3, 4]
    assert taken(broker.subscribe("$SYS/#")) == [5]
    assert sorted(broker.retained()) == [("a/x", 2), ("a/y", 3), ("b/z", 4)]
    for topic, empty in (("a/x", b""), ("a/y", None), ("b/z", "")):
        broker.publish(topic, empty, retain=True)
    assert taken(sub) == [b"", None, ""]  # current subscribers are told
    assert broker.retained() == [] and broker.retained("$SYS/+") == [("$SYS/up", 5)]
    broker.publish("a/x", 0, retain=True)  # not an empty payload
    assert taken(broker.subscribe("a/x")) == [0]


@needs("pc")
def test_more_retained_messages_than_room():
    broker = Broker()
    for i in range(5):
        broker.publish("a/%d" % i, i, retain=True)
    sub = broker.subscribe("a/+", maxlen=2, policy="drop_new")
    assert sub.queued == 2 and sub.dropped == 3


@needs("pc")
def test_function_that_publishes_gets_nothing_that_is_outdated():
    for new in (b"new", None, b"old"):
        broker = Broker()
        topics = ["a", "b", "c", "d/e"]
        for topic in topics:
            broker.publish(topic, b"old", retain=True)
        seen = []

        def fn(topic, payload):
            seen.append((topic, payload))
            if len(seen) == 1:
                for other in topics:
                    if other != topic:
                        broker.publish(other, new, retain=True)

        broker.subscribe_call("#", fn)
        assert len(seen) == 4 or new == b"old", seen
        now = dict(broker.retained())
        for topic in topics:
            got = [payload for t, payload in seen if t == topic]
            assert got[-1] == now.get(topic), (topic, got)


# Counters


@needs("pc")
def test_every_message_is_accounted_for():
    broker = Broker()
    subs = [broker.subscribe("a/#", maxlen=2, policy=p) for p in pubsub.subscription.POLICIES]
    broker.subscribe_call("#", lambda topic, payload: None)
    for i in range(20):
        broker.publish("a" if i % 3 else "b", i)
        if i % 4 == 0:
            for sub in subs:
                if sub.queued:
                    sub.get_nowait()
    snapshot = broker.snapshot()
    assert snapshot["published"] == broker.published == 20
    for seen in snapshot["subscribers"][:4]:
        assert seen["delivered"] + seen["dropped"] + seen["queued"] == 13, seen
        assert seen["filter"] == seen["name"] == "a/#" and seen["maxlen"] == 2
    assert snapshot["subscribers"][4]["delivered"] == 20
    delivered = broker.delivered
    assert delivered == sum(s["delivered"] for s in snapshot["subscribers"])
    assert broker.dropped == sum(s["dropped"] for s in snapshot["subscribers"])
    queued = sum(s.queued for s in subs)
    dropped = broker.dropped
    subs[0].name = "logger"
    assert broker.snapshot()["subscribers"][0]["name"] == "logger"
    for sub in subs:
        sub.close()
    assert broker.delivered == delivered and broker.dropped == dropped + queued
