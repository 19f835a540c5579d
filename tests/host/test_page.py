"""The command page: the topics of MicroPython in a real browser.

With SCREENSHOT=docs/page.png in the environment the picture in README.md is made anew.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import websockets.sync.client

from tools.bootstrap import ROOT
from tools.targets.child import free_port, running
from tools.targets.unix import micropython

_LIMIT = 60  # seconds that anything here may take

# Two topics that count, one of a hostile board, many that never change; it prints what it gets.
_BOARD = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen


async def main():
    broker = Broker()
    broker.subscribe_call("set/#", lambda topic, payload: print(topic, payload))
    broker.publish("odd/<b>x", "<img src=x onerror=document.title=1>\\x1b", retain=True)
    for n in range(MANY):
        broker.publish("many/%03d" % n, n, retain=True)
    async with Link(broker, Listen("127.0.0.1", PORT), ["#"], ["set/#"]):
        n = 0
        while True:
            await asyncio.sleep_ms(50)
            n += 1
            broker.publish("hall/temperature", 20 + n % 10, retain=True)
            broker.publish("hall/count", n, retain=True)
            broker.publish("motor/speed", (n * n) % 97, retain=True)


asyncio.run(main())
"""


@contextlib.contextmanager
def board_at(port, many=0):
    environment = {**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"}
    with running([micropython()], env=environment) as process:
        source = _BOARD.replace("PORT", str(port)).replace("MANY", str(many))
        process.stdin.write(source.encode())
        process.stdin.close()
        yield process


@contextlib.contextmanager
def served(*args):
    """Run the command; yield the address that it prints."""
    command = [sys.executable, "-m", "asyncio_alt.pc", "page", "--port", "0", *args]
    with running(command, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        line = process.stdout.readline().decode().strip()
        assert line.startswith("http://"), process.stderr.read()
        yield line
        process.terminate()
        _, err = process.communicate(timeout=_LIMIT)
        assert (process.returncode, err) == (130, b"")


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, folder):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            pytest.skip("there is no chromium here; Debian has it in chromium")
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += [
            "--remote-debugging-port=0",
            "--window-size=1100,600",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        self._stack = contextlib.ExitStack()
        process = self._stack.enter_context(running(command, env={**os.environ, "HOME": folder}))
        for line in process.stderr:
            if found := re.search(rb"DevTools listening on (ws://\S+)", line):
                break
        connect = websockets.sync.client.connect(found[1].decode(), max_size=None)
        self._socket = self._stack.enter_context(connect)
        self._session = None
        self._count = 0
        target = self.call("Target.createTarget", url="about:blank")
        self._session = self.call("Target.attachToTarget", flatten=True, **target)["sessionId"]

    def call(self, method, **params):
        self._count += 1
        asked = {"id": self._count, "method": method, "params": params}
        asked |= {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps(asked))
        while True:
            answer = json.loads(self._socket.recv(_LIMIT))
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)

    def ask(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + _LIMIT
        while not (value := self.ask(expression)):
            assert time.monotonic() < end, (expression, self.ask("document.body.innerText"))
            time.sleep(0.05)
        return value

    def close(self):
        self._stack.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(str(tmp_path_factory.mktemp("browser")))
    yield browser
    browser.close()


def text(name):
    """Return code that gives the value of the topic whose last level that is."""
    rows = "[...document.querySelectorAll('.row')]"
    return f"{rows}.find(r => r.children[0].textContent == {name!r})?.children[4].textContent"


def test_topics_of_a_board_that_goes_away_and_comes_back(browser):
    port = free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        board = first.enter_context(board_at(port))
        url = stack.enter_context(served(f"127.0.0.1:{port}"))
        browser.open(url)
        count = int(browser.until(text("count")))
        browser.until(f"{text('count')} > {count + 5}")
        # What a board says is text.
        assert browser.ask(text("<b>x")) == "<img src=x onerror=document.title=1>\\x1b"
        assert browser.ask("document.title") == "asyncio_alt: topics"
        # It is a tree, with plots.
        assert browser.ask("document.querySelectorAll('main details').length") >= 2
        browser.until("[...document.querySelectorAll('canvas')].some(c => c.width == 240)")
        # The page publishes.
        browser.ask(
            "form.topic.value = 'set/led'; form.payload.value = 'on'; form.requestSubmit()"
        )
        assert board.stdout.readline() == b"set/led b'on'\n"
        browser.until("find('said').textContent == 'published'")
        if wanted := os.environ.get("SCREENSHOT"):
            browser.until("trees[0].topics.get('motor/speed').points.length == POINTS")
            picture = browser.call("Page.captureScreenshot", format="png")["data"]
            (ROOT / wanted).write_bytes(base64.b64decode(picture))
        browser.ask("form.topic.value = 'set/+'; form.requestSubmit()")
        browser.until("find('said').textContent.startsWith('not published: ')")
        # It goes away, and comes back: nothing is loaded again.
        browser.ask("window.same = 1")
        first.close()
        browser.until("document.querySelector('#sources .lost')?.textContent")
        stack.enter_context(board_at(port))
        browser.until("document.querySelector('#sources .source:not(.lost)')?.textContent")
        browser.until(f"{text('count')} > 0 && window.same")


def test_several_at_once_and_an_mqtt_broker(browser, mosquitto):
    port = free_port()
    where = f"mqtt://127.0.0.1:{mosquitto.port}"
    with board_at(port), served(f"127.0.0.1:{port}", where, "--filter", "+/count") as url:
        browser.open(url)
        browser.until(text("count"))
        assert browser.ask("trees[0].topics.size") == 1  # as the filter says
        topics = [sys.executable, "-m", "asyncio_alt.pc", "topics", where]
        for value in "1", "2":
            command = [*topics, "--retain", "--publish", "cellar/count", value]
            subprocess.run(command, cwd=ROOT, check=True)
            browser.until(f"trees[1].topics.get('cellar/count')?.text == {value!r}")
        browser.ask(
            "form.source.value = 1; form.topic.value = 'a'; form.payload.value = 'b';"
            "form.retain.checked = true; form.requestSubmit()"
        )
        browser.until("find('said').textContent == 'published'")
        command = [*topics, "--filter", "a", "--seconds", "1"]
        assert subprocess.check_output(command, cwd=ROOT) == b"a b\n"


_PICO = r"""
import asyncio_alt as asyncio
from machine import UART
from asyncio_alt.pubsub import Broker, Link, Serial


async def main():
    broker = Broker()
    end = asyncio.Event()
    broker.subscribe_call("end", lambda topic, payload: end.set())
    async with Link(broker, Serial(UART(1, 115200), calls=False), ["pico/#"], ["end"]):
        n = 0
        while not end.is_set():
            n += 1
            broker.publish("pico/n", n, retain=True)
            await asyncio.sleep_ms(100)
        await asyncio.sleep_ms(300)  # so that it is acknowledged


asyncio.run(main())
"""


def test_topics_of_an_emulated_pico(browser, request):
    if request.config.getoption("--target") not in ("rp2", "all"):
        pytest.skip("with --target rp2 or all only")
    rp2 = request.getfixturevalue("rp2")
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        board = pool.submit(rp2.run, _PICO, 60, stimuli=[{"uart": 1, "port": port}])
        with served(f"socket://127.0.0.1:{port}") as url:
            browser.open(url)
            browser.until(f"{text('n')} > 3")
            browser.ask("form.topic.value = 'end'; form.requestSubmit()")
            result = board.result()
    assert result.ok, result.err


def test_many_topics_stay_usable(browser):
    port = free_port()
    with board_at(port, many=1000), served(f"127.0.0.1:{port}") as url:
        browser.open(url)
        browser.until("trees[0]?.topics.size > 1000")
        browser.until("find('report').textContent.includes('retains more than')")
        # What the page does in each 250 ms, if all have a new value.
        browser.ask("""
            globalThis.all = [...trees[0].topics.keys()];
            globalThis.state = {name: "x", connected: true, why: "", counts: {}, rating: 0};
            globalThis.step = (n) => {
                const begin = performance.now();
                take({sources: [state], rows: [all.map(t => [t, n, "" + n, 0, n % 7])]});
                document.body.offsetHeight;
                return performance.now() - begin;
            }
        """)
        took = [browser.ask(f"step({n})") for n in range(1, 10)]
        assert sorted(took)[4] < 100, took


def test_it_is_for_its_own_page_only():
    with served("127.0.0.1:1") as url:

        def get(path="", **headers):
            request = urllib.request.Request(url + path, headers=headers)
            try:
                with urllib.request.urlopen(request) as answer:
                    return answer.status, answer.headers, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.headers, ""

        status, headers, html = get()
        assert status == 200 and "https://" not in html and "src=" not in html
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert get(Host="evil.example")[0] == 403 and get("x")[0] == 404
        assert get(Host="[")[0] == 400
        at = int(url.rstrip("/").rpartition(":")[2])
        for garbage in b"\0\n\n", b"GET //[ HTTP/1.1\r\n\r\n", b"":
            with socket.create_connection(("127.0.0.1", at)) as s:
                s.sendall(garbage)
        live = url.replace("http", "ws") + "live"
        for origin in ("http://evil.example", None):
            with pytest.raises(websockets.exceptions.InvalidStatus, match="403"):
                websockets.sync.client.connect(live, origin=origin)
        with websockets.sync.client.connect(live, origin=url.rstrip("/")) as page:
            told = json.loads(page.recv(10))
            assert told["sources"][0]["connected"] is False and told["rows"] == [[]]
            for message in (
                "",
                "[" * 99999,
                "[]",
                "{}",
                '{"source": -9}',
                '{"source": 0, "topic": 1}',
            ):
                page.send(message)
                while "said" not in (told := json.loads(page.recv(10))):
                    pass
                assert told["said"]


def test_another_address_needs_the_token():
    with served("127.0.0.1:1", "--host", "0.0.0.0") as url:
        base, token = url.replace("0.0.0.0", "127.0.0.1").split("?token=")
        assert len(token) > 16
        for asked in (base, f"{base}?token=x", f"{base}live?token=x"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(asked)
        assert urllib.request.urlopen(f"{base}?token={token}").status == 200


def test_a_port_in_use_is_said_in_one_line():
    with served("127.0.0.1:1") as url:
        port = url.rstrip("/").rpartition(":")[2]
        command = [sys.executable, "-m", "asyncio_alt.pc", "page", "127.0.0.1:1", "--port", port]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "in use" in done.stderr
