# with: tasks, links
# Links whose frames are sealed. tests/host/test_link.py runs the same on CPython.

import asyncio_alt as asyncio
from asyncio_alt.pubsub import Listen, Tcp
from asyncio_alt.pubsub.link.handshake import Refused


def pair(one=True, other=True, **options):
    # What each end says of integrity.
    port = free_port()
    return (
        Side(Listen(HOST, port), integrity=one, **options),
        Side(Tcp(HOST, port), integrity=other, **options),
    )


@needs("sockets")
async def test_both_ends_seal_or_none_does():
    for one, other, name in ((True, True, ""), (True, True, "n"), (False, False, "n")):
        a, b = pair(one, other, name=name)
        async with a.link, b.link:
            await connected(a, b)
            for i in range(20):
                await a.broker.publish_wait("a", i)
                await b.broker.publish_wait("b", bytes(i))
            await asyncio.wait_for(a.link.drain(), 3)
            await asyncio.wait_for(b.link.drain(), 3)
            assert len(a.got) == len(b.got) == 40 and not a.link.refused and not b.link.refused
    why = "integrity=True at one end only"  # a caller with a name is told
    for one, other, name in ((True, False, "n"), (False, True, "n"), (True, False, "")):
        a, b = pair(one, other, name=name)
        a.broker.publish("r", 1, retain=True)
        async with a.link, b.link:
            await until(lambda: a.link.refused)
            assert not b.got and not a.link.connected
            if name:
                await until(lambda: isinstance(b.link.error, Refused))
                assert why in str(b.link.error), b.link.error


def flipped(at):
    def change(data, before):
        n = at % len(data)
        return data[:n] + bytes((data[n] ^ 1,)) + data[n + 1 :]

    return change


# The first byte is the frame's length, which is a change of what the frame is, too.
CHANGES = [flipped(at) for at in (1, 2, 6, 9, 12, -12, -9, -1)]
CHANGES.append(lambda data, before: data * 2)
CHANGES.append(lambda data, before: before)
CHANGES.append(lambda data, before: before + data)
CHANGES.append(lambda data, before: b"")


@needs("sockets")
async def test_frame_that_is_changed_repeated_or_dropped_ends_the_connection():
    a, b = pair(window=4)
    async with a.link, b.link:
        sent = 0
        for change in CHANGES:
            await connected(a, b)
            transport = b.link.peer.conn.transport
            write = transport.write
            before = b""
            changed = False

            def tampered(data):
                nonlocal before, changed
                data = bytes(data)
                if before and not changed:
                    changed = True
                    data = change(data, before)
                else:
                    before = data
                if data:
                    write(data)

            transport.write = tampered
            refused = a.link.refused
            for _ in range(3):
                while b.link.put("t", b"%d" % sent):
                    await asyncio.sleep(0.001)
                sent += 1
                await asyncio.sleep(0.002)
            await until(lambda: a.link.refused > refused)
            await until(lambda: b.link.peer.conn and b.link.peer.conn.transport is not transport)
        await connected(a, b)
        await asyncio.wait_for(b.link.drain(), 3)
        assert [p for _, p in a.got] == [b"%d" % i for i in range(sent)], a.got


@needs("sockets")
async def test_frames_of_another_connection_or_direction_are_refused():
    a, b = pair()
    async with a.link, b.link:
        for mirror in True, False:
            await connected(a, b)
            conn = a.link.peer.conn
            heard = []
            transport = b.link.peer.conn.transport
            write = transport.write
            transport.write = lambda data: heard.append(bytes(data)) or write(data)
            await b.broker.publish_wait("t", mirror)
            await asyncio.wait_for(b.link.drain(), 3)
            if mirror:
                transport.write = write
                refused = b.link.refused
                conn.transport.write(heard[0])  # it is sent back
                await until(lambda: b.link.refused > refused)
            else:
                conn.transport.abort()
                await until(lambda: a.link.peer.conn not in (conn, None))
                await connected(a, b)
                refused = a.link.refused
                b.link.peer.conn.transport.write(heard[0])
                await until(lambda: a.link.refused > refused)
            await until(lambda: a.link.peer.conn is not conn)
        assert [p for _, p in a.got] == [True, False]
