"""SharedLink: two processes that share memory, and the state afterwards."""

import asyncio
import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
from mmap import PAGESIZE

import pytest

from asyncio_alt.pubsub import Broker, Listen, Tcp
from asyncio_alt.pubsub.link import shm
from asyncio_alt.pubsub.link.shm import SharedLink
from tests.host.shared import (
    KB,
    LOCAL,
    MB,
    MEMFD,
    THRESHOLD,
    Peer,
    Proxy,
    Side,
    answer,
    listening,
    maps,
    run,
    until,
)
from tests.host.shared import nothing_is_left as nothing_is_left
from tests.host.test_link import free_port
from tools.bootstrap import ROOT

# The ways of payloads


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_large_payloads_do_not_go_over_the_connection(loop):
    async def main():
        async with listening() as side, Proxy(side.link.carrier.port) as proxy:
            async with Peer(proxy.listens):
                await side.sharing()
                data = os.urandom(MB)
                before = proxy.carried
                await side.send(data)
                await side.send(bytearray(data))
                await side.send(memoryview(data))
                await side.send("\u00e9" * MB)
                await side.send([1.5] * 100000)
                for payload in (data, data, data, "\u00e9" * MB, [1.5] * 100000):
                    await side.send(payload, "echo")
                found = await side.answers(10)
                assert found[:3] == [answer(data)] * 3
                assert found[3:5] == [answer("\u00e9" * MB), answer([1.5] * 100000)]
                assert found[5:] == [data, data, data, "\u00e9" * MB, [1.5] * 100000]
                assert proxy.carried - before < MB / 100 and side.link.shared == 10
                assert (await side.ask("state"))["shared"] == 5
                # Those up to the threshold do.
                for size, carried in ((THRESHOLD, 1), (THRESHOLD + 1, 0)):
                    before = proxy.carried
                    await side.send(bytes(size))
                    assert await side.answers(1) == [answer(bytes(size))]
                    assert (proxy.carried - before > size) == carried
                assert not side.link.refused and not side.link.dropped and not side.link.resent

    run(main, loop)


def test_order_and_what_subscribers_keep():
    """Small and large payloads come in order, and a taken payload is not written to again."""

    async def main():
        rnd = random.Random(1)
        async with listening() as side, Peer(side.link.carrier.port):
            await side.sharing()
            sent = [rnd.randbytes(rnd.choice((1, 100, 20000, 70000, 300000))) for _ in range(300)]
            for payload in sent:
                await side.send(payload, "echo")
            assert await side.answers(300) == sent
            assert side.link.shared == sum(len(payload) > THRESHOLD for payload in sent)

    run(main)


def test_exactly_once_through_cuts():
    async def main():
        rnd = random.Random(2)
        async with listening() as side:
            cuts = [rnd.randrange(400, 30000) for _ in range(25)]
            async with Proxy(side.link.carrier.port, cuts) as proxy, Peer(proxy.listens):
                await side.connected()
                sent = []
                while proxy.cuts or len(sent) < 100:
                    payload = rnd.randbytes(rnd.choice((10, 30000, 200000)))
                    sent.append(answer(payload))
                    if rnd.random() < 0.5:
                        payload = bytearray(payload)
                    while side.link.put("to/data", payload):
                        await asyncio.sleep(0.001)
                    if isinstance(payload, bytearray):
                        payload[:] = bytes(len(payload))  # it is the publisher's again
                assert await side.answers(len(sent)) == sent
                assert side.link.resent and side.link.shared and not side.link.refused

    run(main)


def test_rating_rises_while_the_segment_is_full():
    async def main():
        async with listening(window=1000) as side, Peer(side.link.carrier.port, window=1000):
            await side.sharing()
            await side.send(bytes(MB))
            await side.answers(1)
            taken = 0
            while not side.broker.publish("to/data", bytes(MB)):
                taken += 1
                assert taken < 20
            assert side.link.dropped == 1 and taken >= 4
            await side.answers(taken)
            assert side.broker.publish("to/data", bytes(MB)) == 0.0
            await side.answers(1)
            assert side.link.shared == taken + 2

    run(main)


def test_what_is_under_way_is_not_written_over():
    rnd = random.Random(3)
    key = bytes(range(16))
    under_way = []
    full = 0
    first = 65000  # numbers begin anew at 65536
    with contextlib.closing(shm._Segment(64 * KB, key)) as segment:
        for number in range(first, first + 3000):
            payload = rnd.randbytes(rnd.choice((1, 63, 64, 65, 3000, 20000, 40000)))
            while (at := segment.put(payload, number & 0xFFFF, first & 0xFFFF)) is None:
                first = under_way.pop(0)[0] + 1
                full += 1
            under_way.append((number, at, payload))
            if rnd.random() < 0.3:
                first = under_way.pop(0)[0] + 1
            assert segment._map[:16] == key
            for _, at, payload in under_way:
                assert segment._map[at : at + len(payload)] == payload
    assert full > 1000


# A payload that outgrows the segment


def test_larger_segment_is_attached_and_the_old_one_given_back():
    async def main():
        async with listening() as side, Proxy(side.link.carrier.port) as proxy:
            async with Peer(proxy.listens):
                await side.sharing()
                before = proxy.carried
                sizes = []
                for size in (20 * KB, MB + 1, 2 * MB + 1, 8 * MB):
                    # The messages behind it wait.
                    sent = [os.urandom(size), b"small", os.urandom(20 * KB), b"small too"]
                    for payload in sent:
                        await side.send(payload)
                    assert await side.answers(4) == [answer(payload) for payload in sent]
                    sizes.append(side.link.peer.store._segment.size)
                assert proxy.carried - before < THRESHOLD
                assert (
                    sizes == sorted(set(sizes)) and side.link.peer.store._segment.size >= 32 * MB
                )
                assert maps() == (2, 3) and (await side.ask("state"))["maps"] == 2

    run(main)


@pytest.mark.parametrize("what", ["RLIMIT_NOFILE", "RLIMIT_AS"])
def test_segment_that_cannot_be_attached_loses_nothing(what):
    """The frame is dropped, and the message comes without the segment; its place in the window is
    free again."""

    async def main():
        async with listening(window=3) as side, Peer(side.link.carrier.port, window=3):
            await side.sharing()
            small = [os.urandom(20 * KB) for _ in range(5)]
            for payload in small:
                await side.send(payload)
            assert await side.answers(5) == [answer(payload) for payload in small]
            await side.ask("limit", what)
            size = side.link.peer.store._segment.size
            large = os.urandom(3 * MB)
            sent = [large, b"small", *small, large, b"small too", *small * 3]
            for payload in sent:
                await side.send(payload)
            await asyncio.wait_for(side.link.drain(), 10)
            assert await side.answers(len(sent)) == [answer(payload) for payload in sent]
            # The old segment is in use as before; there is no other try.
            assert side.link.shared > 5 + 15 and side.link.peer.store._segment.size == size
            assert side.link.resent and not side.link.dropped and not side.link.refused
            assert (await side.ask("state"))["maps"] == 2

    run(main)


@pytest.mark.parametrize("most", [0, PAGESIZE, 100 * KB], ids=["none", "a page", "some"])
def test_no_memory_for_a_segment(monkeypatch, most):
    async def main():
        async with listening() as side, Peer(side.link.carrier.port):
            await side.sharing()

            def some_memory(fd, offset, n):
                if offset + n > most:
                    raise OSError("no memory")
                fallocate(fd, offset, n)

            monkeypatch.setattr(os, "posix_fallocate", some_memory)
            sent = [os.urandom(20 * KB), b"small", os.urandom(MB)] * 5
            for payload in sent:
                await side.send(payload)
            assert await side.answers(15) == [answer(payload) for payload in sent]
            assert not side.link.dropped and not side.link.resent
            assert bool(side.link.shared) == (most == 100 * KB)

    fallocate = os.posix_fallocate

    run(main)


# Ends


@pytest.mark.parametrize("carrier", ["Tcp", "Listen"])
def test_killed_peer_leaves_nothing(carrier):
    """At any moment: this end gives back the mapped memory, and joins the next peer."""

    async def main():
        port = free_port()
        async with Side((Tcp if carrier == "Listen" else Listen)(LOCAL, port)) as side:
            for moment in range(5):
                async with Peer(port, carrier=carrier) as peer:
                    await side.connected()
                    if moment:
                        await until(
                            lambda: side.link.peer.store._offered or side.link.peer.store._segment
                        )
                    if moment > 1:
                        await side.sharing()
                        await side.send(os.urandom(MB), "echo")
                    if moment > 2:
                        await side.answers(1)
                        await until(lambda: maps() == (2, 3))
                    if moment > 3:
                        for _ in range(4):
                            side.broker.publish("to/echo", os.urandom(MB))
                    peer.process.send_signal(signal.SIGKILL)
                    await until(lambda: not side.link.connected)
                    assert maps() == (0, 0)
                side.got.clear()

    run(main)


def test_killed_processes_leave_nothing():
    """One of two, then the other: looked at from outside."""

    def taken(peer):
        """Return the bytes of the segments that the process has touched."""
        with open(f"/proc/{peer.process.pid}/smaps") as file:
            kb = re.findall(rf"{MEMFD}.*\n(?:[A-Z].*\n)*?Rss: *(\d+) kB", file.read())
        return sum(map(int, kb)) * KB

    async def main():
        for victim in (0, 1):
            port = free_port()
            async with Peer(port, carrier="Listen") as one, Peer(port, talks=True) as other:
                both = [one, other]
                await until(lambda: all(taken(peer) > 4 * MB for peer in both))
                both.pop(victim).process.kill()
                await until(lambda: maps(both[0].process.pid) == (0, 0))

    run(main)


def test_thousands_of_large_payloads():
    """Neither memory nor descriptors become more, at the end that gets them and sends them back.
    (This process does other things, too.)"""

    async def main():
        async with listening() as side, Peer(side.link.carrier.port) as peer:
            await side.sharing()
            payload = os.urandom(200 * KB)
            seen = []
            for n in (300, 3000):
                for _ in range(n):
                    await side.send(payload, "echo")
                    side.got.clear()
                await side.ask("data", payload)
                seen.append(await side.ask("state"))
                assert maps() == (2, 3)
            before, after = seen
            assert before["fds"] == after["fds"] and after["rss"] < before["rss"] + 5 * MB
            assert side.link.shared == 3302 and after["shared"] == 3300
            assert rss(peer.process.pid) < 100 * MB

    run(main)


def rss(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# The rest


def test_bad_arguments():
    for options, name in (
        ({"threshold": 255}, "threshold"),
        ({"threshold": 1024}, "max_size"),
        ({}, "max_size"),
        ({"threshold": 256, "window": 0}, "window"),
    ):
        with pytest.raises(ValueError, match=name):
            SharedLink(Broker(), Tcp(LOCAL, 1), **options)
    with pytest.raises(TypeError):
        SharedLink(Broker(), Tcp(LOCAL, 1), max_size=MB, wrong=1)


def test_example(tmp_path):
    """The example in docs/link.md prints the output shown there."""
    text = (ROOT / "docs" / "link.md").read_text()
    example = re.search(r"^```py\n(.*?)^```", text, re.S | re.M)[1]
    said = re.findall(r"print\(.*\)  # (.*)", example)
    file = tmp_path / "example.py"
    file.write_text(example.replace("8768", str(free_port())))
    done = subprocess.run(
        [sys.executable, file],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    file.unlink()
    assert done.stdout.splitlines() == said, done.stderr
