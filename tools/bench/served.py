"""A web server on the unix port, of the library microdot, and clients of it on this PC."""

import contextlib
import select
import socket
import tempfile
import time
from pathlib import Path

from tools import Problem
from tools.bootstrap import ROOT
from tools.build import source
from tools.targets.child import free_port, running
from tools.targets.unix import micropython

_MICRODOT = "microdot", "2.7.0"

_SERVER = """
import asyncio
from microdot import Microdot
from microdot.websocket import with_websocket

# microdot leaves the backlog at 5: when more clients come at once, the kernel lets some of them
# try again after a second, or resets their connection.
start_server = asyncio.start_server
asyncio.start_server = lambda *args, **options: start_server(*args, backlog=64, **options)

app = Microdot()

@app.get("/hello")
async def hello(request):
    return "hello"

@app.get("/square/<int:n>")
def square(request, n):
    return {"n": n, "square": n * n}

@app.post("/length")
async def length(request):
    body = await request.stream.readexactly(request.content_length)
    return {"length": len(body), "sum": sum(body)}

@app.get("/parts/<int:n>/<int:size>")
async def parts(request, n, size):
    class Parts:
        left = n
        def __aiter__(self):
            return self
        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            await asyncio.sleep_ms(0)
            return "%d\\n" % self.left * size
    return Parts()

@app.get("/fails")
async def fails(request):
    raise ValueError("on purpose")

@app.get("/echo")
@with_websocket
async def echo(request, ws):
    while True:
        await ws.send(await ws.receive())

@app.get("/stop")
async def stop(request):
    app.shutdown()
    return "stopped"

async def main():
    server = asyncio.create_task(app.start_server(host="127.0.0.1", port=PORT))
    while not app.server:
        await asyncio.sleep_ms(1)
    print("serving")
    await server
    await asyncio.sleep_ms(100)  # for the answer to /stop

asyncio.run(main())
print("ended with", asyncio.core.__name__[:-5])
"""

INSTALL = "import asyncio_alt\nasyncio_alt.install()\n"


def microdot() -> Path:
    """Return the root of microdot's sources; raises Unavailable."""
    return source.sources_from_pypi(*_MICRODOT)


@contextlib.contextmanager
def serving(head: str = "", binary: str | None = None, path: tuple = (ROOT,)):
    """Run the server; yield its port and its process, which is killed at the end.

    head: goes ahead of its script
    binary: the unix port (default: as for the target unix)
    path: folders that it imports from
    """
    port = free_port()
    path = ":".join([f"{microdot()}/src", *map(str, path), ".frozen"])
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "server.py")
        script.write_text(f"{head}PORT = {port}\n{_SERVER}")
        command = ["env", f"MICROPYPATH={path}", str(binary or micropython()), script]
        with running(command) as process:
            if process.stdout.readline() != b"serving\n":
                raise Problem(f"the server does not start: {process.stderr.read().decode()}")
            yield port, process


def measure(clients: int, requests: int, **server) -> tuple[list[float], float]:
    """Send requests to a server from several clients at once; return how long each request took,
    and how long all did together, in us. server: as for serving()"""
    with serving(**server) as (port, _):
        _requests(port, clients, requests // 10)  # to warm up
        begin = time.perf_counter()
        return _requests(port, clients, requests), (time.perf_counter() - begin) * 1e6


def _requests(port, clients, requests):
    # By hand, since a client of the standard library takes more time than the server.
    took = []
    poll = select.epoll()
    running = {}  # fileno to [socket, when its request was begun, received bytes]

    def begin():
        it = socket.socket()
        it.setblocking(False)
        running[it.fileno()] = [it, time.perf_counter(), b""]
        it.connect_ex(("127.0.0.1", port))
        poll.register(it, select.EPOLLOUT)

    while len(took) < requests:
        while len(running) < min(clients, requests - len(took)):
            begin()
        for number, event in poll.poll():
            client = running[number]
            if event & select.EPOLLOUT:
                client[0].send(b"GET /hello HTTP/1.0\r\n\r\n")
                poll.modify(number, select.EPOLLIN)
                continue
            received = client[0].recv(4096)
            client[2] += received
            if not received:
                took.append((time.perf_counter() - client[1]) * 1e6)
                if not client[2].endswith(b"\r\n\r\nhello"):
                    raise Problem(f"microdot answers {client[2]!r}")
                del running[number]
                # close() does not, while a process that another thread starts has the socket.
                poll.unregister(number)
                client[0].close()
    return took
