# Programs that use the whole package, each from its start to its end, for MicroPython's unix port:
# test_every_step.py has something fail at each step. Each raises unless all went right, and
# closes what it has opened.

import socket
from time import sleep_ms

from micropython import schedule

from asyncio_alt import pubsub

HOST = "127.0.0.1"


def udp():
    steps.step_over()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port = free_port()
    s.bind(socket.getaddrinfo(HOST, port)[0][-1])
    return s, port


async def nothing():
    pass


async def tasks():
    event = asyncio.Event()
    over = asyncio.Event()
    lock = asyncio.Lock()
    room = asyncio.Semaphore(1)
    queue = asyncio.Queue(1)

    async def gives(n, flag):
        await event.wait()
        async with lock:
            async with room:
                await asyncio.sleep_ms(0)
        try:
            await queue.put(n)
            await flag.wait()
        finally:
            await asyncio.sleep_ms(0)
        return n

    async def takes():
        await asyncio.sleep_ms(0)
        event.set()
        got = [await queue.get(), await queue.get()]
        for flag in flags:
            flag.set()
        over.set()
        await asyncio.sleep_ms(0)
        queue.shutdown()
        return got

    async def waits():
        try:
            await over.wait()
            await queue.get()
        except asyncio.QueueShutDown:
            return "over"

    flags = [asyncio.ThreadSafeFlag(), asyncio.ThreadSafeFlag()]
    found = await asyncio.gather(gives(1, flags[0]), gives(2, flags[1]), takes(), waits())
    assert found == [1, 2, [1, 2], "over"], found
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)
    except asyncio.TimeoutError:
        pass


async def groups():
    future = asyncio.Future()
    changed = asyncio.Condition()
    meet = asyncio.Barrier(2)

    async def sets():
        await meet.wait()
        future.set_result(1)
        async with changed:
            changed.notify_all()
        return 2

    async def waits():
        async with changed:
            await meet.wait()
            await changed.wait()
        return await future

    async with asyncio.TaskGroup() as group:
        made = [group.create_task(sets()), group.create_task(waits())]
    assert (await made[0], await made[1]) == (2, 1)
    try:
        async with asyncio.timeout_ms(1):
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
    except asyncio.TimeoutError:
        pass
    task = asyncio.create_task(nothing())
    done, left = await asyncio.wait([task], timeout=1)
    assert len(done) == 1 and not left
    async for task in asyncio.as_completed([nothing()]):
        await task
    await asyncio.shield(nothing())


def closes(stream):
    # Where there may be no memory for wait_closed().
    stream.s.close()
    if stream.raw:
        stream.raw.close()


async def echo(tls=None, client=None):
    async def serve(reader, writer):
        try:
            while True:
                line = await reader.readline()
                if not line:
                    break
                writer.write(line)
                await writer.drain()
        finally:
            closes(writer)

    port = free_port()
    server = await asyncio.start_server(serve, HOST, port, ssl=tls)
    try:
        reader, writer = await asyncio.open_connection(HOST, port, client, "localhost")
        try:
            for line in (b"a\n", b"b" * 100 + b"\n"):
                writer.write(line)
                await writer.drain()
                assert await reader.readexactly(len(line)) == line
            await writer.wait_closed()
        finally:
            closes(writer)
    finally:
        server.close()
    await server.wait_closed()
    await asyncio.sleep_ms(1)


async def tls():
    await echo(SERVER_CONTEXT, CLIENT_CONTEXT)


class Noted(asyncio.DatagramProtocol):
    def __init__(self):
        self.came = asyncio.Event()
        self.ended = asyncio.Event()
        self.got = self.error = None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.got = data
        self.came.set()

    def error_received(self, exc):
        self.error = exc
        self.came.set()

    def connection_lost(self, exc):
        self.error = self.error or exc
        self.came.set()
        self.ended.set()


async def datagrams():
    loop = asyncio.get_event_loop()
    port = free_port()
    a, to = await loop.create_datagram_endpoint(Noted, (HOST, port))
    try:
        b, _ = await loop.create_datagram_endpoint(Noted, None, (HOST, port))
        b.sendto(b"datagram")
        await to.came.wait()
        if to.error:
            raise to.error
        assert to.got == b"datagram"
        b.close()
        await b._p.ended.wait()
    finally:
        a.close()
        await to.ended.wait()


async def names():
    server, port = udp()

    def answers():
        # A name server that has one address of each kind.
        while True:
            packet, to = server.recvfrom(512)
            if len(packet) < 12:
                break
            question = packet[12:]
            data = bytes(range(1, 5)) if question[-3] == 1 else bytes(16)
            record = b"\xc0\x0c" + question[-4:] + b"\0\0\0\x3c\0" + bytes((len(data),)) + data
            server.sendto(packet[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question + record, to)
        server.close()
        ended.append(True)

    ended = []
    steps.step_over()
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect(socket.getaddrinfo(HOST, port)[0][-1])
    start_new_thread(answers, ())
    try:
        asyncio.set_nameserver(HOST, port)
        found = await asyncio.get_event_loop().getaddrinfo("a.example", 80, type=1)
        assert [len(info[-1]) for info in found] == [16, 28], found
    finally:
        end.send(b"end")
        end.close()
        while not ended:
            sleep_ms(1)


async def broker():
    b = pubsub.Broker()
    got = []
    b.publish("a/b", 1, retain=True)
    call = b.subscribe_call("a/#", lambda topic, payload: got.append(payload))
    try:
        async with b.subscribe("a/+", maxlen=1, policy="block") as sub:
            assert await sub.get() == ("a/b", 1)
            waits = asyncio.create_task(sub.get())
            await asyncio.sleep_ms(0)
            b.publish("a/c", 2)
            assert await waits == ("a/c", 2)
            b.publish("a/c", 3)
            late = asyncio.create_task(b.publish_wait("a/d", 4))
            await asyncio.sleep_ms(0)
            assert [await sub.get(), await sub.get()] == [("a/c", 3), ("a/d", 4)]
            await late
    finally:
        call.close()
    assert got == [1, 2, 3, 4], got
    assert not b.snapshot()["subscribers"]


async def publisher():
    b = pubsub.Broker()
    p = pubsub.Publisher(b, "t", 8, 4)

    def interrupt(data):
        assert p.put(int(data)) and p.put_from(data)

    try:
        async with b.subscribe("t") as sub:
            for data in (b"1", b"2"):
                schedule(interrupt, data)
            got = []
            while len(got) < 4:
                got.append((await sub.get())[1])
        assert got == [1, b"1", 2, b"2"], got
    finally:
        p.close()


class Quick(pubsub.Link):
    BACKOFF = 0.001, 0.002
    GREETING = 0.2


async def link():
    port = free_port()
    here, there = pubsub.Broker(), pubsub.Broker()
    sends = Quick(here, pubsub.Tcp(HOST, port), ["t"], secret=b"s")
    takes = Quick(there, pubsub.Listen(HOST, port), [], ["t"], secret=b"s")
    got = [None] * 20
    n = 0

    def note(topic, payload):
        nonlocal n
        got[n] = payload
        n += 1

    there.subscribe_call("t", note)
    try:
        takes.start()
        sends.start()
        for i in range(6):
            while sends.put("t", i):
                await asyncio.sleep_ms(1)
            if i in (2, 4):
                sends.conn.transport.abort()  # as if the line had been cut
        await sends.drain()
        await asyncio.sleep_ms(1)
        assert got[:n] == list(range(6)), got
    finally:
        await sends.close()
        await takes.close()
