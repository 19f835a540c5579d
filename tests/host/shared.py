"""Two processes that share memory, for tests."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import zlib

import pytest

from asyncio_alt.pubsub import Broker, Listen
from asyncio_alt.pubsub.link import shm
from asyncio_alt.pubsub.link.shm import SharedLink
from tests.host.test_link import DEVICE, free_port
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
