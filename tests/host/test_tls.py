"""MicroPython writes, over TLS and without, to a peer on CPython that is slow to read.

WRITES_SEEDS=100 in the environment tries so many orders of sizes in each way of writing.
"""

import ast
import base64
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.host.test_link import TREE, tls
from tools.bootstrap import ROOT
from tools.targets.unix import micropython

SEEDS = int(os.environ.get("WRITES_SEEDS", 2))
TOTAL = 700_000  # bytes; the sockets hold a tenth of it

WRITER = """
import random
import asyncio_alt as asyncio
from array import array

{head}
SSL = CONTEXT if {safe} else None
HOST = "localhost" if {safe} else None
pos = 0

def cut():
    # The next bytes; the most of them in small pieces, some larger than a record of TLS.
    global pos
    n = random.choice((1, 2, 100, 100, 600, 5000, 17000, 70000))
    n = min(random.randint(1, n), {total} - pos)
    data = PATTERN[pos % 65521 : pos % 65521 + n]
    pos += n
    kind = random.randint(0, 3)
    if kind == 1:
        return bytearray(data)
    if kind == 2:
        return memoryview(data)
    if kind == 3 and not n & 1:
        return memoryview(array("H", data))
    return data

def shrink(s):
    s.setsockopt(1, 7, 8192)  # SO_SNDBUF

async def stream():
    r, w = await asyncio.open_connection("127.0.0.1", {port}, SSL, HOST)
    shrink(w.raw or w.s)
    return w

async def one(copy):
    w = await stream()
    while pos < {total}:
        for _ in range(random.randint(1, 20) if copy else 1):
            w.write(cut(), copy)
        await w.drain()
    await w.wait_closed()

async def tasks():
    w = await stream()

    async def task():
        while pos < {total}:
            w.write(cut())
            if random.randint(0, 2):
                await w.drain()
            await asyncio.sleep_ms(0)

    async def cancelled():
        while pos < {total}:
            t = asyncio.create_task(w.drain())
            await asyncio.sleep_ms(random.randint(0, 3))
            t.cancel()

    await asyncio.gather(task(), task(), task(), cancelled())
    await w.drain()
    await w.wait_closed()

class Writer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.full = False
        self.over = asyncio.Event()
        shrink(transport._raw or transport._s)
        self.more()

    def more(self):
        # A few pieces more than pause_writing() allows.
        more = random.randint(1, 9)
        while more and pos < {total}:
            self.transport.write(cut())
            if self.full:
                more = 0 if self.transport.get_write_buffer_size() > 60000 else more - 1
        if pos == {total}:
            self.transport.close()

    def pause_writing(self):
        self.full = True

    def resume_writing(self):
        self.full = False
        self.more()

    def connection_lost(self, exc):
        self.over.set()

async def protocol():
    t, p = await asyncio.create_connection(
        Writer, "127.0.0.1", {port}, ssl=SSL, server_hostname=HOST
    )
    await p.over.wait()

random.seed({seed})
PATTERN = bytes(i * 7 + (i >> 8) & 255 for i in range(65521))
PATTERN += PATTERN + PATTERN
asyncio.run({way})
print("written", pos)
"""

PATTERN = bytes(i * 7 + (i >> 8) & 255 for i in range(65521))

# TLS on a connection that is open: one line is plain, then each line is echoed

STARTS = """
import asyncio_alt as asyncio

{head}
async def client():
    reader, writer = await asyncio.open_connection("127.0.0.1", {port})
    writer.write(b"STARTTLS\\n")
    assert await reader.readline() == b"go\\n"
    await writer.start_tls(CONTEXT, server_hostname="localhost")
    for size in (1, 20000):
        writer.write(bytes(size) + b"\\n")
        await writer.drain()
        assert await reader.readuntil() == bytes(size) + b"\\n"
    await writer.wait_closed()

async def server():
    async def cb(reader, writer):
        assert await reader.readline() == b"STARTTLS\\n"
        writer.write(b"go\\n")
        await writer.start_tls(CONTEXT)
        async for line in reader:
            writer.write(line)
            await writer.drain()
        await writer.wait_closed()
        over.set()

    over = asyncio.Event()
    async with await asyncio.start_server(cb, "127.0.0.1", {port}):
        print("ready")
        await over.wait()

asyncio.run({way}())
print("ended")
"""


def client(port, context):
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.sendall(b"STARTTLS\n")
        assert s.recv(3) == b"go\n"
        with context.wrap_socket(s, server_hostname="localhost") as s, s.makefile("rb") as f:
            for size in (1, 20000):
                s.sendall(bytes(size) + b"\n")
                assert f.readline() == bytes(size) + b"\n"


def server(listener, context):
    s, _ = listener.accept()
    with s:
        s.settimeout(20)
        assert s.recv(9) == b"STARTTLS\n"
        s.sendall(b"go\n")
        with context.wrap_socket(s, server_side=True) as s, s.makefile("rb") as f:
            for line in f:
                s.sendall(line)


@pytest.mark.parametrize("way", ["client", "server"])
def test_tls_starts_on_a_connection_that_is_open(tmp_path, way):
    head, context = tls(way == "server")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        if way == "client":
            listener.listen()
        else:
            listener.close()
        script = STARTS.format(head=head, port=port, way=way)
        with subprocess.Popen(
            [micropython(), "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"},
        ) as process:
            if way == "client":
                server(listener, context)
            else:
                assert process.stdout.readline() == "ready\n"
                client(port, context)
            assert process.stdout.read() == "ended\n"


def reads(server, context, seed, got):
    s, _ = server.accept()
    if context:
        s = context.wrap_socket(s, server_side=True)
    rng = random.Random(seed)
    while data := s.recv(rng.choice((100, 5000, 30000))):
        got += data
        if rng.random() < 0.1:
            time.sleep(0.005)
    s.close()


@pytest.mark.parametrize("safe", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("way", ["one(True)", "one(False)", "tasks()", "protocol()"])
def test_every_byte_is_sent_once_in_order(tmp_path, way, safe):
    head, context = tls(False) if safe else ("", None)
    want = (PATTERN * (TOTAL // len(PATTERN) + 1))[:TOTAL]
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        server.bind(("127.0.0.1", 0))
        server.listen()
        for seed in range(SEEDS):
            got = bytearray()
            thread = threading.Thread(target=reads, args=(server, context, seed, got))
            thread.start()
            script = WRITER.format(
                head=head,
                safe=safe,
                total=TOTAL,
                port=server.getsockname()[1],
                seed=seed,
                way=way,
            )
            done = subprocess.run(
                [micropython(), "-X", "heapsize=8m", "-c", script],
                capture_output=True,
                text=True,
                timeout=60,
                cwd=tmp_path,
                env={**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"},
            )
            assert done.stdout == f"written {TOTAL}\n", done.stderr
            thread.join(20)
            wrong = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), None)
            assert len(got) == TOTAL and wrong is None, (len(got), wrong, seed)


# Frames that wait for their turn, on each CPython that is here: TLS of 3.10 goes on while paused

FRAMES = """
import asyncio, ssl, sys
from asyncio_alt.pubsub import FramedProtocol

COUNT = 200
got = []
bad = []

def frame(i):
    return i.to_bytes(2, "big") + bytes(i % 7 * 600)

class Server(FramedProtocol):
    busy = False

    def connection_made(self, transport):
        super().connection_made(transport)
        self.start_dispatch()

    async def frame_received(self, view):
        if self.busy:
            bad.append("two at once")
        self.busy = True
        await asyncio.sleep(0.001 if len(got) % 5 == 0 else 0)
        self.busy = False
        got.append(bytes(view))

async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: bad.append(context["message"]))
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(sys.argv[1])
    here = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    here.check_hostname = False
    here.verify_mode = ssl.CERT_NONE
    server = await loop.create_server(lambda: Server(5000), "127.0.0.1", 0, ssl=there)
    port = server.sockets[0].getsockname()[1]
    transport, client = await loop.create_connection(
        lambda: FramedProtocol(5000), "127.0.0.1", port, ssl=here
    )
    for i in range(COUNT):
        client.send_frame(frame(i))
        await client.drain()
    for _ in range(500):
        if len(got) == COUNT or bad:
            break
        await asyncio.sleep(0.01)
    transport.abort()
    server.close()
    print(bad or got == [frame(i) for i in range(COUNT)] or len(got))

asyncio.run(main())
"""


def cpython(version):
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no CPython {version}")
    return found[-1]


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_frames_over_tls_wait_for_their_turn(tmp_path, version):
    scope = {}
    for node in TREE.body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("CERT", "KEY"):
            scope[node.targets[0].id] = ast.literal_eval(node.value)
    cert = ssl.DER_cert_to_PEM_cert(base64.b64decode(scope["CERT"]))
    key = "-----BEGIN EC PRIVATE KEY-----\n%s\n-----END EC PRIVATE KEY-----\n"
    file = tmp_path / "certificate.pem"
    file.write_text(cert + key % scope["KEY"])
    done = subprocess.run(
        [cpython(version), "-c", FRAMES, file],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "True\n", done.stdout + done.stderr
