"""The bridge between a Broker and a real Mosquitto."""

import array
import asyncio
import contextlib

import aiomqtt
import pytest

from asyncio_alt import pubsub
from asyncio_alt.pubsub import Broker, mqtt
from tests.host.bridges import bridged, messages, reports, run, until


def test_topics_and_payloads_are_mapped_both_ways(mosquitto):
    async def main():
        broker = Broker()
        options = {"send": ["t/#"], "receive": ["cmd/+"], "local": "a/", "remote": "pico/"}
        async with bridged(mosquitto, broker, **options) as bridge, mosquitto.client() as peer:
            await peer.subscribe("#")
            for payload in (
                b"bytes",
                bytearray(b"array"),
                "tëxt",
                7,
                1.5,
                {"k": [1, None]},
                (1, 2),
            ):
                broker.publish("a/t/x", payload)
            broker.publish("a/no", b"")
            broker.publish("b/t/x", b"")
            sent = [m[1] for m in await messages(peer, 7)]
            assert sent[:5] == [b"bytes", b"array", "tëxt".encode(), b"7", b"1.5"]
            assert sent[5:] == [b'{"k": [1, null]}', b"[1, 2]"]
            broker.publish("a/t", b"parent")
            assert await messages(peer, 1) == [("pico/t", b"parent", False)]

            got = broker.subscribe("#")
            for topic in ("pico/cmd/led", "pico/cmd", "pico/t/x", "cmd/led"):
                await peer.publish(topic, b"on")
            await peer.publish("pico/cmd/last", b"")
            assert await got.get() == ("a/cmd/led", b"on")
            assert await got.get() == ("a/cmd/last", b"")
            assert (bridge.sent, bridge.received) == (8, 2)

    run(main())


@pytest.mark.parametrize("qos", [0, 1])
def test_retained_flag_goes_both_ways(mosquitto, qos):
    async def main():
        broker = Broker()
        async with mosquitto.client() as peer:
            await peer.publish("cmd/before", b"1", retain=True)
        options = {"send": ["t/#"], "receive": ["cmd/#"], "qos": qos}
        async with bridged(mosquitto, broker, **options) as bridge:
            await until(lambda: broker.retained() == [("cmd/before", b"1")])
            broker.publish("t/kept", b"2", retain=True)
            broker.publish("t/gone", b"3")
            await until(lambda: bridge.sent == 2)
        async with mosquitto.client() as peer:
            await peer.subscribe("t/#")
            await peer.publish("t/end", b"")
            assert await messages(peer, 2) == [("t/kept", b"2", True), ("t/end", b"", False)]
        # The next connection does not deliver a known message again.
        calls = []
        broker.subscribe_call("cmd/#", lambda *m: calls.append(m))
        async with bridged(mosquitto, broker, **options) as bridge, mosquitto.client() as peer:
            await peer.publish("cmd/after", b"4")
            await until(lambda: bridge.received)
            assert calls == [("cmd/before", b"1"), ("cmd/after", b"4")]

    run(main())


def test_what_mqtt_sends_back_is_dropped_once(mosquitto):
    async def main():
        broker = Broker()
        got = broker.subscribe("#", maxlen=99)
        options = {"send": ["#"], "receive": ["#"], "qos": 1}
        other = Broker()
        async with (
            bridged(mosquitto, broker, **options) as bridge,
            bridged(mosquitto, other, **options) as far,
            mosquitto.client() as peer,
        ):
            for n in range(10):
                broker.publish(f"t/{n % 3}", b"%d" % (n % 2))
            other.publish("far", b"x")
            await until(lambda: bridge.sent == 10 and far.received == 10)
            await peer.publish("t/1", b"1", qos=1)  # equal to an echo, and not one
            await until(lambda: bridge.received == 2)
            await asyncio.sleep(0.1)
            assert (bridge.sent, bridge.received, far.sent, far.received) == (10, 2, 1, 11)
            assert got.queued == 12

    run(main())


def test_nothing_is_lost_while_the_broker_is_down(mosquitto):
    async def main():
        broker = Broker()
        options = {"send": ["#"], "qos": 1, "maxlen": 4, "policy": "block"}
        async with bridged(mosquitto, broker, **options) as bridge:
            for turn in range(2):
                mosquitto.kill()
                publishing = asyncio.create_task(publish_all(broker, turn))
                await asyncio.sleep(0.1)
                assert not publishing.done() and bridge.out.full()
                mosquitto.start()
                assert max(await publishing) <= 1
                await until(lambda: bridge.sent == 20 * (turn + 1))
                assert bridge.out.dropped == 0 and bridge.connects >= turn + 2
                async with mosquitto.client() as peer:
                    await peer.subscribe("#")
                    kept = await messages(peer, 20)
                assert sorted(kept) == sorted((f"{turn}/{n}", b"%d" % n, True) for n in range(20))

    async def publish_all(broker, turn):
        return [
            await broker.publish_wait(f"{turn}/{n}", b"%d" % n, retain=True) for n in range(20)
        ]

    run(main())


def test_offline_queue_has_a_bound_and_counts(mosquitto):
    async def main():
        broker = Broker()
        async with bridged(mosquitto, broker, send=["#"], maxlen=4) as bridge:
            mosquitto.kill()
            await until(lambda: not bridge.connected)
            assert [broker.publish("t", n) for n in range(6)] == [0, 0, 0, 0, 1, 1]
            mosquitto.start()
            async with mosquitto.client() as peer:
                await peer.subscribe("t")
                await bridge.drain()
                broker.publish("t", "end")
                payloads = [m[1] for m in await messages(peer, 1)]
                while payloads[-1] != b"end":
                    payloads += [m[1] for m in await messages(peer, 1)]
            # 0 and 1 were dropped; the rest may have come before the peer subscribed.
            assert bridge.out.dropped == 2 and bridge.sent == 5
            assert payloads == [b"2", b"3", b"4", b"5", b"end"][-len(payloads) :]

    run(main())


# Retained values


@pytest.mark.parametrize("protocol", list(aiomqtt.ProtocolVersion))
def test_retained_values_follow_what_changes_while_connected(mosquitto, protocol):
    async def main():
        broker = Broker()
        got = broker.subscribe("#", maxlen=99)
        client = mqtt.AioMqtt(mosquitto.client(protocol=protocol))
        async with mosquitto.client() as peer:
            for topic in "cfg/a", "cfg/b", "cfg/gone":
                await peer.publish(topic, "1", 1, retain=True)
            async with bridged(mosquitto, broker, client, receive=["cfg/#"], qos=1) as bridge:
                await until(lambda: bridge.received == 3)
                await peer.publish("cfg/a", "2", 1, retain=True)
                await peer.publish("cfg/b", "1", 1, retain=True)
                await peer.publish("cfg/gone", "", 1, retain=True)
                await peer.publish("cfg/new", "1", 1, retain=True)
                await peer.publish("cfg/event", "1", 1)
                kept = {"cfg/a": b"2", "cfg/b": b"1", "cfg/new": b"1"}
                await until(lambda: dict(broker.retained()) == kept)
                await peer.publish("cfg/event", "2", 1)
                await until(lambda: bridge.received == 9)
                await asyncio.sleep(0.5)  # no message comes a second time
                assert dict(broker.retained()) == kept
        seen = [got.get_nowait() for _ in range(got.queued)]
        assert seen[3:] == [
            ("cfg/a", b"2"),
            ("cfg/b", b"1"),
            ("cfg/gone", b""),
            ("cfg/new", b"1"),
            ("cfg/event", b"1"),
            ("cfg/event", b"2"),
        ]

    run(main())


def test_of_two_writers_of_a_retained_value_the_later_one_wins_everywhere(mosquitto):
    async def main():
        brokers = [Broker(), Broker()]
        options = {"send": ["#"], "receive": ["#"], "qos": 1, "maxlen": 200}
        async with (
            bridged(mosquitto, brokers[0], **options),
            bridged(mosquitto, brokers[1], **options),
            mosquitto.client() as peer,
        ):
            for n in range(60):
                brokers[n % 2].publish("x", b"%d" % n, retain=True)
                if n % 7 == 0:
                    await peer.publish("x", b"peer %d" % n, 1, retain=True)
                if n % 5 == 0:
                    await asyncio.sleep(0.001)
            await peer.publish("end", b"", 1)
            await asyncio.sleep(0.7)
            await peer.subscribe("x")
            ((_, there, _),) = await messages(peer, 1)
            assert [b.retained() for b in brokers] == [[("x", there)]] * 2

    run(main())


def test_what_waits_to_be_sent_is_not_undone_by_the_older_value_there(mosquitto):
    async def main():
        broker = Broker()
        broker.publish("x", b"new", retain=True)
        async with mosquitto.client() as peer:
            await peer.publish("x", b"old", 1, retain=True)
            options = {"send": ["#"], "receive": ["#"], "qos": 1}
            async with bridged(mosquitto, broker, **options) as bridge:
                await bridge.drain()
                await asyncio.sleep(0.2)
                assert broker.retained() == [("x", b"new")]
            await peer.subscribe("x")
            assert await messages(peer, 1) == [("x", b"new", True)]

    run(main())


@pytest.mark.parametrize("known", [object(), float("nan"), "x", 1])
def test_what_is_retained_here_does_not_keep_a_bridge_from_connecting(mosquitto, known):
    async def main():
        broker = Broker()
        broker.publish("cmd/x", known, retain=True)
        got = broker.subscribe("cmd/y")
        async with mosquitto.client() as peer:
            for topic in "pico/", "pico", "/", "pico/cmd/x", "pico/cmd/y":
                await peer.publish(topic, b"x", 1, retain=True)
            with reports() as said:
                options = {"receive": ["#"], "remote": "pico/", "qos": 1}
                async with bridged(mosquitto, broker, **options) as bridge:
                    assert await got.get() == ("cmd/y", b"x")
                    await asyncio.sleep(0.3)
                    assert (bridge.connects, bridge.refused) == (1, 1)
        assert dict(broker.retained())["cmd/x"] == ("x" if known == "x" else b"x")
        assert len(said) == 1 and "'pico/'" in said[0][0]

    run(main())


# Messages that cannot be sent


@pytest.mark.parametrize("mosquitto", [("max_packet_size 4000",)], indirect=True)
def test_a_message_that_the_broker_hangs_up_on_is_given_up(mosquitto):
    async def main():
        broker = Broker()
        with reports() as said:
            async with mosquitto.client() as peer:
                await peer.subscribe("#", 1)
                async with bridged(mosquitto, broker, send=["#"], qos=1) as bridge:
                    for n in range(20):
                        broker.publish(
                            "picture" if n == 5 else "t", bytes([n]) * (9999 * (n == 5) or 1)
                        )
                    await bridge.drain()
                    assert (bridge.sent, bridge.refused, bridge.connects) == (19, 1, 5)
                    assert (bridge.out.dropped, bridge.out.delivered) == (1, 19)
                got = []
                while len(set(got)) < 19:
                    got += [m[1][0] for m in await messages(peer, 1)]
        assert sorted(set(got)) == [n for n in range(20) if n != 5]
        first = sorted(set(got), key=got.index)
        assert first == sorted(first)
        assert len(said) == 1 and "'picture'" in said[0][0]

    run(main())


def test_what_has_no_bytes_or_no_topic_there_is_refused_when_it_is_published(mosquitto):
    async def main():
        broker = Broker()
        ring = []
        ring.append(ring)
        bad = [object(), {1}, {1: 2}, [float("inf")], float("nan"), "\ud800", 1j, ring, len]
        with reports() as said:
            options = {"send": ["#"], "local": "a/", "remote": "b" * 100 + "/", "qos": 1}
            async with bridged(mosquitto, broker, **options) as bridge, mosquitto.client() as peer:
                await peer.subscribe("#")
                for n, payload in enumerate(bad):
                    assert broker.publish(f"a/{n}", payload) == 1
                broker.publish("a/" + "t" * 65500, b"1")
                bridge.out.put("a/x+", b"1")
                bridge.out.put("a/", b"1")
                broker.publish("a", b"1")  # which "a/#" matches
                broker.publish("a/good", b"1")
                assert (await messages(peer, 2))[1][0] == "b" * 100 + "/good"
                assert (bridge.sent, bridge.connects) == (2, 1)
                assert bridge.refused == bridge.out.dropped == len(bad) + 2
        assert ["'a/" in text for text, _ in said] == [True] * (len(bad) + 2)

    run(main())


def test_payloads_of_all_kinds_arrive(mosquitto):
    async def main():
        broker = Broker()
        pool = pubsub.Pool(1, 10)
        lease = pool.lease()
        lease.buf[:3] = b"buf"
        lease.used = 3
        sent = {
            "lease": (lease, b"buf"),
            "array": (array.array("h", [1, -1]), b"\1\0\xff\xff"),
            "view": (memoryview(array.array("h", [1, 2]))[1:], b"\2\0"),
            "none": (None, b""),
            "true": (True, b"true"),
            "list": ([{"a": (1, None, "\u00e4")}], b'[{"a": [1, null, "\\u00e4"]}]'),
            "big": (bytes(200_000), bytes(200_000)),
        }
        async with bridged(mosquitto, broker, send=["#"]), mosquitto.client() as peer:
            await peer.subscribe("#")
            for topic, (payload, _) in sent.items():
                broker.publish(topic, payload)
            got = await messages(peer, len(sent))
            assert [m[:2] for m in got] == [(topic, data) for topic, (_, data) in sent.items()]
            assert pool.leased() == 0

    run(main())


# A client with faults of its own


def test_a_message_published_first_is_queued(mosquitto):
    async def main():
        broker = Broker()
        bridge = mqtt.Bridge(broker, mqtt.AioMqtt(mosquitto.client()), send=["#"])
        for n in range(2):
            async with bridge:
                broker.publish("t", b"1")
                assert bridge.out.queued == 1
                with pytest.raises(RuntimeError, match="runs"):
                    await bridge.__aenter__()
                await bridge.drain()
                assert bridge.sent == n + 1
            async with bridge:
                pass  # cancelled before it has begun
            assert not broker.sinks()

    run(main())


def test_drops_are_counted_once_and_for_good(mosquitto):
    async def main():
        broker = Broker()
        bridge = mqtt.Bridge(
            broker, mqtt.AioMqtt(mosquitto.client()), send=["#", "t", "+"], maxlen=1
        )
        for turn in 1, 2:
            async with bridge:
                for _ in range(4):
                    broker.publish("t", b"1")
                await bridge.drain()
                assert (broker.dropped, broker.delivered) == (3 * turn, turn)
            assert (broker.dropped, broker.delivered) == (3 * turn, turn)

    run(main())


def faulty(method, how):
    """An adapter whose method, once, hangs or raises CancelledError."""

    class Faulty(mqtt.AioMqtt):
        faults = 1
        over = False

    async def fail(self, *args):
        if self.faults:
            self.faults -= 1
            if how == "cancelled":
                raise asyncio.CancelledError
            while not self.over:
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    if how == "hangs":
                        raise
        return await getattr(mqtt.AioMqtt, method)(self, *args)

    setattr(Faulty, method, fail)
    return Faulty


@pytest.mark.parametrize("how", ["cancelled", "hangs", "hangs and cannot be cancelled"])
@pytest.mark.parametrize("method", ["connect", "subscribe", "publish", "receive", "disconnect"])
def test_a_client_that_fails_costs_a_new_try(mosquitto, method, how):
    async def main():
        broker = Broker()
        got = broker.subscribe("cmd")
        client = faulty(method, how)(mosquitto.client(timeout=2))
        options = {"send": ["t"], "receive": ["cmd"], "qos": 1, "timeout": 0.3}
        with reports(), contextlib.ExitStack() as stack:
            stack.callback(setattr, client, "over", True)
            async with bridged(mosquitto, broker, client, **options) as bridge:
                if method == "receive" and how != "cancelled":
                    client.faults = 0  # nothing is to tell it from a quiet line
                    return
                broker.publish("t", b"1")
                if method == "disconnect":
                    mosquitto.kill()
                    await asyncio.sleep(0.1)
                    mosquitto.start()
                await bridge.drain()
                await until(lambda: bridge.connected)
                async with mosquitto.client() as peer:
                    while not got.queued:
                        await peer.publish("cmd", b"1", 1)
                        await asyncio.sleep(0.05)
                assert (bridge.refused, client.faults) == (0, 0)

    run(main())


def test_connects_that_end_soon_back_off(mosquitto):
    async def main():
        bridges = [
            mqtt.Bridge(
                Broker(), mqtt.AioMqtt(mosquitto.client(identifier="same")), retry=(0.05, 9)
            )
            for _ in range(2)
        ]
        async with bridges[0], bridges[1]:
            await asyncio.sleep(1.5)
        assert 2 <= sum(bridge.connects for bridge in bridges) <= 10

    run(main())


@pytest.mark.parametrize("phase", ["connecting", "connected"])
def test_adapter_is_entered_again_after_a_broker_that_stood_still(mosquitto, phase):
    async def main():
        broker = Broker()
        client = mqtt.AioMqtt(mosquitto.client(timeout=0.5))
        bridge = mqtt.Bridge(broker, client, send=["#"], qos=1, retry=(0.05, 0.2), timeout=0.5)
        for _ in range(2):
            if phase == "connecting":
                mosquitto.pause()
            async with bridge:
                if phase == "connected":
                    await until(lambda: bridge.connected)
                    mosquitto.pause()
                broker.publish("t", bytes(3_000_000))
                await asyncio.sleep(0.1 if phase == "connecting" else 2)
            mosquitto.go_on()
        async with bridge:
            await bridge.drain()
        assert (bridge.sent, bridge.refused) == (2, 0)

    run(main())


# QoS 1


def test_order_is_kept_while_the_broker_is_killed_again_and_again(mosquitto):
    async def main():
        broker = Broker()
        seen = []

        async def listen():
            while len(set(seen)) < 200:
                with contextlib.suppress(aiomqtt.MqttError):
                    async with mosquitto.client(identifier="peer", clean_session=False) as peer:
                        await peer.subscribe("#", 1)
                        ready.set()
                        async for m in peer.messages:
                            seen.append(int(m.payload))
                            if len(set(seen)) == 200:
                                break
                await asyncio.sleep(0.01)

        ready = asyncio.Event()
        options = {"send": ["#"], "qos": 1, "policy": "block"}
        listening = asyncio.create_task(listen())
        async with bridged(mosquitto, broker, **options) as bridge:
            for n in range(200):
                if n % 40 == 20:
                    mosquitto.kill()
                    ready.clear()
                    mosquitto.start()
                    await ready.wait()
                await broker.publish_wait("t", n)
            await bridge.drain()
            assert (bridge.sent, bridge.refused, bridge.out.dropped) == (200, 0, 0)
        listening.cancel()

    run(main())


@pytest.mark.parametrize("mosquitto", [("max_inflight_messages 3",)], indirect=True)
@pytest.mark.parametrize("protocol", list(aiomqtt.ProtocolVersion))
def test_several_are_under_way_as_many_as_the_broker_takes(mosquitto, protocol):
    most = [0]

    class Counting(mqtt.AioMqtt):
        now = 0

        async def publish(self, *args):
            self.now += 1
            most[0] = max(most[0], self.now)
            await super().publish(*args)
            self.now -= 1

    async def main():
        broker = Broker()
        client = Counting(mosquitto.client(protocol=protocol))
        async with mosquitto.client() as peer:
            await peer.subscribe("#", 1)
            options = {"send": ["#"], "qos": 1, "maxlen": 99}
            async with bridged(mosquitto, broker, client, **options) as bridge:
                for n in range(99):
                    broker.publish("t", n)
                got = await messages(peer, 99)
                assert [int(m[1]) for m in got] == list(range(99)) and bridge.connects == 1
        assert most[0] == (3 if protocol == aiomqtt.ProtocolVersion.V5 else 16)

    run(main())


# The rest


def test_cancelling_leaves_nothing_behind(mosquitto):
    async def main():
        broker = Broker()
        before = asyncio.all_tasks()
        async with bridged(mosquitto, broker, send=["#"]):
            assert broker.sinks()
        assert not broker.sinks() and asyncio.all_tasks() == before

    run(main())


def test_bad_arguments_are_named():
    broker = Broker()
    for error, name, options in (
        (ValueError, "qos", {"qos": 2}),
        (TypeError, "send", {"send": "t/#"}),
        (TypeError, "receive", {"receive": "t"}),
        (ValueError, "filter", {"send": ["a/#/b"]}),
        (ValueError, "retry", {"retry": (2, 1)}),
        (ValueError, "policy", {"policy": "x"}),
        (TypeError, "maxlen", {"maxlen": "x"}),
    ):
        with pytest.raises(error, match=name):
            mqtt.Bridge(broker, None, **options)
