"""Link on CPython, as tests/device/test_link.py tests it on MicroPython; and between the two."""

import ast
import asyncio
import base64
import contextlib
import math
import multiprocessing
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from types import NoneType

import pytest

from asyncio_alt.pubsub import Broker, Link, Listen, Tcp
from tests.parts import ahead
from tools import targets
from tools.bootstrap import ROOT
from tools.targets.child import free_port
from tools.targets.unix import micropython

DEVICE = ROOT / "tests" / "device"
TREE = ast.parse((DEVICE / "parts" / "tls.py").read_text())
NAMES = [
    (file, node.name)
    for file in (
        *sorted(DEVICE.glob("test_link*.py")),
        *(DEVICE / f"test_{part}.py" for part in ("codec", "window", "mirror", "hub", "seal")),
    )
    for node in ast.parse(file.read_text()).body
    if getattr(node, "name", "").startswith("test_")
]


@pytest.mark.parametrize("file, name", NAMES, ids=[name for _, name in NAMES])
def test_on_cpython(file, name):
    scope = {}
    for file in (*ahead(file), file):
        exec(compile(file.read_text(), file, "exec"), scope)
    scope["_run"](scope[name])


# MicroPython at one end, CPython at the other: the calling end is the child's or ours

ECHO = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Tcp

{head}
CARRIER = {carrier}

async def main():
    broker = Broker()
    sub = broker.subscribe("to/#", policy="block")
    link = Link(broker, CARRIER, ["from/#"], ["to/#"], secret=b"secret", window=32, keepalive=1)
    link.BACKOFF = 0.01, 0.05
    async with link:
        async for topic, payload in sub:
            # Messages go back; "end" ends it.
            if topic == "to/end":
                break
            await broker.publish_wait("from/" + topic[3:], payload, retain=topic == "to/kept")
        await link.drain()
    print(link.received, link.delivered, link.dropped, link.refused)

asyncio.run(main())
"""


class Child:
    """MicroPython's unix port in a process of its own, which runs ECHO."""

    def __init__(self, folder, carrier, head=""):
        self._script = ECHO.format(carrier=carrier, head=head)
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
    "\U0001f600",
    {"\U0001f600": ["\U0001f600\u20ac", 'q"\\\n\x01\x7f']},
    float("inf"),
    [float("-inf"), {"": {"": "nan"}}],
    {"": "nan"},
    1.0,
    -0.0,
    1e22,
    1e300,
    5e-324,
    0.1 + 0.2,
    [1 / 3, 2**63, 10**40],
    [{"n": n} for n in range(50)],
]


def joined(port, calls, context=None, secret=b"secret"):
    """Return the carrier's source for MicroPython, and a broker and link of CPython's."""
    names = {True: "Tcp", False: "Listen"}
    broker = Broker()
    carrier = (Tcp if calls else Listen)("localhost" if context else "127.0.0.1", port, context)
    link = Link(broker, carrier, ["to/#"], ["from/#"], secret=secret, keepalive=1)
    link.BACKOFF = 0.01, 0.05
    return f"{names[not calls]}({carrier.host!r}, {port}, {context and 'CONTEXT'})", broker, link


TLS = """
import binascii, ssl
CERT = binascii.a2b_base64("{CERT}")
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_{role})
if "{role}" == "SERVER":
    CONTEXT.load_cert_chain(CERT, binascii.a2b_base64("{KEY}"))
else:
    CONTEXT.verify_mode = ssl.CERT_REQUIRED
    CONTEXT.load_verify_locations(cadata=CERT)
"""


def tls(calls):
    """Return MicroPython's source of a context, and CPython's context."""
    with targets.get("unix") as unix:
        if "ssl" not in unix.features:
            pytest.skip("this MicroPython has no ssl")
    scope = {}
    for node in TREE.body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("CERT", "KEY"):
            scope[node.targets[0].id] = ast.literal_eval(node.value)
    cert = base64.b64decode(scope["CERT"])
    if calls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=cert)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            key = "-----BEGIN EC PRIVATE KEY-----\n%s\n-----END EC PRIVATE KEY-----\n"
            file.write(ssl.DER_cert_to_PEM_cert(cert) + key % scope["KEY"])
            file.flush()
            context.load_cert_chain(file.name)
    return TLS.format(role="SERVER" if calls else "CLIENT", **scope), context


CALLS = pytest.mark.parametrize("calls", [True, False], ids=["cpython calls", "micropython calls"])


@CALLS
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("safe", [False, True], ids=["tcp", "tls"])
def test_with_micropython(tmp_path, calls, loop, safe):
    async def main():
        head, context = tls(calls) if safe else ("", None)
        carrier, broker, link = joined(free_port(), calls, context)
        got = []
        broker.subscribe_call("from/#", lambda topic, payload: got.append(payload))
        async with Child(tmp_path, carrier, head) as child, link:
            await asyncio.wait_for(link.wait_connected(), 10)
            sent = KINDS + list(range(1000)) + [bytes(n) for n in range(0, 1000, 50)]
            for payload in sent:
                await broker.publish_wait("to/data", payload)
            await broker.publish_wait("to/kept", 5)
            await broker.publish_wait("to/end", 0)
            await link.drain()
            counts = await child.result()
        assert got == [*sent, 5] and repr(got[: len(KINDS)]) == repr(KINDS)
        assert counts == f"{len(sent) + 2} {len(sent) + 1} 0 0\n"
        assert broker.retained() == [("from/kept", 5)]
        assert not link.dropped and not link.refused

    pytest.importorskip(loop).run(main())


@CALLS
def test_nan_goes_to_micropython_and_back(tmp_path, calls):
    async def main():
        carrier, broker, link = joined(free_port(), calls)
        got = []
        broker.subscribe_call("from/#", lambda topic, payload: got.append(payload))
        async with Child(tmp_path, carrier) as child, link:
            await asyncio.wait_for(link.wait_connected(), 10)
            sent = [math.nan, [1, math.nan, {"t": math.nan, "": math.inf}], {"": math.nan}]
            for payload in sent:
                await broker.publish_wait("to/data", payload)
            await broker.publish_wait("to/end", 0)
            await link.drain()
            assert await child.result() == "4 3 0 0\n"
        assert repr(got) == repr(sent)

    asyncio.run(main())


@CALLS
def test_tls_does_not_take_the_place_of_the_secret(tmp_path, calls):
    async def main():
        head, context = tls(calls)
        carrier, broker, link = joined(free_port(), calls, context, b"another")
        broker.publish("to/kept", "state", retain=True)
        got = []
        broker.subscribe_call("from/#", lambda topic, payload: got.append(payload))
        async with Child(tmp_path, carrier, head), link:
            for _ in range(1000):
                if not isinstance(link.error, (NoneType, ConnectionRefusedError)):
                    break
                await asyncio.sleep(0.005)
            if calls:  # it hears of it by an end, of TCP or of TLS
                assert isinstance(link.error, (EOFError, OSError)), link.error
            else:
                assert "secret" in str(link.error) and link.refused
            assert not link.connected and not got

    asyncio.run(main())


def test_certificate_that_is_not_trusted_is_told(tmp_path):
    async def main():
        head, _ = tls(True)
        carrier, broker, link = joined(free_port(), True, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        async with Child(tmp_path, carrier, head), link:
            for _ in range(1000):
                if isinstance(link.error, ssl.SSLError):
                    break
                await asyncio.sleep(0.005)
            assert "certificate" in str(link.error) and not link.connected

    asyncio.run(main())


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


def test_connection_ends_once_when_a_write_fails_as_soon_as_there_is_room():
    """CPython's transport would end twice if it failed within resume_writing()."""

    async def main():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        port = free_port()
        brokers = Broker(), Broker()
        size = 8 * 1024 * 1024  # more than the sockets take
        got = []
        brokers[1].subscribe_call("a", lambda topic, payload: got.append(payload[0]))
        sender = Link(brokers[0], Tcp("127.0.0.1", port), ["a"], [], max_size=size + 9)
        receiver = Link(brokers[1], Listen("127.0.0.1", port), [], ["a"], max_size=size + 9)
        pump = sender.peer.pump
        ends = []

        def break_and_pump():
            sender.peer.pump = pump
            ends.append(sender.peer.conn.transport.get_extra_info("socket"))
            ends[0].shutdown(socket.SHUT_WR)
            pump()

        async with receiver, sender:
            await asyncio.wait_for(sender.wait_connected(), 10)
            sender.peer.pump = break_and_pump
            for n in (1, 2):
                await asyncio.wait_for(brokers[0].publish_wait("a", bytes((n,)) * size), 10)
            await asyncio.wait_for(sender.drain(), 10)
        assert ends and got == [1, 2] and not told, (ends, got, told, sender.dropped)

    asyncio.run(main())


def test_places_go_to_those_of_whom_there_are_few():
    """Those of one address make room for one another, not for a peer of another address."""

    async def main():
        port = free_port()
        link = Link(Broker(), Listen("127.0.0.1", port), secret=b"secret")
        async with link:
            peer = None
            while not peer:
                with contextlib.suppress(OSError):
                    peer = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.sleep(0.01)
            crowd = []
            for _ in range(40):
                crowd.append(
                    await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
                )
            while link.refused < 37:
                await asyncio.sleep(0.01)
            peer[1].write(b"\x12\x01\x01" + bytes(16))
            assert len(await asyncio.wait_for(peer[0].readexactly(18), 5)) == 18
            for _, writer in [*crowd, peer]:
                writer.close()

    asyncio.run(main())


def test_loops_of_two_threads():
    """Each has its brokers and links, at the same time."""

    async def main(found):
        port = free_port()
        brokers = Broker(), Broker()
        sub = brokers[1].subscribe("t", policy="block")
        links = [
            Link(brokers[0], Listen("127.0.0.1", port), ["t"], secret=b"secret"),
            Link(brokers[1], Tcp("127.0.0.1", port), [], ["t"], secret=b"secret"),
        ]
        links[1].BACKOFF = 0.01, 0.05
        async with links[0], links[1]:
            await asyncio.wait_for(links[0].wait_connected(), 10)
            for i in range(300):
                await brokers[0].publish_wait("t", [i])
                found.append((await asyncio.wait_for(sub.get(), 10))[1])

    found = [], [], []
    threads = [threading.Thread(target=asyncio.run, args=(main(each),)) for each in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == ([[i] for i in range(300)],) * 3


def test_link_that_is_started_on_both_sides_of_a_fork():
    """The peer takes them for two."""
    port = free_port()
    own = Broker()
    link = Link(own, Tcp("127.0.0.1", port), ["t"], secret=b"secret")

    async def send(payload):
        async with link:
            await asyncio.wait_for(link.wait_connected(), 10)
            await own.publish_wait("t", payload)
            await link.drain()

    async def main():
        broker = Broker()
        sub = broker.subscribe("t")
        async with Link(broker, Listen("127.0.0.1", port), [], ["t"], secret=b"secret") as peer:
            process = multiprocessing.get_context("fork").Process(
                target=lambda: asyncio.run(send("child"))
            )
            process.start()
            assert await asyncio.wait_for(sub.get(), 10) == ("t", "child")
            child = peer.peer.peer_session
            while process.is_alive():
                await asyncio.sleep(0.01)
            await send("parent")
            assert await asyncio.wait_for(sub.get(), 10) == ("t", "parent")
            assert peer.peer.peer_session != child and not peer.refused

    asyncio.run(main())


EAGER = """
import asyncio, sys
sys.path.insert(0, {root!r})

async def main(test):
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    await test()

for name, files in {files!r}.items():
    scope = {{}}
    for file in files:
        exec(compile(open(file).read(), file, "exec"), scope)
    asyncio.run(main(scope[name]))
    print(name)
"""


def test_eager_tasks():
    """The same with a task factory that runs a coroutine at once."""
    python = eager_python()
    if not python:
        pytest.skip("no Python of 3.12 or later")
    names = [
        "test_payloads_of_every_kind_arrive_as_they_were",
        "test_slow_far_end_raises_the_near_rating",
        "test_message_that_waits_survives_its_connection",
        "test_cuts_acknowledge_nothing_that_nobody_took",
        "test_link_that_another_has_used_agrees_with_its_peer_again",
        "test_exception_at_any_step_costs_that_connection_only",
        "test_close_leaves_nothing",
        "test_frame_that_is_parked_for_no_time",
    ]
    tests = {name: file for file, name in NAMES}
    files = {name: [*map(str, ahead(tests[name])), str(tests[name])] for name in names}
    script = EAGER.format(root=str(ROOT), files=files)
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == names, done.stderr


def eager_python():
    """Return a Python that has eager tasks; None if this machine has no such Python."""
    if sys.version_info >= (3, 12):
        return sys.executable
    for name in ("python3.13", "python3.12"):
        found = shutil.which(name)
        if found and not subprocess.run([found, "-c", ""], capture_output=True).returncode:
            return found


@pytest.mark.parametrize("i, port", [(0, "8767"), (1, "8769")], ids=["two brokers", "a hub"])
def test_example(i, port):
    """The examples in docs/link.md print the output shown there, on both."""
    text = (ROOT / "docs" / "link.md").read_text()
    example = re.findall(r"```python\n(.*?)```", text, re.S)[i]
    said = re.findall(r"print\(.*\)  # (.*)", example)
    example = example.replace(port, str(free_port()))
    with targets.get("unix") as unix:
        result = unix.run(example)
    assert result.out.splitlines() == said, result.err
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=20
    )
    assert done.stdout.splitlines() == said, done.stderr
