"""A server without a free descriptor backs off, and serves again when one is free."""

import os
import resource
import socket
import subprocess

import pytest

from tools.bootstrap import ROOT
from tools.targets.unix import micropython

# It takes all descriptors but the client's own, so that none is left for accept().
SCRIPT = """
import asyncio_alt as asyncio
from asyncio_alt import core
import socket, sys

looks = 0

async def serve(reader, writer):
    writer.write(b"served")
    await writer.drain()
    await writer.wait_closed()

class P(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"served")
        transport.close()

async def main():
    global looks
    reports = []
    asyncio.get_event_loop().set_exception_handler(lambda _, c: reports.append(c["exception"]))
    if sys.argv[1] == "streams":
        server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[2]))
    else:
        server = await asyncio.create_server(P, "127.0.0.1", int(sys.argv[2]))
    ready = server._ready

    def count(ev):
        global looks
        looks += 1
        ready(ev)

    server._ready = count
    client = socket.socket()
    addr = socket.getaddrinfo("127.0.0.1", int(sys.argv[2]))[0][-1]
    taken = []
    try:
        while True:
            taken.append(socket.socket())
    except OSError as er:
        pass
    client.connect(addr)
    ticks = 0
    while ticks < 20:  # others are served
        await asyncio.sleep_ms(5)
        ticks += 1
    print(looks, [er.errno for er in reports])
    while taken:
        taken.pop().close()
    reader = asyncio.StreamReader(client)
    client.setblocking(False)
    print(await asyncio.wait_for(reader.read(), 5), len(reports))

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["streams", "protocol"])
def test_server_without_descriptors_backs_off_and_serves_again(tmp_path, kind):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    done = subprocess.run(
        [micropython(), script, kind, str(port)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)),
    )
    # One try in 100 ms, reported once (EMFILE); and then the client is served.
    assert done.stdout == "1 [24]\nb'served' 1\n", done.stdout + done.stderr
