# with: tasks
# Broker and subscriptions. tests/host/test_pubsub.py runs the same on CPython.

import sys

import asyncio_alt as asyncio
from asyncio_alt import pubsub
from asyncio_alt.pubsub import Broker, Closed, matches

MICROPYTHON = sys.implementation.name == "micropython"


async def cancel(task):
    # Cancels the task; returns [its result] if it had ended nevertheless, else [].
    task.cancel()
    try:
        return [await task]
    except asyncio.CancelledError:
        return []


def taken(sub):
    # The payloads that are queued.
    got = []
    while sub.queued:
        got.append(sub.get_nowait()[1])
    return got


def drops(broker):
    return [s["dropped"] for s in broker.snapshot()["subscribers"]]


class Reports:
    # Collects the calls of the loop's exception handler.
    def __enter__(self):
        self.got = []
        self.loop = asyncio.get_event_loop()
        self.loop.set_exception_handler(lambda loop, context: self.got.append(context))
        return self

    def __exit__(self, *exc):
        self.loop.set_exception_handler(None)


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


# A task that takes


async def test_get_and_iteration():
    broker = Broker()
    sub = broker.subscribe("a/+")
    got = []

    async def consume():
        async for topic, payload in sub:
            got.append((topic, payload))

    raises(asyncio.QueueEmpty, sub.get_nowait)
    task = asyncio.create_task(consume())
    await passes()
    broker.publish("a/b", 1)
    broker.publish("a/c", 2)
    await passes()
    broker.publish("a/d", 3)
    await passes()
    assert got == [("a/b", 1), ("a/c", 2), ("a/d", 3)]
    assert not task.done()
    sub.close()
    await task
    raises(Closed, sub.get_nowait)
    await araises(Closed, sub.get())


@needs("pc")
async def test_context_manager_closes():
    broker = Broker()
    async with broker.subscribe("a") as sub:
        broker.publish("a", 1)
        assert await sub.get() == ("a", 1)
        broker.publish("a", 2)
    assert broker.sinks() == [] and sub.dropped == 1 and sub.delivered == 1
    try:
        async with broker.subscribe("a"):
            raise KeyError
    except KeyError:
        pass
    assert broker.sinks() == []


async def test_second_task_that_waits_is_refused():
    sub = Broker().subscribe("a")
    task = asyncio.create_task(sub.get())
    await passes()
    await araises(RuntimeError, sub.get(), match="Subscription")
    sub.put("a", 1)
    assert await task == ("a", 1)


async def test_close_wakes_the_task_that_waits():
    for maxlen, policy in ((0, "drop_new"), (0, "block"), (3, "latest")):
        sub = Broker().subscribe("a", maxlen=maxlen, policy=policy)
        task = asyncio.create_task(sub.get())
        await passes()
        sub.close()
        await araises(Closed, task)


async def test_cancelled_get_loses_no_message():
    for maxlen in (0, 1, 3):
        for before in range(4):
            for after in range(4):
                broker = Broker()
                sub = broker.subscribe("a", maxlen=maxlen, policy="drop_new")
                task = asyncio.create_task(sub.get())
                await passes(before)
                rating = broker.publish("a", 7)
                await passes(after)
                got = [payload for _, payload in await cancel(task)] + taken(sub)
                assert got == ([7] if rating == 0.0 else []), (maxlen, before, after, got)
                assert sub.dropped == (rating == 1.0)
                assert sub.task is None
                assert sub.full() == (maxlen == 0)


async def test_wait_for_a_message_that_comes_too_late():
    broker = Broker()
    sub = broker.subscribe("a")
    await araises(asyncio.TimeoutError, asyncio.wait_for(sub.get(), 0.01))
    broker.publish("a", 1)
    assert await asyncio.wait_for(sub.get(), 1) == ("a", 1)


# publish_wait()


async def test_publish_wait_waits_for_room_and_loses_nothing():
    for maxlen in (0, 1, 2, 5):
        broker = Broker()
        sub = broker.subscribe("a", maxlen=maxlen, policy="block")
        got = []

        async def consume():
            async for _, payload in sub:
                assert sub.queued <= maxlen
                got.append(payload)
                if payload % 4 == 0:
                    await passes(2)

        task = asyncio.create_task(consume())
        for i in range(50):
            await broker.publish_wait("a", i)
            if i % 7 == 0:
                await passes(1)
        await passes(5)
        assert got == list(range(50)), got
        assert sub.dropped == 0 and sub.delivered == 50
        sub.close()
        await task


@needs("pc")
async def test_rating_of_publish_wait():
    broker = Broker()
    assert await broker.publish_wait("a", 1) == 0.0
    sub = broker.subscribe("a", maxlen=1, policy="block")
    assert await broker.publish_wait("a", 1) == 0.0
    task = asyncio.create_task(broker.publish_wait("a", 2))
    await passes()
    assert not task.done() and sub.full()
    assert sub.get_nowait() == ("a", 1)
    assert await task == 1.0
    broker.subscribe_call("a", lambda topic, payload: None)
    task = asyncio.create_task(broker.publish_wait("a", 3))
    await passes()
    assert taken(sub) == [2, 3]
    assert await task == 0.5


@needs("pc")
async def test_publish_wait_waits_for_none_but_block():
    broker = Broker()
    for policy in ("drop_old", "drop_new", "latest"):
        broker.subscribe("a", maxlen=1, policy=policy)
    assert await broker.publish_wait("a", 1) == 0.0
    assert await broker.publish_wait("a", 2) == 1.0
    assert drops(broker) == [1, 1, 1]


async def test_publish_wait_is_fair_and_publish_does_not_push_in():
    broker = Broker()
    sub = broker.subscribe("a", maxlen=1, policy="block")
    broker.publish("a", "first")

    async def publisher(name):
        for i in range(4):
            await broker.publish_wait("a", name + str(i))

    tasks = [asyncio.create_task(publisher(name)) for name in "xyz"]
    await passes()
    got = []
    for _ in range(13):
        got.append(sub.get_nowait()[1])
        assert broker.publish("a", "pushed in") == 1.0 or len(got) == 13
        await passes()
    assert got == ["first"] + [name + str(i) for i in range(4) for name in "xyz"], got
    for task in tasks:
        await task


@needs("pc")
async def test_slow_subscriber_keeps_the_message_from_no_other():
    broker = Broker()
    slow = broker.subscribe("a", maxlen=1, policy="block")
    fast = broker.subscribe("a", maxlen=1, policy="block")
    await broker.publish_wait("a", 1)
    assert taken(fast) == [1]
    task = asyncio.create_task(broker.publish_wait("a", 2))
    await passes()
    assert taken(fast) == [2] and not task.done()
    assert taken(slow) == [1, 2]
    assert await task == 0.5


async def test_cancelled_publish_wait_leaves_nothing():
    for before in range(4):
        for after in range(4):
            broker = Broker()
            sub = broker.subscribe("a", maxlen=1, policy="block")
            other = broker.subscribe("a", maxlen=5, policy="block")
            broker.publish("a", 0)
            tasks = [asyncio.create_task(broker.publish_wait("a", i)) for i in (1, 2)]
            await passes(before)
            got = [sub.get_nowait()[1]]
            await passes(after)
            published = await cancel(tasks[0])
            await passes(3)
            got += taken(sub)
            await passes(3)
            assert tasks[1].done()
            assert got[:1] == [0] and got[-1] == 2 and len(got) <= 3
            assert not published or 1 in got
            assert not sub._late
            assert taken(other)[-1] == 2


@needs("pc")
async def test_close_lets_publish_wait_go_on():
    broker = Broker()
    sub = broker.subscribe("a", maxlen=1, policy="block")
    broker.publish("a", 0)
    tasks = [asyncio.create_task(broker.publish_wait("a", i)) for i in (1, 2)]
    await passes()
    sub.close()
    for task in tasks:
        await task
    assert sub.dropped == 3 and broker.dropped == 3 and broker.published == 3


@needs("pc")
async def test_room_made_inside_the_same_delivery():
    # The subscriber after the full one makes room in it, or closes it.
    broker = Broker()
    sub = broker.subscribe("a", maxlen=1, policy="block")
    broker.publish("a", 0)
    got = []
    call = broker.subscribe_call("a", lambda topic, payload: got.append(sub.get_nowait()[1]))
    assert await broker.publish_wait("a", 1) == 0.5
    assert got == [0] and sub.queued == 1
    call.close()
    broker.subscribe_call("a", lambda topic, payload: sub.close())
    assert await broker.publish_wait("a", 2) == 0.5


# Sinks of links and bridges


class Sink:
    def __init__(self, rating=0):
        self.got = []
        self.rating = rating

    def put(self, topic, payload, retain):
        self.got.append((topic, payload, retain))
        return self.rating

    def full(self):
        return self.rating == 1


@needs("pc")
async def test_sinks():
    broker = Broker()
    sink = Sink()
    broker.publish("a/b", 0, retain=True)
    broker.attach("a/#", sink)
    broker.attach("+/b", sink)
    assert sink.got == [("a/b", 0, True)] * 2  # once an attach
    sink.got.clear()
    assert broker.publish("a/b", 1) == 0.0
    broker.publish("a/b", 2, retain=True)
    broker.publish("c/b", 3)
    assert sink.got == [("a/b", 1, False), ("a/b", 2, True), ("c/b", 3, False)]
    assert broker.publish("a/b", 4, skip=sink) == 0.0
    assert await broker.publish_wait("a/b", 4, skip=sink) == 0.0
    broker.detach("+/b", sink)
    broker.publish("c/b", 5)
    assert len(sink.got) == 3
    sink.rating = 1
    assert broker.publish("a/b", 6) == 1.0
    assert await broker.publish_wait("a/b", 6) == 1.0
    other = Sink(0.5)
    broker.attach("#", other)
    assert broker.publish("a/b", 7) == 0.75
    assert broker.publish("a/b", 7, skip=sink) == 0.5
    assert broker.publish("a/b", 7, skip=other) == 1.0
    sub = broker.subscribe("#")
    assert broker.publish("a/b", 7) == 0.5
    assert taken(sub)[-1] == 7
    broker.detach("a/#", sink)
    raises(ValueError, broker.detach, "a/#", sink, match="sink")


@needs("pc")
async def test_publish_wait_waits_for_a_sink_that_queues():
    class Queueing(Sink):
        def put_wait(self, topic, payload, retain, ticket):
            self.late = (payload, ticket)
            ticket.wait(self)
            return 1

        def unqueue(self, ticket):
            assert self.late[1] is ticket
            self.late = None

    broker = Broker()
    sink = Queueing(1)
    broker.attach("a", sink)
    task = asyncio.create_task(broker.publish_wait("a", 1))
    await passes()
    assert sink.late[0] == 1 and not task.done()
    sink.late[1].done(sink)
    assert await task == 1.0
    task = asyncio.create_task(broker.publish_wait("a", 2))
    await passes()
    await cancel(task)
    assert sink.late is None


@needs("pc")
async def test_sink_that_raises_is_not_waited_for():
    class Bad(Sink):
        def put_wait(self, topic, payload, retain, ticket):
            self.ticket = ticket
            ticket.wait(self)
            if payload == 1:
                raise ValueError("put_wait")
            return 1

        def unqueue(self, ticket):
            raise ValueError("unqueue")

    broker = Broker()
    sinks = [Bad(), Bad()]
    for sink in sinks:
        broker.attach("a", sink)
    with Reports() as reports:
        assert await broker.publish_wait("a", 1) == 0.0
        sinks[0].ticket.done(sinks[0])  # it does not matter any more
        task = asyncio.create_task(broker.publish_wait("a", 2))
        await passes()
        assert await cancel(task) == []
    assert [str(r["exception"]) for r in reports.got] == ["put_wait"] * 2 + ["unqueue"] * 2


@needs("pc")
def test_rating_is_a_float_up_to_1_whatever_a_sink_says():
    broker = Broker()
    broker.attach("a", Sink(2))
    broker.subscribe("a")
    broker.subscribe("a")
    assert broker.publish("a", 1) == 2 / 3
    broker.attach("a", Sink(200))
    assert broker.publish("a", 1) == 1.0


@needs("pc")
async def test_sink_that_ends_inside_a_delivery_of_publish_wait():
    # Each of the two is a sink without put_wait(); the first one detaches the second.
    class Ends(Sink):
        def put(self, *args):
            if broker.sinks()[1:]:
                broker.detach("a", second)
            return super().put(*args)

    broker = Broker()
    first = Ends()
    second = Sink()
    for sink in (first, second):
        broker.attach("a", sink)
    with Reports() as reports:
        await broker.publish_wait("a", 1)
        await broker.publish_wait("a", 2)
    assert not reports.got
    assert len(first.got) == 2 and len(second.got) == 1


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
