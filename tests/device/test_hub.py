# with: tasks, links
# Hub, over TCP on 127.0.0.1. tests/host/test_link.py runs the same on CPython.

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp
from asyncio_alt.pubsub.link.handshake import Refused, call
from asyncio_alt.pubsub.link.hub import Hub


class Center(Heard):
    # A hub, and the changes of its peers.
    def __init__(self, peers, send=("#",), receive=("#",), **options):
        super().__init__()
        self.port = free_port()
        self.online = []
        self.broker.subscribe_call("$peer/+/online", lambda t, p: self.online.append((t[6], p)))
        self.hub = Hub(self.broker, Listen(HOST, self.port), peers, send, receive, **options)


class Board(Heard):
    def __init__(self, center, name, secret=None, **options):
        super().__init__()
        secret = secret or name.encode()
        carrier = Tcp(HOST, center.port)
        self.link = Quick(
            self.broker, carrier, ["#"], ["#"], secret=secret, name=name, keepalive=1, **options
        )


async def start(*boards):
    for board in boards:
        board.link.start()
    for board in boards:
        await asyncio.wait_for(board.link.wait_connected(), 3)


async def close(*boards):
    for board in boards:
        await board.link.close()


@needs("sockets")
async def test_messages_go_to_all_but_their_source_as_filters_say():
    center = Center({"a": b"a", "b": b"b", "c": (b"c", ["b/#"], ["c/#"])})
    async with center.hub:
        a, b, c = [Board(center, name) for name in "abc"]
        await start(a, b, c)
        for board, name in ((a, "a"), (b, "b"), (c, "c")):
            await board.broker.publish_wait(name + "/1", name)
        await c.broker.publish_wait("x", "c must not")
        center.broker.publish("b/2", "hub")
        for board in a, b, c:
            await asyncio.wait_for(board.link.drain(), 3)
        await until(lambda: len(a.got) == 4 and len(b.got) == 4)
        of_hub = ("b/2", "hub")
        assert sorted(center.got) == [("a/1", "a"), ("b/1", "b"), of_hub, ("c/1", "c")]
        assert sorted(a.got) == sorted(b.got) == sorted(center.got)
        assert sorted(c.got) == [("b/1", "b"), of_hub, ("c/1", "c"), ("x", "c must not")]
        peers = center.hub.peers
        assert sorted(peers) == ["a", "b", "c"] and center.hub.refused == 0
        assert (peers["c"].received, peers["c"].dropped, peers["a"].delivered) == (1, 1, 3)
        assert sorted(center.online) == [(name, True) for name in "abc"]
        await b.link.close()
        await until(lambda: ("b", False) in center.online)
        assert dict(center.broker.retained("$peer/#"))["$peer/b/online"] is False
        await close(a, c)
    assert not center.broker.retained("none") and len(center.broker.sinks()) == 2


@needs("sockets")
async def test_one_secret_does_not_open_another_name_and_the_caller_is_told():
    center = Center({"a": b"a", "b": b"b"})
    async with center.hub:
        for name, secret in (("a", b"b"), ("c", b"a"), ("a/b", b"a"), ("+", b"a")):
            board = Board(center, name, secret)
            board.link.start()
            await until(lambda: isinstance(board.link.error, Refused))
            assert "wrong name or secret" in str(board.link.error), board.link.error
            await board.link.close()
        # One of before there were names.
        board = Board(center, "a")
        board.link.door.shake = call
        refused = center.hub.refused
        board.link.start()
        await until(lambda: center.hub.refused > refused)
        assert not board.link.connected and not center.hub.peers
        await board.link.close()


@needs("sockets")
async def test_link_with_a_name_that_listens_takes_a_caller_with_any_name():
    center = Heard()
    port = free_port()
    link = Quick(center.broker, Listen(HOST, port), [], ["#"], secret=b"a", name="b")
    center.port = port
    board = Board(center, "a")
    async with link:
        await start(board)
        await board.broker.publish_wait("t", 1)
        await board.link.drain()
        assert center.got == [("t", 1)]
        await close(board)


@needs("sockets")
async def test_second_connection_of_a_name_takes_the_place_and_loses_nothing():
    center = Center({"a": b"a"}, window=4)
    sub = center.broker.subscribe("n", maxlen=1, policy="block")
    async with center.hub:
        board = Board(center, "a", window=4)
        await start(board)
        n = 0
        while not board.broker.publish("n", n):
            n += 1
            await asyncio.sleep(0.005)
        assert n == 5  # one is queued, four are under way
        peer = center.hub.peers["a"]
        first = peer.conn
        board.link.peer.conn.transport.abort()
        await until(lambda: peer.conn not in (first, None))
        for i in range(n):
            assert await asyncio.wait_for(sub.get(), 3) == ("n", i)
        # Another program of that name: what it says is new.
        again = Board(center, "a")
        await start(again)
        await until(lambda: not board.link.connected)
        await board.link.close()
        await asyncio.wait_for(again.link.wait_connected(), 3)
        await again.broker.publish_wait("n", "new")
        assert await asyncio.wait_for(sub.get(), 3) == ("n", "new")
        assert list(center.hub.peers) == ["a"] and center.hub.peers["a"] is peer
        await close(again)


@needs("sockets")
async def test_slow_peer_costs_the_others_nothing():
    center = Center({"a": b"a", "b": b"b", "c": b"c"}, window=4)
    async with center.hub:
        a, b, c = [Board(center, name, window=4) for name in "abc"]
        slow = c.broker.subscribe("n", maxlen=1, policy="block")
        await start(a, b, c)
        for i in range(100):
            await a.broker.publish_wait("n", i)
        await asyncio.wait_for(a.link.drain(), 3)
        assert [p for _, p in center.got] == list(range(100))
        await until(lambda: center.hub.peers["b"].delivered + center.hub.peers["b"].dropped == 100)
        assert center.hub.peers["c"].dropped == 95 and center.hub.peers["a"].received == 100
        assert center.hub.peers["b"].delivered > 5
        slow.close()
        await close(a, b, c)


@needs("sockets")
async def test_peers_are_bounded():
    center = Center(lambda name: name.encode() if name != "none" else None, most=2)
    async with center.hub:
        a, b, c, none = [Board(center, name) for name in ("a", "b", "c", "none")]
        await start(a, b)
        for board, why in ((c, "too many peers"), (none, "wrong name")):
            board.link.start()
            await until(lambda: isinstance(board.link.error, Refused))
            assert why in str(board.link.error), board.link.error
        await none.link.close()
        # A peer that is not connected makes room.
        await a.link.close()
        await asyncio.wait_for(c.link.wait_connected(), 3)
        assert sorted(center.hub.peers) == ["b", "c"]
        assert not center.broker.retained("$peer/a/online")
        await close(b, c)


@needs("sockets")
async def test_hub_starts_again():
    center = Center({"a": b"a"})
    board = Board(center, "a")
    board.link.start()
    for i in range(3):
        async with center.hub:
            raises(RuntimeError, center.hub.start)
            await asyncio.wait_for(board.link.wait_connected(), 3)
            center.broker.publish("r", i, retain=True)
            await until(lambda: ("r", i) in board.got)
        await until(lambda: not board.link.connected)
        assert center.online[-1] == ("a", False)
    await close(board)


@needs("urandom")
def test_bad_arguments_of_a_hub():
    for name, wrong, error in (
        ("peers", {"a/b": b""}, ValueError),
        ("peers", {"": b""}, ValueError),
        ("peers", {"a" * 33: b""}, ValueError),
        ("secret", {"a": "text"}, TypeError),
        ("send", {"a": (b"", "text", [])}, TypeError),
        ("filter", {"a": (b"", [], ["#/a"])}, ValueError),
    ):
        raises(error, Hub, Broker(), Listen(HOST, 1), wrong, match=name)
    raises(ValueError, lambda: Hub(Broker(), Listen(HOST, 1), {}, most=0), match="most")
    raises(ValueError, lambda: Link(Broker(), Tcp(HOST, 1), name="a" * 33), match="name")
