"""SharedLink: two processes that share memory, and the state afterwards."""

import asyncio
import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import zlib
from fcntl import F_ADD_SEALS, F_SEAL_SHRINK, fcntl
from mmap import PAGESIZE
from struct import pack

import pytest

from asyncio_alt.pubsub import Broker, FramedProtocol, Listen, Tcp
from asyncio_alt.pubsub.link import peer as link_peer
from asyncio_alt.pubsub.link import shm
from asyncio_alt.pubsub.link.handshake import answer as answer_call
from asyncio_alt.pubsub.link.handshake import call
from asyncio_alt.pubsub.link.shm import SharedLink
from tests.host.test_link import DEVICE, KINDS, Child, free_port
from tests.parts import ahead
from tools.bootstrap import ROOT

if not shm.memfd_create:
    pytest.skip("no memfd_create(), so nothing is shared", allow_module_level=True)

LOCAL = "127.0.0.1"
KB = 1024
MB = 1024 * KB
THRESHOLD = 16 * KB
MEMFD = "memfd:asyncio_alt"

# The proxy and until() of the link's tests.
_scope = {}
for _file in ahead(DEVICE / "test_link_flow.py"):
    exec(compile(_file.read_text(), _file, "exec"), _scope)
Proxy, until = _scope["Proxy"], _scope["until"]

# The other process: it answers each message by its size and CRC, or as it is told.
PEER = """
import asyncio, json, os, resource, sys, zlib
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp
from asyncio_alt.pubsub.link.shm import SharedLink


def limit(what):
    # From here on, no more descriptors, or no more memory.
    kind = getattr(resource, what)
    most = resource.getrlimit(kind)[1]
    if what == "RLIMIT_NOFILE":
        n = os.dup(0)
        os.close(n)
    else:
        n = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 14000000
    resource.setrlimit(kind, (n, most))


def state():
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        resource.setrlimit(kind, resource.getrlimit(kind)[1:] * 2)
    return {
        "maps": open("/proc/self/maps").read().count("memfd:asyncio_alt"),
        "fds": len(os.listdir("/proc/self/fd")),
        "rss": int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize(),
        "shared": link.shared,
    }


async def main():
    global link
    how = json.loads(sys.argv[1])
    carrier = {"Tcp": Tcp, "Listen": Listen}[how.pop("carrier")]("127.0.0.1", how.pop("port"))
    kind = {"Link": Link, "SharedLink": SharedLink}[how.pop("kind")]
    broker = Broker()
    sub = broker.subscribe("to/#", policy="block")
    talks = how.pop("talks", False)
    filters = ["from/#"], ["to/#"]
    link = kind(broker, carrier, *filters[:: -1 if talks else 1], secret=b"secret", **how)
    link.BACKOFF = 0.01, 0.05
    async with link:
        await link.wait_connected()
        while talks:
            await broker.publish_wait("to/data", bytes(8000000))
        async for topic, payload in sub:
            if topic == "to/end":
                break
            elif topic == "to/limit":
                payload = limit(payload)
            elif topic == "to/state":
                payload = state()
            elif topic != "to/echo":
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                payload = [len(data), zlib.crc32(data)]
            await broker.publish_wait("from" + topic[2:], payload)
        await link.drain()

asyncio.run(main())
"""


class Peer:
    """The other process."""

    tmp = None  # its folder for temporary files

    def __init__(self, port, kind="SharedLink", **options):
        options = {"carrier": "Tcp", "max_size": 16 * MB - 1, "keepalive": 60, **options}
        if kind == "SharedLink":
            options.setdefault("threshold", THRESHOLD)
        self._args = json.dumps({"port": port, "kind": kind, **options})

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PEER,
            self._args,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": self.tmp},
            stderr=subprocess.PIPE,
        )
        return self

    async def __aexit__(self, *exc):
        if self.process.returncode is None:
            self.process.kill()
        err = (await self.process.communicate())[1].decode()
        assert exc[0] or not err, err


class Side:
    """This end: a broker, the messages it got, and its link."""

    def __init__(self, carrier, send=("to/#",), receive=("from/#",), **options):
        options = {"max_size": 16 * MB - 1, "keepalive": 60, "threshold": THRESHOLD, **options}
        self.broker = Broker()
        self.got = []
        self.broker.subscribe_call("from/#", lambda t, p: self.got.append((t[5:], p)))
        self.link = SharedLink(self.broker, carrier, send, receive, secret=b"secret", **options)
        self.link.BACKOFF = 0.01, 0.05

    async def __aenter__(self):
        self.link.start()
        return self

    async def __aexit__(self, *exc):
        await self.link.close()

    async def connected(self):
        await asyncio.wait_for(self.link.wait_connected(), 10)

    async def sharing(self):
        """Wait until both have proved that they are on one machine."""
        await self.connected()
        await until(lambda: self.link.peer.store._segment, "the peer does not attach")
        await self.ask("state")  # the answer comes once the peer has heard this end

    async def send(self, payload, name="data"):
        await asyncio.wait_for(self.broker.publish_wait("to/" + name, payload), 10)

    async def ask(self, name, payload=None):
        """Send a message; return the answer, once all before it have come."""
        await self.send(payload, name)
        await until(lambda: self.got and self.got[-1][0] == name, f"no answer to {name}")
        return self.got.pop()[1]

    async def answers(self, n):
        await until(lambda: len(self.got) >= n, "answers are missing")
        found = [payload for _, payload in self.got]
        self.got.clear()
        return found


def answer(payload):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return [len(data), zlib.crc32(data)]


def listening(**options):
    return Side(Listen(LOCAL, free_port()), **options)


def maps(pid="self"):
    """Return how many segments a process has mapped, and how many descriptors of them."""
    with open(f"/proc/{pid}/maps") as file:
        return file.read().count(MEMFD), open_files(MEMFD, pid)


def open_files(what, pid="self"):
    """Return how many descriptors a process has of files with that in their name."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # it is closed by now
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return sum(what in name for name in names)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """No name in the places for shared memory and files, nothing that this process has mapped."""
    monkeypatch.setattr(Peer, "tmp", str(tmp_path))
    before = os.listdir("/dev/shm")
    yield
    assert set(os.listdir("/dev/shm")) <= set(before) and not os.listdir(tmp_path)
    assert maps() == (0, 0)


def run(main, loop="asyncio"):
    return pytest.importorskip(loop).run(asyncio.wait_for(main(), 60))


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


# Peers that do not share


@pytest.mark.parametrize("calls", [True, False], ids=["it calls", "micropython calls"])
def test_micropython_at_the_other_end(tmp_path, calls):
    async def main():
        port = free_port()
        other = "Listen" if calls else "Tcp"
        async with Side((Tcp if calls else Listen)(LOCAL, port), threshold=256) as side:
            async with Child(tmp_path, f"{other}('{LOCAL}', {port})") as child:
                await side.connected()
                sent = KINDS + [bytes(n) for n in range(0, 1000, 50)] * 5
                for payload in sent:
                    await side.send(payload)
                assert await side.answers(len(sent)) == sent
                await side.send(0, "end")
                assert await child.result() == f"{len(sent) + 1} {len(sent)} 0 0\n"
                assert not side.link.shared and not side.link.refused and maps() == (0, 0)

    run(main)


class Elsewhere:
    """The module os, but of a process that is not here."""

    def getpid(self):
        return 2**22 + 1

    def __getattr__(self, name):
        return getattr(os, name)


@pytest.mark.parametrize("why", ["a Link", "threshold", "another machine", "not Linux"])
def test_peer_that_does_not_share_gets_everything(why, monkeypatch):
    options = {"kind": "Link"} if why == "a Link" else {}
    if why == "threshold":
        options["threshold"] = 8 * MB
    if why == "another machine":
        monkeypatch.setattr(shm, "os", Elsewhere())
    if why == "not Linux":
        monkeypatch.setattr(shm, "memfd_create", None)

    async def main():
        async with listening() as side, Peer(side.link.carrier.port, **options):
            await (side.sharing() if why == "threshold" else side.connected())
            await side.ask("data")
            sent = [b"small", os.urandom(MB), b"small too", os.urandom(4 * MB)] * 2
            for payload in sent:
                await side.send(payload, "echo")
            assert await side.answers(len(sent)) == sent
            assert not side.link.dropped and not side.link.refused and not side.link.resent
            # The threshold is that of the end that sends.
            assert side.link.shared == (4 if why == "threshold" else 0)

    run(main)


def test_line_that_loses_bytes_shares_nothing():
    class Lossy(Tcp):
        lossy = True

    class LossyListen(Listen):
        lossy = True

    async def main():
        port = free_port()
        one = Side(LossyListen(LOCAL, port), receive=["to/#"])
        async with one, Side(Lossy(LOCAL, port)) as other:
            got = []
            one.broker.subscribe_call("#", lambda t, p: got.append(p))
            for payload in (bytes(MB), b"small"):
                await other.connected()
                await other.send(payload)
            await until(lambda: got == [bytes(MB), b"small"])
            assert not other.link.shared and not one.link.peer.store._own

    run(main)


def test_wrong_secret_learns_nothing():
    async def main():
        async with listening() as side:
            for proof in (b"", b"\x21\x03" + bytes(32), bytes([19, 9, 0, 0]) + bytes(16)):
                await asyncio.sleep(0.01)
                reader, writer = await asyncio.open_connection(LOCAL, side.link.carrier.port)
                writer.write(b"\x12\x01\x01" + bytes(16) + proof)
                writer.write_eof()
                assert len(await asyncio.wait_for(reader.read(), 10)) in (0, 18)  # a challenge
                writer.close()
                assert maps() == (0, 0) and not side.link.peer.store._own

    run(main)


# A peer that breaks the rules


@contextlib.asynccontextmanager
async def pair(**options):
    """Both ends in this process: each attaches the other's segment, as in two processes."""
    side = listening(receive=["to/#"], **options)
    async with side, Side(Tcp(LOCAL, side.link.carrier.port)) as rude:
        await side.connected()
        yield side, rude


def test_places_that_are_none_are_refused():
    async def main():
        got = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: got.append(what))
        async with pair() as (side, rude):
            side.broker.subscribe_call("#", lambda t, p: got.append(p))
            head = b"\x0f\0\0\0\0\0\x04to/t"
            for i, frame in enumerate(
                (
                    head + pack("<II", 64, PAGESIZE),
                    head + pack("<II", 2**32 - 1, 1),
                    head + pack("<II", 0, 2**32 - 1),
                    head + pack("<II", 0, 1)[:7],
                    head + bytes(9),
                    head,
                    b"\x0f\0\0\0\0\0\xfft" + bytes(8),
                    b"\x0f\0\0\0\0\2\x04to/t" + pack("<II", 0, 16),  # a key is no JSON
                    b"\x0f\0\7\0\0\0\x04to/t" + pack("<II", 0, 16),
                    b"\x0f",
                    b"\x0d" + bytes(11),
                    b"\x0e\1",
                )
            ):
                await side.connected()
                await until(
                    lambda: side.link.peer.store._peer_segment and rude.link.peer.store._segment
                )
                await until(lambda: not side.link.peer.store._offered)
                rude.link.peer.conn.send_frame(frame)
                await until(lambda: side.link.refused == i + 1, frame)
                await until(lambda: not rude.link.connected)
                rude.link.peer.session = os.urandom(8)  # both begin anew with their numbers
            assert not got

    run(main)


def test_payload_that_is_too_large_is_refused():
    async def main():
        async with pair(max_size=100 * KB) as (side, rude):
            await until(lambda: rude.link.peer.store._segment)
            await rude.send(bytes(50 * KB))
            await rude.link.drain()
            await until(lambda: len(side.link.peer.store._peer_segment) > 200 * KB)
            rude.link.peer.window.got = lambda number: 0  # accept any acknowledgement
            for n, refused in ((100 * KB - 4, 0), (100 * KB + 100, 1)):
                number = pack(">H", side.link.peer.window.expected)
                frame = b"\x0f" + number + bytes(3) + b"\x04to/t" + pack("<II", 64, n)
                rude.link.peer.conn.send_frame(frame)
                await until(lambda: side.link.refused == refused and side.link.received > 1)

    run(main)


def test_segments_that_are_none_are_not_attached(tmp_path):
    key = bytes(range(16))
    content = key + bytes(PAGESIZE - 16)
    with contextlib.ExitStack() as stack:

        def memfd(content, seals=F_SEAL_SHRINK):
            file = stack.enter_context(open(os.memfd_create("t", os.MFD_ALLOW_SEALING), "r+b", 0))
            file.write(content)
            fcntl(file, F_ADD_SEALS, seals)
            return file.fileno()

        regular = stack.enter_context(open(tmp_path / "file", "w+b", 0))
        regular.write(content)
        (tmp_path / "file").unlink()
        os.mkfifo(tmp_path / "fifo")
        fifo = os.open(tmp_path / "fifo", os.O_PATH)  # to open it any other way would wait
        stack.callback(os.close, fifo)
        (tmp_path / "fifo").unlink()
        good = memfd(content)
        assert shm._attach(os.getpid(), good, PAGESIZE, PAGESIZE, key)[:] == content
        for pid, fd, size, most in (
            (0, good, PAGESIZE, PAGESIZE),
            (os.getpid(), 99999, PAGESIZE, PAGESIZE),
            (os.getpid(), regular.fileno(), PAGESIZE, PAGESIZE),
            (os.getpid(), fifo, PAGESIZE, PAGESIZE),
            (os.getpid(), memfd(content, 0), PAGESIZE, PAGESIZE),  # may be cut off
            (os.getpid(), memfd(bytes(PAGESIZE)), PAGESIZE, PAGESIZE),  # another key
            (os.getpid(), good, PAGESIZE + 1, 2 * PAGESIZE),  # larger than it is
            (os.getpid(), good, PAGESIZE, PAGESIZE - 1),  # larger than it may be
            (os.getpid(), good, 0, PAGESIZE),  # for mmap() that is all there is
            (os.getpid(), good, 15, PAGESIZE),
        ):
            with pytest.raises((OSError, ValueError)):
                shm._attach(pid, fd, size, most, key)
        assert (open_files("/memfd:t "), open_files(str(tmp_path))) == (3, 2)


@pytest.mark.parametrize("calls", [True, False], ids=["it calls", "the peer calls"])
def test_what_this_end_says_proves_nothing_of_the_peer(calls):
    """A peer that is elsewhere sends all back: it attaches nothing, and is not believed."""

    class Mirror(FramedProtocol):
        lossy = False

        def send(self, frame, rest=b""):
            self.send_frame(frame, rest)

        def frame_received(self, view):
            if view[0] == 9 and len(view) > 3 or view[0] == 13:
                self.send_frame(bytes(view))
                heard.append(view[0])
            if view[0] == 13:
                self.send_frame(b"\x0e\1")
            if view[0] in (8, 14, 15):
                heard.append((view[0], view[1] if view[0] == 14 else 0))

    async def main():
        mirror = Mirror(16 * MB)
        carrier = (Listen if calls else Tcp)(LOCAL, free_port())
        side = Side((Tcp if calls else Listen)(LOCAL, carrier.port))
        # As a mirror it has the other's session, too.
        state = pack("<8s8sHHIHI", bytes(8), bytes(8), 0, 0, 16 * MB, 16, 60000)
        async with side:
            while not mirror.transport:
                with contextlib.suppress(OSError):
                    server = await carrier.open(lambda: mirror)
                await asyncio.sleep(0.01)
            said = b"secret", lambda conn: side.link.peer.session + state[8:]
            await (answer_call if calls else call)(mirror, *said)
            mirror.start_dispatch()
            await side.connected()
            await until(lambda: (14, 0) in heard)
            assert heard[:2] == [9, 13]
            await side.send(bytes(MB))
            await until(lambda: (8, 0) in heard)
            assert not side.link.shared and not side.link.peer.store._peer_segment
            assert not side.link.peer.store._segment
            mirror.transport.abort()
            if server:
                server.close()

    heard = []
    run(main)


def test_segment_cannot_be_cut_off():
    async def main():
        async with pair() as (side, rude):
            await until(lambda: rude.link.peer.store._segment)
            for n in (0, 2 * PAGESIZE):
                with pytest.raises(PermissionError):
                    os.ftruncate(rude.link.peer.store._segment.fd, n)

    run(main)


def test_payload_is_copied_before_it_is_looked_at(monkeypatch):
    """So the peer may write to it meanwhile."""
    payload = ["x" * 20 * KB]

    def scribble(kind, data):
        rude.link.peer.store._segment._map[64:] = b"\xff" * (
            rude.link.peer.store._segment.size - 64
        )
        return decode(kind, data)

    async def main():
        nonlocal rude
        async with pair() as (side, rude):
            got = []
            side.broker.subscribe_call("#", lambda t, p: got.append(p))
            await until(lambda: rude.link.peer.store._segment)
            await rude.send(payload)
            await until(lambda: got and not rude.link.peer.store._offered)
            monkeypatch.setattr(link_peer, "decode", scribble)
            await rude.send(payload)
            await until(lambda: len(got) == 2)
            assert got == [payload] * 2 and rude.link.shared == 2

    rude = None
    decode = link_peer.decode
    run(main)


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
