"""The programs of examples/ do what their first lines say: on the unix port, on this PC, and on an
emulated Raspberry Pi Pico, with real peers at the other end."""

import ast
import asyncio
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import tty
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tools import Unavailable
from tools.bench import served
from tools.bootstrap import ROOT
from tools.targets.child import free_port, running
from tools.targets.unix import Unix, micropython

EXAMPLES = ROOT / "examples"
PC = "gateway.py", "join_board.py"
pytestmark = pytest.mark.timeout(120)  # a line may never come

BOARDS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in PC)


def source(name, seconds=None, changes={}, **constants):
    """Return the text of an example, with these texts replaced and these constants changed; it
    ends after so many seconds."""
    text = (EXAMPLES / name).read_text("utf-8")
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    for constant, value in constants.items():
        text = replaced(
            text, next(re.finditer(f"^{constant} = .*$", text, re.M))[0], f"{constant} = {value!r}"
        )
    if seconds:
        run = "asyncio.run(main())\n"
        text = replaced(text, run, f"asyncio.run(asyncio.wait_for(main(), {seconds}))\n")
    return text


def replaced(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def ended(result):
    """Return the output of an example that was ended after some seconds."""
    assert result.err.rstrip().endswith("TimeoutError:"), result.err or "not finished in time"
    return result.out


@contextlib.contextmanager
def on_pc(name, *arguments):
    """Run an example on CPython."""
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-u", EXAMPLES / name, *arguments]
    with running(list(map(str, command))) as process:
        yield process


def sleeping(result):
    """Return the share of the time that the emulated chip was in light sleep."""
    changes = [(us, depth) for us, what, depth in result.events if what == "sleep"]
    ends = [us for us, _ in changes[1:]] + [result.us]
    slept = [end - us for (us, depth), end in zip(changes, ends, strict=True) if depth == 2]
    return sum(slept) / result.us


@contextlib.contextmanager
def on_unix(name, head="", path=(), **options):
    """Run an example on the unix port, with the parts of the package that it asks for."""
    with tempfile.TemporaryDirectory() as folder:
        install(name, Path(folder, "lib"))
        path = ":".join(map(str, [*path, f"{folder}/lib", ".frozen"]))
        script = Path(folder, name)
        script.write_text(head + source(name, **options))
        with running(["env", f"MICROPYPATH={path}", micropython(), script]) as process:
            yield process


def install(name, folder):
    """Copy the parts of the package that an example tells to install."""
    parts = re.search("^Install: asyncio_alt(.*?)(, and .*)?[.]$", source(name), re.M)[1]
    for part in ROOT / "package.json", *(ROOT / "asyncio_alt" / p for p in parts.split(", ")[1:]):
        for _, path in json.loads(part.read_text())["urls"]:
            path = Path(path) if part.name == "package.json" else Path("asyncio_alt", path)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, folder / path)


@contextlib.contextmanager
def in_thread(function, *arguments):
    """Call function(over, *arguments) meanwhile, until that Event is set."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(function, over, *arguments)
        try:
            yield
        finally:
            over.set()
        done.result()


def line(over, number):
    """Return a socket to an emulated UART whose line ends at this TCP port, once it is there."""
    while not over.is_set():
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", number), 10)
        time.sleep(0.02)


@contextlib.contextmanager
def serial_port(number):
    """Return the name of a serial port of this PC, whose line ends at that of an emulated UART."""

    def pump(over):
        with line(over, number) as far:
            while not over.is_set():
                ready = select.select([master, far], [], [], 0.1)[0]
                if far in ready:
                    os.write(master, far.recv(4096))
                if master in ready:
                    far.sendall(os.read(master, 4096))

    master, slave = pty.openpty()
    tty.setraw(slave)
    try:
        with in_thread(pump):
            yield os.ttyname(slave)
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("name", BOARDS)
def test_what_it_tells_to_install_has_the_names_that_it_uses(name, tmp_path):
    lines = []
    for node in ast.walk(ast.parse(source(name))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("asyncio_alt"):
            lines.append(f"from {node.module} import {', '.join(n.name for n in node.names)}")
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "asyncio":
            lines.append(f"from asyncio_alt import {node.attr}")
    assert lines or name == "ssd1306.py"  # it uses what it is given
    install(name, tmp_path)
    with Unix(path=[tmp_path]) as unix:
        result = unix.run("\n".join(lines))
    assert result.ok, result.err


# A sensor hub to MQTT


def test_sensor_hub_sleeps_and_its_values_reach_mqtt(rp2, mosquitto):
    port = free_port()
    stimuli = [
        {"uart": 1, "port": port},
        {"watch": "sleep"},
        {"pin": 14, "value": 0, "after_us": 0},
        {"pin": 14, "value": 1, "after_us": 1_000_000},  # the door opens
    ]

    async def main():
        async with mosquitto.client() as client:
            await client.subscribe("home/hub/+")
            await client.publish("home/set/every", b"1", retain=True)
            with (
                serial_port(port) as name,
                on_pc("gateway.py", name, "127.0.0.1", mosquitto.port) as gateway,
            ):
                # Neither waits in the loop, which has nothing else to do; nor in a thread, with
                # the end of which the emulator's process would end.
                assert gateway.stdout.readline() == b"set/every b'1'\n"
                result = rp2.run(source("sensor_hub.py", 3), stimuli=stimuli)
            await client.publish("home/hub/end")
            got = []
            async for message in client.messages:
                if message.topic.value == "home/hub/end":
                    return result, got
                got.append((message.topic.value, message.payload))

    result, messages = asyncio.run(main())
    ended(result)
    doors = [payload for topic, payload in messages if topic == "home/hub/door"]
    assert doors == [b"closed", b"open"]  # a link sends a retained value again if it has changed
    assert float(dict(messages)["home/hub/temperature"])
    (opened,) = (us for us, what, level in result.events if what == "in14" and level)
    assert any(opened < us < opened + 50_000 for us, what, _ in result.events if what == "uart1")
    assert sleeping(result) > 0.3


def test_sensor_hub_goes_on_and_sleeps_without_a_gateway(rp2):
    text = source("sensor_hub.py", 4, EVERY=1, PATIENCE=0.3)
    result = rp2.run(text, stimuli=[{"watch": "sleep"}])
    assert ended(result) == "no gateway\n" * 3 and sleeping(result) > 0.5


# Protocols on a UART


def test_gps_takes_whole_lines_and_notices_silence(rp2):
    gga = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n"
    lines = [
        gga[20:],  # it was switched on in the middle of a line
        gga,
        "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n",
        gga.replace("4807", "4808"),
        "$GPGGA,123520,,,,,0,00,,,M,,M,,*61\r\n",
        "\xff$*\r\n",
        "$GPGGA,1*4B\r\n",
        "$GPGGA,123519,north,N,01131.000,E,1*22\r\n",
        gga[:30],
    ]
    stimuli = [{"uart": 1, "data": "".join(lines), "baud": 9600, "after_us": 300_000}]
    out = ended(rp2.run(source("gps.py", 1.2, SILENCE=0.4), stimuli=stimuli))
    assert out.splitlines() == [
        "damaged lines: 1",
        "123519 48.1173 11.5167",
        "damaged lines: 2",
        "no position yet",
        "damaged lines: 3",
        "damaged lines: 4",
        "damaged lines: 5",
        "the receiver is silent",
    ]


def test_modbus_device_answers_a_master(rp2):
    frames = [
        "11 06 00 6b 00 09",  # write a register
        "11 03 00 6b 00 03",  # read it, and two more
        "12 03 00 6b 00 03",  # for another device
        "11 03 00",  # cut off
        "11 06 00 6d 01 00",
        "11 03 00 6b 00 03",
        "11 03 00 7f 00 02",  # the last register, and one more
        "11 05 00 01 00 01",  # another function
    ]
    stimuli = []
    for n, frame in enumerate(frames):
        data = modbus(frame).decode("latin-1")
        stimuli.append({"uart": 1, "data": data, "baud": 9600, "after_us": 300_000 + n * 40_000})
    stimuli[3]["data"] = stimuli[3]["data"][:-3]
    result = rp2.run(source("modbus.py", 0.7), stimuli=stimuli)
    ended(result)
    said = bytes(value for _, what, value in result.events if what == "uart1")
    answers = [
        "11 06 00 6b 00 09",
        "11 03 06 00 09 00 00 00 00",
        "11 06 00 6d 01 00",
        "11 03 06 00 09 00 00 01 00",
        "11 83 02",
        "11 85 01",
    ]
    assert said == b"".join(map(modbus, answers))


def modbus(text):
    """Return these bytes and their checksum, bit by bit the remainder of a polynomial."""
    data = bytes.fromhex(text)
    bits = int("".join(f"{byte:08b}"[::-1] for byte in data) + "0" * 16, 2)
    bits ^= 0xFFFF << 8 * len(data)  # it begins with 16 ones
    for n in range(8 * len(data) + 15, 15, -1):
        if bits >> n & 1:
            bits ^= 0x18005 << n - 16
    checksum = int(f"{bits:016b}"[::-1], 2)
    return data + checksum.to_bytes(2, "little")


def test_modbus_checksum():
    assert modbus("11 03 00 6b 00 03").hex(" ") == "11 03 00 6b 00 03 76 87"  # the specification's


# Interrupts


def test_two_converters_start_again_at_once_though_the_program_is_busy(rp2):
    edges, every = 11, 10_000
    stimuli = [{"watch": 17}, {"watch": 13}]
    for pin, begin in ((20, 200_000), (21, 203_000)):
        stimuli.append({"pin": pin, "value": 1, "after_us": 0})
        again = {"count": 2 * edges, "every_us": every // 2}
        stimuli.append({"pin": pin, "value": 0, "after_us": begin, **again})
    result = rp2.run(source("two_converters.py", 0.35, EVERY=0.3), stimuli=stimuli)
    assert eval(ended(result)) == {
        "left": 0,
        "right": 0,
        "left missed": 0,
        "right missed": 0,
    }
    for cs, pin in ((17, 20), (13, 21)):
        ready = [us for us, what, level in result.events if what == f"in{pin}" and not level]
        taken = [us for us, what, level in result.events if what == f"pin{cs}" and not level]
        late = [us - edge for edge, us in zip(ready, taken[-edges:], strict=True)]
        assert 0 < max(late) < 100, late  # us; a task of the program works for some ms


# Deadlines


def test_deadlines_are_kept_by_sensors_that_are_late_or_wrong(rp2):
    stimuli = [
        {"uart": 1, "data": "1 500\n2 510\n", "baud": 9600, "after_us": 600_000},
        {"uart": 1, "data": "3 five\n", "baud": 9600, "after_us": 1_000_000},
        {"pin": 17, "value": 1, "after_us": 600_000, "count": 1000, "every_us": 5000},
    ]
    said = ended(rp2.run(source("deadlines.py", 1.7), stimuli=stimuli)).splitlines()
    rounds = [eval(line) for line in said if line[0] == "{"]
    assert rounds == [
        {"distance": None, "weight": None},
        {"distance": 857, "weight": 510},  # the late answer was passed over
        {"distance": 857, "weight": None},
    ]
    assert [line.split("(")[0] for line in said if line[0] != "{"] == [
        "distance TimeoutError",
        "weight TimeoutError",
        "weight ValueError",
    ]


def test_supervisor_connects_again_whatever_the_server_does():
    port = free_port()
    with on_unix(
        "supervisor.py", HOST="127.0.0.1", PORT=port, PATIENCE=1.5, PAUSES=(0.05, 0.1)
    ) as board:

        def told(text):
            line = board.stdout.readline().decode()
            assert line.startswith(text), line

        told("not connected: OSError(111")
        with socket.create_server(("127.0.0.1", port)) as server:
            with server.accept()[0] as client, client.makefile() as lines:
                while not (line := board.stdout.readline().decode()).startswith("connected"):
                    assert line.startswith("not connected"), line
                assert lines.readline() == "alive\n"
                client.sendall(b"hello\n")
                told("told: hello")
            told("lost: EOFError")
            with server.accept()[0]:  # and say nothing
                told("connected")
                told("lost: TimeoutError")
            with server.accept()[0] as client, client.makefile() as lines:
                told("connected")
                assert lines.readline() == "alive\n"


# A PC joins a board

# Stands for the board's module on the unix port: an ADC whose voltage rises, a pin that tells.
MACHINE = """
import sys

class Pin:
    OUT = 1

    def __init__(self, number, mode, value=0):
        self.number = number
        self.level = value

    def __call__(self, level=None):
        if level is not None and level != self.level:
            print("GPIO", self.number, int(level))
            self.level = level
        return self.level

class ADC:
    def __init__(self, number):
        self.value = 14000

    def read_u16(self):
        self.value += 5
        return self.value

class machine:
    pass

machine.Pin = Pin
machine.ADC = ADC
sys.modules["machine"] = machine
"""
LISTEN = 'Listen("0.0.0.0", 8765)'


def test_pc_joins_a_board_by_tcp(tmp_path):
    port = free_port()
    record = tmp_path / "room.csv"
    with on_unix(
        "thermostat.py", MACHINE, changes={LISTEN: f'Listen("127.0.0.1", {port})'}, EVERY=0.05
    ) as board:
        where = f"127.0.0.1:{port}", "--target", "29", "--csv", record
        with on_pc("join_board.py", *where) as script:
            assert board.stdout.readline() == b"GPIO 15 1\n"
            until(lambda: record.exists() and record.read_text().count("temperature") > 3)
            script.send_signal(signal.SIGINT)
            assert script.wait(10) == 0
    rows = [line.split(",")[1:] for line in record.read_text().splitlines()]
    assert ["room/heating", "True"] in rows and len(set(map(tuple, rows))) > 3


def test_pc_joins_a_board_by_a_serial_line(rp2):
    port = free_port()
    changes = {
        LISTEN: "Serial(UART(1, 115200, tx=Pin(4), rx=Pin(5)), calls=False)",
        "import Broker, Link, Listen": "import Broker, Link, Serial",
        "import ADC, Pin": "import ADC, UART, Pin",
    }
    text = source("thermostat.py", 2, changes=changes, EVERY=0.3)
    with serial_port(port) as name, on_pc("join_board.py", name, "--target", "29") as script:
        assert script.stderr.readline() == b"not connected: None\n"
        ended(rp2.run(text, stimuli=[{"uart": 1, "port": port}]))
        script.send_signal(signal.SIGINT)
        out, _ = script.communicate(timeout=10)
    assert b"room/temperature" in out


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# A web page


@contextlib.contextmanager
def web_page():
    """Run the web server of the example; return its address, and its process."""
    try:
        microdot = served.microdot() / "src"
    except Unavailable as reason:
        pytest.skip(str(reason))
    port = free_port()
    with on_unix("web_page.py", MACHINE, [microdot], PORT=port, EVERY=0.1) as server:
        until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        yield f"127.0.0.1:{port}", server


def test_web_page_has_live_values_and_switches_a_lamp():
    with web_page() as (address, server):
        assert b"new WebSocket" in urllib.request.urlopen(f"http://{address}").read()
        with connect(f"ws://{address}/live") as page, connect(f"ws://{address}/live") as other:
            seen = [json.loads(page.recv(10)) for _ in range(4)]
            assert ["room/lamp", "off"] in seen
            assert len({value for topic, value in seen if topic == "room/temperature"}) == 3
            page.send("on")
            assert server.stdout.readline() == b"GPIO 15 1\n"
            while json.loads(other.recv(10)) != ["room/lamp", "on"]:
                pass


def test_web_page_lives_in_a_browser(tmp_path):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("there is no Chromium here; Debian has it in chromium")
    command = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-port=0",
    ]
    with web_page() as (address, server):
        with running([*command, f"--user-data-dir={tmp_path}", f"http://{address}"]) as browser:
            said = iter(browser.stderr.readline, b"")
            devtools = next(line.split()[-1] for line in said if b"DevTools listening" in line)
            host = devtools.decode().split("/")[2]
            pages = []

            def opened():
                pages[:] = json.load(urllib.request.urlopen(f"http://{host}/json/list"))
                return pages and address in pages[0]["url"]

            until(opened)
            with connect(pages[0]["webSocketDebuggerUrl"]) as tab:

                def evaluate(expression):
                    params = {"expression": expression}
                    tab.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": params}))
                    return json.loads(tab.recv(10))["result"]["result"].get("value")

                def text(topic):
                    return evaluate(f"document.getElementById('{topic}').textContent")

                until(lambda: text("room/lamp") == "off")
                before = text("room/temperature")
                until(lambda: text("room/temperature") not in (before, "?"))
                evaluate("document.querySelector('button').click()")
                assert server.stdout.readline() == b"GPIO 15 1\n"
                until(lambda: text("room/lamp") == "on")
