"""The commands for a board: install, doctor and bench; on MicroPython's unix port, and on emulated
boards."""

import argparse
import collections
import contextlib
import json
import os
import re
import subprocess
import sys

import pytest

from asyncio_alt.pc import Problem, bench, device, parts, targets
from asyncio_alt.pc.ask import ask
from tests.host.conftest import started
from tools import boards
from tools.bootstrap import ROOT
from tools.targets.unix import micropython

README = (ROOT / "README.md").read_text("utf-8")
FIRST_PROGRAM = re.search(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[1]

# The pin's edge comes from the board itself: the output of a pin is seen at its input.
EDGE = """
import machine
edge = lambda timer: machine.Pin(5, machine.Pin.OUT, value=1)
timer = machine.Timer(period=300, mode=machine.Timer.ONE_SHOT, callback=edge)
"""


def command(*args, **options):
    words = [sys.executable, "-m", "asyncio_alt.pc", *map(str, args)]
    options = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "timeout": 240, **options}
    return subprocess.run(words, capture_output=True, text=True, **options)


# On the unix port


def imported(folder, name):
    """Return the file that the unix port imports a module from."""
    script = f"import {name}\nprint({name}.__file__)"
    environment = {**os.environ, "MICROPYPATH": f"{folder}:.frozen"}
    return subprocess.check_output(
        [micropython(), "-c", script], env=environment, text=True, cwd="/"
    )


def test_a_folder_gets_what_is_missing_and_nothing_else(tmp_path):
    done = command("install", tmp_path, "--parts", "idle,mqtt")
    assert done.returncode == 0 and "The check passed" in done.stdout, done.stderr
    package = tmp_path / "asyncio_alt"
    assert imported(tmp_path, "asyncio_alt.core") == f"{package}/core.mpy\n"
    assert (package / "pubsub" / "mqtt.mpy").exists() and not (package / "irq.mpy").exists()
    files = len(parts.files(["idle", "mqtt"]))
    assert f"files: {files} written, 0 were there" in done.stdout
    # One that is damaged, one that would hide another; parts that are there need no name.
    (package / "idle.mpy").write_bytes(b"?")
    (package / "core.py").write_text("stale")
    done = command("install", tmp_path)
    assert f"files: 2 written, {files - 2} were there" in done.stdout, done.stderr
    assert not (package / "core.py").exists() and (package / "idle.mpy").read_bytes() != b"?"
    done = command("install", tmp_path)
    assert f"files: 0 written, {files} were there" in done.stdout, done.stderr


def test_one_that_is_broken_off_is_no_package_until_it_is_whole(tmp_path):
    stale = tmp_path / "asyncio_alt" / "__init__.mpy"
    (tmp_path / "asyncio_alt" / "wake.mpy").mkdir(parents=True)  # in the way
    stale.write_bytes(b"of an older version")
    done = command("install", tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "wake.mpy" in done.stderr
    assert not stale.exists() and (tmp_path / "asyncio_alt" / "core.mpy").exists()
    (tmp_path / "asyncio_alt" / "wake.mpy").rmdir()
    assert command("install", tmp_path).returncode == 0 and stale.exists()


def test_unix_is_the_folder_that_the_unix_port_looks_in(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "MICROPYTHON": micropython()}
    done = command("install", "unix", env=environment)
    assert done.returncode == 0, done.stderr
    environment.pop("MICROPYPATH", None)
    script = "import asyncio_alt.core\nprint(asyncio_alt.core.__file__)"
    said = subprocess.check_output(
        [micropython(), "-c", script], env=environment, text=True, cwd="/"
    )
    assert said == f"{tmp_path}/.micropython/lib/asyncio_alt/core.mpy\n"
    done = command("install", "unix", "--frozen-check", env=environment)
    assert (done.returncode, done.stdout.count("has no asyncio_alt in its firmware")) == (1, 1)


def test_doctor_tells_what_the_unix_port_has():
    said = " ".join(command("doctor", "unix").stdout.split())
    assert "TCP, UDP yes" in said and "interrupts of Pin none" in said
    assert "power mode this port has no machine.lightsleep" in said


@pytest.mark.parametrize(
    "answer, types",
    [
        ("{'n': -1}", {"n": int}),
        ("{'n': True}", {"n": int}),
        ("{'n': 2**60}", {"n": int}),
        ("{'n': '1'}", {"n": int}),
        ("{'n': ['a', 1]}", {"n": list}),
        ("{}", {"n": str}),
        ("[1]", {"n": str}),
        ("None", {"n": str}),
        ("1/0", {"n": str}),
    ],
)
def test_a_board_that_answers_nonsense_is_said_so_in_one_line(answer, types):
    with targets.get("unix") as unix, pytest.raises(Problem) as problem:
        ask(unix, f"print('#')\nanswer = {answer}", **types)
    assert "\n" not in str(problem.value)


def test_texts_of_a_board_are_escaped():
    with targets.get("unix") as unix:
        said = ask(unix, r"answer = {'t': '\x1b[2J', 'l': ['\n' * 999]}", t=str, l=list)
        with pytest.raises(Problem, match=r"\\x1b\[2J") as problem:
            ask(unix, r"raise ValueError('\x1b[2J' + 'x' * 9999)")
    assert said["t"] == "\\x1b[2J" and said["l"][0].endswith("(999 characters)")
    assert len(str(problem.value)) < 500


Port = collections.namedtuple("Port", "device vid")  # as pyserial lists them


@pytest.mark.parametrize(
    "ports, said",
    [
        ([Port("/dev/ttyS0", None)], "no board is connected by USB; name a port"),
        ([Port("COM4", 1), Port("COM3", 1)], "2 boards are connected: COM3, COM4; name a port"),
    ],
)
def test_without_a_port_it_is_the_only_board(ports, said, monkeypatch):
    monkeypatch.setattr(device.list_ports, "comports", lambda: ports)
    with pytest.raises(Problem, match=said):
        targets.get(None)
    monkeypatch.setattr(device.list_ports, "comports", lambda: [*ports[:1], Port("COM9", 2)])
    if ports[0].vid is None:
        assert targets.get(None).port == "COM9"


# On an emulated Pico, with the firmware as it comes


@pytest.fixture(scope="module")
def pico(request):
    """Return the port of an emulated Pico whose flash has no package."""
    if request.config.getoption("--target") not in ("rp2", "all"):
        pytest.skip("with --target rp2 or all only")
    for target in started("rp2", stock=True):
        with target.board() as port:
            yield port


def test_a_pico_gets_it_and_runs_the_first_program_of_the_readme(pico):
    done = command("install", pico, "--parts", "idle")
    assert done.returncode == 0, done.stderr
    assert "is on Raspberry Pi Pico with RP2040, MicroPython 1." in done.stdout
    assert re.search(r"^flash: [\d,]+ bytes, in /lib/asyncio_alt$", done.stdout, re.M)
    assert re.search(r"^heap:  [\d,]+ of [\d,]+ bytes", done.stdout, re.M)
    with targets.get(f"device={pico}") as board:
        result = board.run(EDGE + FIRST_PROGRAM + "\nprint(motor.value(), 'end')")
    assert (result.out, result.err) == ("0 end\n", "")
    done = command("install", pico)
    assert re.search(r"^files: 0 written", done.stdout, re.M), done.stderr
    with targets.get(f"device={pico}") as board:
        board.run("import os\nos.remove('/lib/asyncio_alt/wake.mpy')")
        board.run("import os\nos.mkdir('/lib/asyncio_alt/wake.mpy')")
    done = command("install", pico)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "/lib/asyncio_alt/wake.mpy: Is a directory" in done.stderr
    with targets.get(f"device={pico}") as board:
        board.run("import os\nos.rmdir('/lib/asyncio_alt/wake.mpy')")
    assert command("install", pico).returncode == 0
    done = command("install", pico, "--frozen-check")
    assert done.returncode == 1 and "has no asyncio_alt in its firmware" in done.stdout


def test_doctor_of_a_pico(pico):
    said = " ".join(command("doctor", pico).stdout.split())
    assert "Raspberry Pi Pico with RP2040, 125 MHz (rp2)" in said
    assert "interrupts of Pin may be hard" in said and "asyncio_alt /lib/asyncio_alt" in said
    assert re.search("power mode sleeps: (2[0-9][0-9]|300) of 300 ms", said), said


def test_bench_of_a_pico(request, tmp_path, monkeypatch, capsys):
    if request.config.getoption("--target") not in ("rp2", "all"):
        pytest.skip("with --target rp2 or all only")
    # Without a port, so that the emulator skips the time in which nothing happens.
    pico = request.getfixturevalue("rp2")
    monkeypatch.setattr(targets, "get", lambda port: contextlib.nullcontext(pico))
    few = [each for each in bench.EXPERIMENTS if each.script in ("passes", "heap")]
    monkeypatch.setattr(bench, "EXPERIMENTS", few)
    file = tmp_path / "pico.json"
    args = argparse.Namespace(port="unix", name="a Pico", file=file)
    assert bench.main(args) == 0
    assert capsys.readouterr().out.startswith("| a Pico | stock | asyncio_alt | ratio |\n")
    report = json.loads(file.read_text())
    assert report["board"] == "a Pico" and report["installed"] == "in the firmware"
    assert report["machine"] == "Raspberry Pi Pico with RP2040" and report["mhz"] == 125
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures["Pass while 30 flags are waited for"]["ratio"] < 0.5


# On a board with the package in its firmware, and without a file system


def test_firmware_that_has_it_is_left_alone(board):
    port = board[1]
    done = command("install", port, "--frozen-check")
    assert (done.returncode, done.stdout) == (
        0,
        f"the board on {port} has asyncio_alt in its firmware\n",
    ), done.stderr
    done = command("install", port)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "in its firmware" in done.stderr


# The page of boards


def test_the_page_has_the_files_of_the_boards():
    assert boards.page() == boards.PAGE.read_text("utf-8"), "python3 -m tools boards"


def test_a_file_of_something_else_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(boards, "FOLDER", tmp_path)
    for text in ("{", "[]", "{}", '{"board": 1}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(Problem, match=r"x\.json: it is no file of asyncio-alt bench"):
            boards.page()
