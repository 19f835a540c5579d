"""Link on CPython, what tests/device/test_link.py proves on MicroPython; and between the two."""

import ast
import asyncio
import os
import re
import socket
import subprocess
import sys

import pytest

from asyncio_alt.pubsub import Broker, Link, Listen, Tcp
from tools import targets
from tools.bootstrap import ROOT
from tools.targets.unix import micropython

DEVICE = ROOT / "tests" / "device"
FILE = DEVICE / "test_link.py"
TREE = ast.parse(FILE.read_text())
NAMES = [n.name for n in TREE.body if getattr(n, "name", "").startswith("test_")]


@pytest.mark.parametrize("name", NAMES)
def test_on_cpython(name):
    scope = {}
    for file in (DEVICE / "harness.py", FILE):
        exec(compile(file.read_text(), file, "exec"), scope)
    scope["_run"](scope[name])


# MicroPython at one end, CPython at the other: the calling end is the child's or ours

ECHO = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp

CARRIER = {carrier}

async def main():
    broker = Broker()
    sub = broker.subscribe("to/#", policy="block")
    link = Link(broker, CARRIER, ["from/#"], ["to/#"], secret=b"secret", window=32, keepalive=1)
    link.BACKOFF = 0.01, 0.05
    async with link:
        async for topic, payload in sub:
            # What came goes back; "end" ends it.
            if topic == "to/end":
                break
            await broker.publish_wait("from/" + topic[3:], payload, retain=topic == "to/kept")
        await link.drain()
    print(link.received, link.delivered, link.dropped, link.refused)

asyncio.run(main())
"""


class Child:
    """MicroPython's unix port in a process of its own, which runs ECHO."""

    def __init__(self, folder, carrier):
        self._script = ECHO.format(carrier=carrier)
        self._folder = folder

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(
            micropython(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env={**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"},
        )
        self.process.stdin.write(self._script.encode())
        self.process.stdin.write_eof()
        return self

    async def __aexit__(self, *exc):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def result(self):
        out, err = await asyncio.wait_for(self.process.communicate(), 10)
        assert self.process.returncode == 0, err.decode()
        return out.decode()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


KINDS = [
    b"",
    b"\0\xff",
    "",
    "text \u00e9",
    0,
    -(2**70),
    1.5,
    True,
    None,
    [1, ["a"]],
    {"k": [1.25]},
]


def joined(port, calls, **options):
    """Return the carrier's source for MicroPython, and a broker and link of CPython's."""
    names = {True: "Tcp", False: "Listen"}
    broker = Broker()
    carrier = (Tcp if calls else Listen)("127.0.0.1", port)
    link = Link(broker, carrier, ["to/#"], ["from/#"], secret=b"secret", keepalive=1, **options)
    link.BACKOFF = 0.01, 0.05
    return f"{names[not calls]}('127.0.0.1', {port})", broker, link


@pytest.mark.parametrize("calls", [True, False], ids=["cpython calls", "micropython calls"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_with_micropython(tmp_path, calls, loop):
    async def main():
        carrier, broker, link = joined(free_port(), calls)
        got = []
        broker.subscribe_call("from/#", lambda topic, payload: got.append(payload))
        async with Child(tmp_path, carrier) as child, link:
            await asyncio.wait_for(link.wait_connected(), 10)
            sent = KINDS + list(range(1000)) + [bytes(n) for n in range(0, 1000, 50)]
            for payload in sent:
                await broker.publish_wait("to/data", payload)
            await broker.publish_wait("to/kept", 5)
            await broker.publish_wait("to/end", 0)
            await link.drain()
            counts = await child.result()
        assert got == [*sent, 5] and [type(p) for p in got[:11]] == [type(p) for p in KINDS]
        assert counts == f"{len(sent) + 2} {len(sent) + 1} 0 0\n"
        assert broker.retained() == [("from/kept", 5)]
        assert not link.dropped and not link.refused

    pytest.importorskip(loop).run(main())


def test_micropython_that_is_killed_is_joined_again(tmp_path):
    async def main():
        carrier, broker, link = joined(free_port(), True)
        got = []
        broker.subscribe_call("from/#", lambda topic, payload: got.append(payload))
        broker.publish("to/kept", "state", retain=True)
        async with link:
            for i in range(3):
                async with Child(tmp_path, carrier) as child:
                    await asyncio.wait_for(link.wait_connected(), 10)
                    broker.publish("to/data", i)
                    for _ in range(1000):
                        if len(got) == 2 * i + 2:
                            break
                        await asyncio.sleep(0.005)
                    assert sorted(got[-2:], key=str) == [i, "state"]
                    child.process.kill()
                    await child.process.wait()
                    for _ in range(1000):
                        if not link.connected:
                            break
                        await asyncio.sleep(0.005)
                    assert broker.publish("to/lost", 1) > 0

    asyncio.run(main())


def test_example():
    """What docs/link.md shows prints what it says, on both."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "link.md").read_text(), re.S)[1]
    said = re.findall(r"print\(.*\)  # (.*)", example)
    example = example.replace("8767", str(free_port()))
    with targets.get("unix") as unix:
        result = unix.run(example)
    assert result.out.splitlines() == said, result.err
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=20
    )
    assert done.stdout.splitlines() == said, done.stderr
