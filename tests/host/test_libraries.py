"""Libraries that were written for stock asyncio work with asyncio_alt in its place, unchanged.

The unix port serves, or is a client of a broker; this PC has the other end. The place of stock is
taken in each of the ways that docs/install.md tells of.
"""

import http.client
import json
import random
import re
import shutil
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import websockets.sync.client

from tools import Unavailable, targets
from tools.bench import served
from tools.bootstrap import ROOT
from tools.build import firmware, source
from tools.targets.unix import Unix

AIOMQTTC = "aiomqttc", "1.0.7"
HALF_A_LINE = "ValueError: need more than 1 values to unpack"  # microdot's answer to it
LIBRARIES = Path(__file__).parent / "libraries"

# The tests of microdot with imports that MicroPython has: not jwt, utemplate.
MICRODOT_TESTS = """auth cors csrf end2end microdot multidict multipart request response sse
url_pattern urlencode websocket""".split()


@pytest.fixture(scope="module", params=["install", "as_asyncio", "frozen"])
def place(request):
    """Return how stock's place is taken: arguments of served.serving()."""
    if request.param == "install":
        return {"head": served.INSTALL}
    if request.param == "as_asyncio":
        return {"path": [ROOT / "ports" / "as_asyncio"]}
    try:
        return {"binary": firmware.build("unix", as_asyncio=True), "path": []}
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def server(place):
    """Return the port of a microdot server on the unix port, which has to end well."""
    try:
        serving = served.serving(**place)
        with serving as (port, process):
            yield port
            assert get(port, "/stop")[1] == b"stopped"
            out, err = process.communicate(timeout=20)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert process.returncode == 0, err.decode()
    *said, last = (out + err).decode().splitlines()
    raised = [line for line in said if re.match(r"\w+(:|$)", line)]
    assert set(raised) <= {"ValueError: on purpose", HALF_A_LINE}, raised
    assert last == f"ended with {'asyncio_alt' if 'head' in place else 'asyncio'}"


def get(port, path, method="GET", body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# microdot


def parts(n, size):
    return b"".join(b"%d\n" % i * size for i in reversed(range(n)))


def request(port, n):
    """Send the nth of the requests of a load; return whether the answer is right."""
    kind = n % 5
    if kind == 0:
        return get(port, "/hello") == (200, b"hello")
    if kind == 1:
        status, body = get(port, f"/square/{n}")
        return (status, json.loads(body)) == (200, {"n": n, "square": n * n})
    if kind == 2:
        data = random.Random(n).randbytes(n * 37 % 12000)
        status, body = get(port, "/length", "POST", data)
        return (status, json.loads(body)) == (200, {"length": len(data), "sum": sum(data)})
    if kind == 3:
        return get(port, f"/parts/{n % 40}/100") == (200, parts(n % 40, 100))
    return get(port, "/fails")[0] == 500 if n % 50 == 4 else get(port, "/no")[0] == 404


def test_microdot_serves_http_under_load(server):
    with ThreadPoolExecutor(16) as pool:
        right = list(pool.map(lambda n: request(server, n), range(400)))
    assert right == [True] * 400


def test_requests_are_measured_while_threads_start_processes():
    done = threading.Event()

    def start():
        while not done.is_set():
            subprocess.run(["true"])

    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(start)
        try:
            assert len(served.measure(10, 1500, head=served.INSTALL)[0]) == 1500
        except Unavailable as reason:
            pytest.skip(str(reason))
        finally:
            done.set()


def test_microdot_serves_slow_clients(server):
    with socket.socket() as client:
        client.settimeout(10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server))
        client.sendall(b"POST /length HT")
        time.sleep(0.02)
        client.sendall(b"TP/1.0\r\nContent-Length: 1000\r\n\r\n")
        for n in range(10):
            time.sleep(0.01)
            client.sendall(bytes([n]) * 100)
        answer = client.makefile("rb").read()
    assert json.loads(answer.split(b"\r\n\r\n")[1]) == {"length": 1000, "sum": 4500}
    # More than the sockets between take, so that a write takes a part.
    with socket.socket() as client:
        client.settimeout(10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server))
        client.sendall(b"GET /parts/1000/4000 HTTP/1.0\r\n\r\n")
        time.sleep(0.3)
        assert request(server, 0)
        answer = client.makefile("rb").read()
    assert answer.split(b"\r\n\r\n")[1] == parts(1000, 4000)


def test_microdot_outlives_clients_that_go_away(server):
    for said in (
        b"",
        b"GET",
        b"GET /parts/500/100 HTTP/1.0\r\n\r\n",
        b"POST /length HTTP/1.0\r\n",
    ):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", server)) as client:
                client.sendall(said)
    assert request(server, 3) and request(server, 2)


def test_microdot_serves_websockets_beside_http(server, place):
    if "binary" in place:
        pytest.skip("firmware that is built without mbedtls has no hashlib.sha1")

    def talk(n):
        text = f"{n} " + "x" * (n * 997 % 9000)
        with websockets.sync.client.connect(f"ws://127.0.0.1:{server}/echo") as client:
            for i in range(20):
                client.send(text + str(i))
                assert client.recv(timeout=10) == text + str(i)
            client.send(text.encode())
            return client.recv(timeout=10) in (text, text.encode())

    with ThreadPoolExecutor(16) as pool:
        talks = [pool.submit(talk, n) for n in range(10)]
        requests = [pool.submit(request, server, n) for n in range(100)]
        assert all(future.result() for future in talks + requests)


@pytest.mark.parametrize("name", MICRODOT_TESTS)
def test_microdots_own_tests_pass(name, tmp_path):
    try:
        microdot = served.microdot()
    except Unavailable as reason:
        pytest.skip(str(reason))
    # Not the package's __init__, which imports all tests.
    shutil.copytree(microdot / "tests", tmp_path / "tests")
    (tmp_path / "tests" / "__init__.py").write_text("")
    script = f"import unittest, tests.test_{name}\nunittest.main(tests.test_{name})\n"
    said = {}
    for head in ("", served.INSTALL):
        path = [tmp_path, LIBRARIES, microdot / "src", ROOT]
        with targets.get("unix", path=path) as unix:
            result = unix.run(f"import os\nos.chdir({str(tmp_path)!r})\n{head}{script}")
        assert result.ok, result.err
        said[head] = [line for line in result.out.splitlines() if line.startswith("passed ")]
        assert "failed " not in result.out, result.err
    assert said[""] == said[served.INSTALL] != []


# aiomqttc

# It needs only a clock of a board, for its log.
MACHINE = """
import sys, time

class machine:
    class RTC:
        def datetime(self):
            return time.gmtime()[:3] + (0,) + time.gmtime()[3:6] + (0,)

sys.modules["machine"] = machine
"""

MQTT = """
import asyncio
import aiomqttc

async def main():
    got = []

    async def on_message(client, topic, payload, retain):
        got.append((topic, bytes(payload)))

    async def until(condition):
        while not condition():
            await asyncio.sleep_ms(5)

    def payload(n):
        return bytes([n]) * (n * 331 % 5000 + 1)

    near = aiomqttc.MQTTClient("near", "127.0.0.1", PORT, keepalive=4)
    far = aiomqttc.MQTTClient("far", "127.0.0.1", PORT)
    far.on_message = on_message
    assert await near.connect() and await far.connect()
    await far.subscribe("a/#", 1)
    await asyncio.wait_for(until(lambda: far.subscriptions["a/#"]["confirmed"]), 10)
    for n in range(100):
        await near.publish("a/%d" % n, payload(n), qos=0)
    await asyncio.wait_for(until(lambda: len(got) >= 100), 20)
    assert got == [("a/%d" % n, payload(n)) for n in range(100)]
    got.clear()
    acknowledged = await asyncio.gather(*(near.publish("a/b", "%d" % n, qos=1) for n in range(50)))
    assert acknowledged == [True] * 50
    await asyncio.wait_for(until(lambda: len(got) >= 50), 20)
    assert sorted(int(data) for _, data in got) == list(range(50))
    await asyncio.sleep(3)  # so that a keep-alive is sent
    assert near.connected
    await near.disconnect()
    await far.disconnect()
    print("all right")

asyncio.run(asyncio.wait_for(main(), 50))
"""


def test_aiomqttc_talks_to_mosquitto(place, mosquitto):
    try:
        library = source.from_pypi(*AIOMQTTC)
    except Unavailable as reason:
        pytest.skip(str(reason))
    path = [library, *place.get("path", [ROOT])]
    with Unix(place.get("binary"), path=path) as unix:
        result = unix.run(f"{place.get('head', '')}{MACHINE}PORT = {mosquitto.port}\n{MQTT}")
    assert result.ok and "all right" in result.out, result.out + result.err
