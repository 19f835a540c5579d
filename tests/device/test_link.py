# with: tasks, links, tls
# Link, over TCP on 127.0.0.1. tests/host/test_link.py runs the same on CPython.

from errno import EADDRINUSE, ECONNREFUSED

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp

KINDS = [b"", b"\0\1\xff", "", "text \u00e9", 0, -5, 1.5, True, None, [1, "a", [None]], {"k": [1]}]


@needs("sockets")
async def test_payloads_of_every_kind_arrive_as_they_were():
    a, b = pair()
    async with a.link, b.link:
        await connected(a, b)
        for payload in KINDS:
            assert a.broker.publish("a/1", payload) == 0.0
            assert b.broker.publish("b/1", payload) == 0.0
        a.broker.publish("a/2", bytearray(b"array"))
        a.broker.publish("a/2", memoryview(b"view"))
        a.broker.publish("a/2", (1, 2))
        await drained(a, b)
        assert by_topic(b.got)["a/1"] == KINDS
        assert by_topic(b.got)["a/2"] == [b"array", b"view", [1, 2]]
        assert [type(p) for p in by_topic(b.got)["a/1"]] == [type(p) for p in KINDS]
        assert by_topic(a.got)["b/1"] == KINDS
        # Nothing has come back.
        assert len(a.got) == 2 * len(KINDS) + 3 and len(b.got) == 2 * len(KINDS) + 3


@needs("sockets")
async def test_what_cannot_be_carried_is_said():
    reports = quiet()
    a, b = pair(max_size=100)
    async with a.link, b.link:
        await connected(a, b)
        a.broker.publish("t", object())
        a.broker.publish("t" * 256, 1)
        assert len(reports) == 2 and "payload" in str(reports[0]) and "topic" in str(reports[1])
        assert a.broker.publish("t", b"x" * 99) < 1.0
        assert a.broker.publish("t", b"x" * 100) > 0
        await drained(a)
        assert [p for _, p in b.got] == [b"x" * 99] and a.link.dropped == len(reports) == 3


NAN = float("nan")
INF = float("inf")


def deep(n):
    value = []
    for _ in range(n - 1):
        value = [value]
    return value


def same(a, b):
    # Also of which type they are, and whether they are NaN.
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all([same(x, y) for x, y in zip(a, b)])
    if isinstance(a, dict):
        return len(a) == len(b) and all([k in b and same(a[k], b[k]) for k in a])
    return a == b or (a != a and b != b)


ODD = [
    NAN,
    INF,
    -INF,
    [NAN, {"t": -INF}, [INF]],
    {"": NAN},
    {"": {"": "nan"}},
    {"": {"": NAN}},
    {"": "nan"},
    {"": "nan", "a": NAN},
    {"nan": "NaN, inf"},
    "nan",
    "\U0001f600",
    {"\U0001f600": ["\U0001f600", "\u20ac"]},
    {"c": '\0\x01\x1f\x7f\n"\\'},
    1e22,
    1e300,
    5e-324,
    0.1 + 0.2,
    1.0,
    -0.0,
    -(2**31),
    2**63,
    [2**70, -(10**40)],
    10**4000,
    deep(32),
    [{"n": i} for i in range(100)],
    {"": {}},
    "\ud7ff\ue000\U0010ffff",
]


def refused():
    endless = []
    endless.append(endless)
    found = [
        object(),
        [object()],
        [b"x"],
        {"k": bytearray(1)},
        [memoryview(b"")],
        {1, 2},
        [{1}],
        {"k": set()},
        {1: 2},
        {b"k": 1},
        {"a": {None: 1}},
        [{(1, 2): 3}],
        {True: 1},
        [NAN, b""],
        range(3),
        [print],
        10**5000,
        {"k": [10**5000]},
        deep(33),
        deep(10000),
        endless,
    ]
    surrogate = str(b"a\xed\xa0\x80", "utf-8") if MICROPYTHON else "a\ud800"
    return found + [surrogate, [surrogate], {surrogate: 1}]


@needs("sockets")
async def test_odd_values_arrive_as_they_were_or_are_refused():
    reports = []
    asyncio.get_event_loop().set_exception_handler(lambda loop, context: reports.append(context))
    a, b = pair(max_size=10000)
    async with a.link, b.link:
        await connected(a, b)
        for value in ODD:
            await a.send("t", value)
        await drained(a)
        for value, (_, arrived) in zip(ODD, b.got):
            assert same(value, arrived), (value, arrived)
        assert len(b.got) == len(ODD) and not reports
        a.link.peer.dropped = 0  # those for which it was full
        for i, value in enumerate(refused()):
            assert a.broker.publish("bad/topic", value) > 0, i
            assert len(reports) == a.link.dropped == i + 1, (i, reports)
            assert isinstance(reports[i]["exception"], (TypeError, ValueError))
            assert "bad/topic" in reports[i]["message"]
        await a.send("t", 1)
        await drained(a)
        assert b.got[len(ODD) :] == [("t", 1)] and not a.link.refused and not b.link.refused


@needs("sockets")
async def test_value_that_is_too_much_for_the_receiver_costs_itself():
    from asyncio_alt.pubsub.link import peer

    def no_memory(kind, view):
        peer.decode = decode
        raise MemoryError

    reports = quiet()
    decode = peer.decode
    a, b = pair()
    async with a.link, b.link:
        await connected(a, b)
        peer.decode = no_memory
        await a.send("t", "lost")
        await a.send("t", "next")
        await drained(a)
        assert b.got == [("t", "next")] and b.link.dropped == 1
        assert isinstance(reports[0], MemoryError) and not b.link.refused


@needs("sockets")
async def test_filters_at_both_ends():
    port = free_port()
    a = Side(Listen(HOST, port), ["s/#", "t/+"], [])
    b = Side(Tcp(HOST, port), ["#"], ["s/1", "t/#"])
    async with a.link, b.link:
        await connected(a, b)
        for topic in ("s/1", "s/2", "t/1", "t/1/2", "u"):
            a.broker.publish(topic, topic)
            b.broker.publish("b", topic)
        await drained(a, b)
        assert [t for t, _ in b.got if t != "b"] == ["s/1", "t/1"]
        assert [t for t, _ in a.got] == ["s/1", "s/2", "t/1", "t/1/2", "u"]
        assert b.link.dropped == 1 and a.link.dropped == 5


@needs("sockets")
def test_bad_arguments():
    broker = Broker()
    for name, wrong, exc in (
        ("send", "t/#", TypeError),
        ("receive", "t/#", TypeError),
        ("secret", "text", TypeError),
        ("window", 0, ValueError),
        ("max_size", 0, ValueError),
        ("keepalive", 0, ValueError),
    ):
        raises(exc, lambda: Link(broker, Tcp(HOST, 1), **{name: wrong}), match=name)
    raises(ValueError, Link, broker, Tcp(HOST, 1), ["a/#/b"], match="filter")


# Its life


@needs("sockets")
async def test_close_leaves_nothing():
    a, b = pair()
    for _ in range(3):
        async with a.link, b.link:
            await connected(a, b)
            await a.send("t", 1)
            await drained(a)
        assert not a.link.connected and not b.link.connected
        assert len(a.broker.sinks()) == 1
        assert a.broker.publish("t", 2) == 0.0  # the link is no subscriber any more
        if MICROPYTHON:
            from asyncio_alt import core

            await asyncio.sleep(0.01)
            assert len(core.tasks) == 1 and not core.streams
    await a.link.close()
    assert [p for _, p in b.got] == [1, 1, 1]


@needs("sockets")
async def test_caller_waits_for_the_other_to_come():
    a, b = pair()
    async with b.link:
        raises(RuntimeError, b.link.start)
        await asyncio.sleep(0.05)
        assert b.broker.publish("t", 1) == 0.5 and not b.link.connected
        async with a.link:
            await connected(a, b)
            await b.send("t", 2)
            await drained(b)
            assert a.got == [("t", 2)]


@needs("sockets")
async def test_port_in_use_is_told():
    reports = quiet()
    a, b = pair()
    c = Side(a.link.carrier)
    async with a.link, b.link:
        await connected(a, b)
        async with c.link:
            await until(lambda: c.link.error)
            assert c.link.error.errno == EADDRINUSE and reports == [c.link.error]
            # It goes on trying and says no more of it, until the port is free.
            await asyncio.sleep(0.05)
            assert c.link.error.errno == EADDRINUSE and len(reports) == 1
            await a.link.close()
            await connected(b, c)
            assert c.link.error is b.link.error is None and len(reports) == 1


@needs("sockets")
async def test_error_says_why_there_is_no_connection():
    a, b = pair(keepalive=0.05)
    assert a.link.error is None
    async with b.link:
        await until(lambda: b.link.error)
        assert b.link.error.errno == ECONNREFUSED
        secret = a.link.peer.secret
        a.link.peer.secret = b"another"
        async with a.link:
            await until(lambda: a.link.error)
            assert "secret" in str(a.link.error)
            await until(lambda: getattr(b.link.error, "errno", 0) != ECONNREFUSED)
            assert isinstance(b.link.error, (EOFError, OSError))
            a.link.peer.secret = secret
            await connected(a, b)
            assert a.link.error is b.link.error is None
        await until(lambda: not b.link.connected)
        assert isinstance(b.link.error, (EOFError, OSError))
        async with a.link:
            await connected(a, b)
            assert a.link.error is None
            b.link.peer.conn.send = lambda *parts: None  # it falls silent
            await until(lambda: not a.link.connected)
            assert isinstance(a.link.error, asyncio.TimeoutError)


@needs("sockets")
async def test_chain_of_three_brokers():
    a, b = pair()
    port = free_port()
    c = Side(Listen(HOST, port), broker=b.broker)  # b and c are two links of one broker
    d = Side(Tcp(HOST, port))
    async with a.link, b.link, c.link, d.link:
        await connected(a, b, c, d)
        for i in range(100):
            await a.broker.publish_wait("x", i)
            await d.broker.publish_wait("y", i)
        await drained(a, b, c, d)
        await until(lambda: len(d.got) == 200 and len(a.got) == 200)
        for side in (a, b, d):
            assert by_topic(side.got)["x"] == list(range(100))
            assert by_topic(side.got)["y"] == list(range(100))


@needs("sockets", "ssl")
async def test_over_tls():
    import binascii
    import ssl

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    cert = binascii.a2b_base64(CERT)
    if MICROPYTHON:
        server.load_cert_chain(cert, binascii.a2b_base64(KEY))
        client.verify_mode = ssl.CERT_REQUIRED
    else:
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            key = "-----BEGIN EC PRIVATE KEY-----\n%s\n-----END EC PRIVATE KEY-----\n" % KEY
            file.write(ssl.DER_cert_to_PEM_cert(cert) + key)
            file.flush()
            server.load_cert_chain(file.name)
    client.load_verify_locations(cadata=cert)
    port = free_port()
    a = Side(Listen(HOST, port, server))
    b = Side(Tcp("localhost", port, client))
    sub = b.broker.subscribe("t", maxlen=2, policy="block")
    a.link.GREETING = b.link.GREETING = 5
    async with a.link, b.link:
        await connected(a, b)
        for i in range(30):
            await a.send("t", bytes([i]) * 900)
            await b.send("u", i)
            assert (await asyncio.wait_for(sub.get(), 3))[1] == bytes([i]) * 900
        await drained(a, b)
        assert [p for _, p in a.got] == list(range(30))
    # One that does not speak it gets nothing.
    refused = a.link.refused
    async with a.link:
        c = Side(Tcp(HOST, port))
        async with c.link:
            await asyncio.sleep(0.3)
            assert not c.link.connected and not a.link.connected and not c.got
    assert a.link.refused >= refused
    sub.close()
