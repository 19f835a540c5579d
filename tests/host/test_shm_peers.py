"""SharedLink with peers that do not share, or break the rules."""

import asyncio
import contextlib
import os
from fcntl import F_ADD_SEALS, F_SEAL_SHRINK, fcntl
from mmap import PAGESIZE
from struct import pack

import pytest

from asyncio_alt.pubsub import FramedProtocol, Listen, Tcp
from asyncio_alt.pubsub.link import peer as link_peer
from asyncio_alt.pubsub.link import shm
from asyncio_alt.pubsub.link.handshake import answer as answer_call
from asyncio_alt.pubsub.link.handshake import call
from tests.host.shared import KB, LOCAL, MB, Peer, Side, listening, maps, open_files, run, until
from tests.host.shared import nothing_is_left as nothing_is_left
from tests.host.test_link import KINDS, Child, free_port

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
