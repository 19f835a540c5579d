"""The commands in a real terminal, in a pipe and with neither; boards may send anything."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
from concurrent.futures import ThreadPoolExecutor

import pytest

from asyncio_alt import pc
from asyncio_alt.pc import __main__ as command
from asyncio_alt.pc.__main__ import COMMANDS
from tools import Problem, Unavailable, WrongArgument, __main__, targets
from tools.__main__ import TOOLS
from tools.bench import TOOLS as BENCH
from tools.bootstrap import ROOT
from tools.mosquitto import Mosquitto
from tools.targets.child import free_port, running
from tools.targets.unix import micropython

_LIMIT = 240  # seconds that anything here may take
_TOOL = [sys.executable, "-m", "tools"]
_COMMAND = [sys.executable, "-m", "asyncio_alt.pc"]
_SHOW_CURSOR = b"\x1b[?25h"

_BOARD = r"""
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen

ODD = ("t/\x1b]0;owned\x07", "t/[ok]", "t/[/x]", "t/\u202egpj", "t/\r\nalarm/fire")


async def main():
    broker = Broker()
    for topic in ODD:
        broker.publish(topic, "v\x1b[2J\r\n[red]\x9b", retain=True)
    async with Link(broker, Listen("127.0.0.1", PORT), ["#"], ["set/#"]):
        n = 0
        while True:
            await asyncio.sleep_ms(50)
            n += 1
            broker.publish("count", n)


asyncio.run(main())
"""

SCRIPT = r"""
import asyncio

class Odd:
    # A coroutine of a class of its own.
    def __init__(self, name):
        self.name = name
    def __repr__(self):
        if not self.name:
            raise ValueError("no name")
        return "<x '" + self.name + "' at 1>"
    def send(self, value):
        raise StopIteration
    throw = send

async def main():
    for name in ("$\\frac", "a b", "[/x]", "l\n#TRACE end\x1b[2J", "\u202eb", ""):
        asyncio.create_task(Odd(name))
    print("#TRACE x", "#TRACE run 1 2", "#TOP {", sep="\n")
    print("\x1b]0;owned\x07 [ok] [/x]\r")
    for _ in range(10):
        await asyncio.sleep_ms(20)
        print("no line end", end="")

asyncio.run(main())
"""


@contextlib.contextmanager
def board_at(port, source=_BOARD):
    environment = {**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"}
    with running([micropython()], env=environment) as process:
        process.stdin.write(source.replace("PORT", str(port)).encode())
        process.stdin.close()
        yield process


@pytest.fixture(scope="module")
def where():
    """Return HOST:PORT of a board."""
    port = free_port()
    with board_at(port):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def broker():
    try:
        with Mosquitto() as broker:
            yield f"mqtt://127.0.0.1:{broker.port}"
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def line(args):
    """Return the command line of a tool, or, with asyncio-alt ahead, of a command of that."""
    first, *rest = map(str, args)
    return [*_COMMAND, *rest] if first == "asyncio-alt" else [*_TOOL, first, *rest]


class Terminal:
    """A pseudo-terminal in which one command runs, as the job in its foreground."""

    def __init__(self, args, columns=100, cwd=ROOT):
        self.main, self._child = pty.openpty()
        self.resize(columns)
        self.before = termios.tcgetattr(self._child)
        self.text = b""
        environment = {**os.environ, "TERM": "xterm"}
        for name in "COLUMNS", "LINES", "NO_COLOR":
            environment.pop(name, None)
        self.process = subprocess.Popen(
            line(args),
            stdin=self._child,
            stdout=self._child,
            stderr=self._child,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            cwd=cwd,
            env={**environment, "PYTHONPATH": str(ROOT)},
        )

    def resize(self, columns):
        fcntl.ioctl(self._child, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        os.close(self.main)
        os.close(self._child)

    def read_until(self, *marks):
        """Read until all marks have come, or, without a mark, the command has ended."""
        end = time.monotonic() + _LIMIT
        while not (marks and all(mark in self.text for mark in marks)):
            assert time.monotonic() < end, self.text[-2000:]
            if select.select([self.main], [], [], 0.05)[0]:
                self.text += os.read(self.main, 65536)
            elif not marks and self.process.poll() is not None:
                break

    def end(self):
        """Return the command's exit code; all that it has said is in text."""
        self.read_until()
        assert termios.tcgetattr(self._child) == self.before
        hidden, shown = self.text.rfind(b"\x1b[?25l"), self.text.rfind(_SHOW_CURSOR)
        assert hidden <= shown, "the cursor stays hidden"
        return self.process.returncode


def in_terminal(*args, columns=100):
    with Terminal(args, columns) as terminal:
        return terminal.end(), harmless(terminal.text)


def harmless(text):
    """Return a text without rich's controls for a table; no other control may be in it."""
    text = re.sub(rb"\x1b\[[0-9;?]*[A-KlhmK]", b"", text).decode()
    text = text.replace("\r\n", "\n").replace("\r", "")
    odd = [c for c in text if not c.isprintable() and c != "\n"]
    assert not odd and "Traceback" not in text and "\nalarm" not in text, text
    return text


def tool(*args, **options):
    command = line(args)
    options = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "timeout": _LIMIT, **options}
    return subprocess.run(command, capture_output=True, **options)


# In a terminal


@pytest.mark.parametrize("columns", [100, 20])
def test_topics_of_a_board_in_a_terminal(where, columns):
    code, text = in_terminal("topics", where, "--seconds", "1", columns=columns)
    assert code == 0, text
    assert "count" in text and "[ok]" in text and "[/x]" in text and "\\x1b" in text
    if columns == 100:
        assert "t/\\r\\nalarm/fire" in text and "t/\\u202egpj" in text
        assert "v\\x1b[2J\\r\\n[red]\\x9b" in text and "connected" in text


@pytest.mark.parametrize("columns", [100, 20])
def test_trace_and_top_in_a_terminal(script, tmp_path, columns):
    code, text = in_terminal("trace", script, "-o", tmp_path, columns=columns)
    assert code == 0 and "main" in text and "0 events before" in " ".join(text.split()), text
    assert "#TRACE x" in text and "\\x1b]0;owned\\x07 [ok] [/x]" in text.replace("\n", "")
    names = {
        e["args"]["name"]
        for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        if e["name"] == "thread_name"
    }
    odd = {"$\\frac", "a b", "[/x]", "l\\n#TRACE end\\x1b[2J", "\\u202eb", "Odd"}
    assert names == {"loop", "main"} | odd
    picture = (tmp_path / "trace.svg").read_text()
    assert "\\u202eb" in picture and "$\\frac" in picture
    code, text = in_terminal("top", script, "--period", "0.05", columns=columns)
    assert code == 0 and "main" in text and "(sleep)" in text and "no line end" in text, text


def test_a_terminal_is_resized(where):
    with Terminal(["topics", where, "--seconds", "2"]) as terminal:
        terminal.read_until(b"messages")
        terminal.resize(20)
        terminal.text = b""
        terminal.read_until(b"count")
        terminal.resize(120)
        assert terminal.end() == 0
        harmless(terminal.text)


@pytest.mark.parametrize(
    "words, mark",
    [
        ("topics WHERE", b"messages"),
        ("top SCRIPT", b"owned"),
        ("trace SCRIPT", b"owned"),
        ("asyncio-alt bench unix", b"passes"),
        ("asyncio-alt page WHERE --port 0", b"http://"),
    ],
)
def test_ctrl_c_ends_a_command_with_130(words, mark, where, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("range(10)", "range(10**6)"))
    stands = {"WHERE": where, "SCRIPT": script}
    with Terminal([stands.get(word, word) for word in words.split()]) as terminal:
        terminal.read_until(mark)
        os.write(terminal.main, b"\x03")
        assert terminal.end() == 130
        harmless(terminal.text.replace(b"^C", b""))


@pytest.mark.parametrize("name", ["install", "doctor", "bench", "trace --target"])
def test_ctrl_c_ends_what_waits_for_a_silent_board_with_130(name):
    main, child = pty.openpty()
    tty.setraw(child)
    try:
        with Terminal(["asyncio-alt", *name.split(), os.ttyname(child)]) as terminal:
            while b"\x01" not in os.read(main, 1000):
                pass
            os.write(terminal.main, b"\x03")
            assert terminal.end() == 130
            assert harmless(terminal.text.replace(b"^C", b"")).strip() == ""
    finally:
        os.close(main)
        os.close(child)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x1b[2J\r\nraw REPL; CTRL-B to exit\r\n>",
        b"\r\nraw REPL; CTRL-B to exit\r\n>soft reboot\r\nraw REPL; CTRL-B to exit\r\n>\x04",
    ],
)
def test_a_board_that_is_silent_or_lies_is_said_so_in_one_line(answer, monkeypatch):
    monkeypatch.setattr("asyncio_alt.pc.device._RESTART", 0.3)
    monkeypatch.setattr("asyncio_alt.pc.device._ANSWER", 0.1)
    main, child = pty.openpty()
    tty.setraw(child)
    over = threading.Event()

    def lie():
        while not over.wait(0.01):
            os.write(main, answer)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lie)
        try:
            with pytest.raises(Problem) as problem:
                command.main(["install", os.ttyname(child)])
        finally:
            over.set()
    said = str(problem.value)
    assert os.ttyname(child) in said and said.isprintable()
    os.close(main)
    os.close(child)


# Each tool, with its shortest run; OUT is a folder of the test's own.
_RUNS = {
    "demo": "--rounds 1 -o OUT",
    "test": "--collect-only -q tests/device/test_flags.py",
    "bench stock": "--only ended --repeats 1",
    "bench frames": "--rounds 1 -o OUT",
    "bench messages": "--repeats 1 -o OUT",
    "bench shared": "--repeats 1 -o OUT",
    "bench soak": "--seconds 0",
    "bench pubsub": "--day unix --messages 600 -o OUT",
    "bench hops": "--repeats 1 -o OUT",
    "size": "--json OUT/size.json",
    "trace": "SCRIPT -o OUT",
    "top": "SCRIPT --period 0.05",
    "bench power": "STATS",
    "bench report": "-o OUT/report.html benchmarks",
    "upstream": "extmod/asyncio_basic",
    "api": "",
    "firmware": "qemu -o OUT/firmware.elf",
    "ports": "--kind qemu",
    "topics": "WHERE --seconds 0.5",
    "mip-index": "OUT/index",
    "release": "--no-firmware -o OUT/dist",
    "boards": "",
    "asyncio-alt install": "OUT",
    "asyncio-alt doctor": "unix",
    "asyncio-alt bench": "unix -o OUT/bench.json",
    "asyncio-alt topics": "WHERE --seconds 0.5",
    "asyncio-alt page": "WHERE --port 0 --seconds 0.5",
    "asyncio-alt trace": "SCRIPT --target unix -o OUT",
    "asyncio-alt top": "SCRIPT --target unix --period 0.05",
}
_MEASURES = {"demo", *(f"bench {name}" for name in BENCH)} - {"bench power", "bench report"}
# With --target all only; those that measure for long run in a narrow terminal only.
_LONG = _MEASURES - {"bench stock", "bench pubsub"}
_SLOW = {*_LONG, "firmware", "ports", "asyncio-alt bench"}
_STATS = "{'asleep_ms': 900, 'awake_ms': 100, 'sleeps': 5}"
# Not in a narrow terminal only.
_QUICK = {"bench power", "api", "topics", "asyncio-alt install", "asyncio-alt doctor"}


@pytest.mark.parametrize("name", _RUNS)
def test_each_tool_in_a_terminal_a_pipe_and_a_file(name, request, tmp_path):
    everything = request.config.getoption("--target") == "all"
    if name in _SLOW and not everything:
        pytest.skip("with --target all only")
    stands = {"STATS": _STATS}
    if "SCRIPT" in _RUNS[name]:
        stands["SCRIPT"] = request.getfixturevalue("script")
    if "WHERE" in _RUNS[name]:
        stands["WHERE"] = request.getfixturevalue("where")
    words = [stands.get(word, word) for word in _RUNS[name].split()]

    def args(folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        return [
            *name.split(),
            *(str(word).replace("OUT", str(tmp_path / folder)) for word in words),
        ]

    codes = (0, 1) if name in _MEASURES else (0,)  # 1: a figure is missed

    def check(code, text):
        if code == 1 and b"error: there is no" in text:
            pytest.skip(text.decode())
        failed = code and b"error: " in text
        assert code in codes and not failed and b"Traceback (most" not in text, text

    def in_pipe():
        done = tool(*args("pipe"))
        check(done.returncode, done.stdout + done.stderr)

    def to_file():
        with open(tmp_path / "said", "w+b") as said:
            said_to = dict.fromkeys(("stdin", "stdout", "stderr"), said)
            command = line(args("file"))
            code = subprocess.run(command, cwd=ROOT, timeout=_LIMIT, **said_to).returncode
            said.seek(0)
            check(code, said.read())

    with ThreadPoolExecutor(2) as pool:  # two at once take as long as one of them
        others = []
        if (everything and name not in _LONG) or name in _QUICK:
            others = [pool.submit(in_pipe), pool.submit(to_file)]
        for columns in (20, 100) if others and name not in _SLOW else (20,):
            code, text = in_terminal(*args("terminal"), columns=columns)
            check(code, text.encode())
        for other in others:
            other.result()


def test_each_tool_is_run_here():
    bench = {f"bench {name}" for name in BENCH}
    own = {f"asyncio-alt {name}" for name in COMMANDS}
    assert {*_RUNS} == {*TOOLS, *bench, *own} - {"bench"}


def test_a_tool_runs_with_nothing_open():
    done = subprocess.run(f"{' '.join(_TOOL)} api >&- <&- 2>&-", shell=True, cwd=ROOT)
    assert done.returncode == 0


def test_a_stopped_terminal_does_not_keep_it(where):
    # Ctrl-S.
    with Terminal(["topics", where, "--seconds", "1"]) as terminal:
        terminal.read_until(b"count")
        os.write(terminal.main, b"\x13")
        assert terminal.end() == 0


def wanted(request, *names):
    if request.config.getoption("--target") not in (*names, "all"):
        pytest.skip(f"with --target {', '.join(names)} or all only")


@pytest.mark.parametrize("columns", [100, 20])
def test_an_emulated_pico_in_a_terminal(rp2_or_skip, tmp_path, columns):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    code, text = in_terminal("trace", script, "-o", tmp_path, "--target", "rp2", columns=columns)
    assert code == 0 and "main" in text and "\\x1b]0;owned" in text.replace("\n", ""), text
    code, text = in_terminal("top", script, "--target", "rp2", "--period", "0.05", columns=columns)
    assert code == 0 and "main" in text and "(sleep)" in text, text
    with rp2_or_skip.board() as port:
        target = f"--target=device={port}"
        code, text = in_terminal("top", script, target, "--period", "0.05", columns=columns)
        assert code == 0 and "main" in text and "(sleep)" in text, text
        code, text = in_terminal("trace", script, target, "-o", tmp_path, columns=columns)
        assert code == 0 and "main" in text, text


_PICO = r"""
import asyncio_alt as asyncio
from machine import UART
from asyncio_alt.pubsub import Broker, Link, Serial


async def main():
    broker = Broker()
    end = asyncio.Event()
    broker.subscribe_call("end", lambda topic, payload: end.set())
    for topic in ("t/\x1b]0;owned\x07", "t/[ok]", "t/[/x]"):
        broker.publish(topic, "v\x1b[2J\r\n[red]", retain=True)
    async with Link(broker, Serial(UART(1, 115200), calls=False), ["t/#"], ["end"]) as link:
        await end.wait()
        await asyncio.sleep_ms(500)  # so that it is acknowledged
    print(end.is_set())


asyncio.run(main())
"""


def test_topics_of_an_emulated_pico_in_a_terminal(rp2_or_skip):
    port = free_port()
    where = f"socket://127.0.0.1:{port}"
    with ThreadPoolExecutor(1) as pool:
        board = pool.submit(rp2_or_skip.run, _PICO, 60, stimuli=[{"uart": 1, "port": port}])
        until_listening(port, board)
        try:
            for columns in 100, 20:
                with Terminal(["topics", where], columns) as terminal:
                    terminal.read_until(b"[ok]", b"[/x]", b"\\x1b")
                    os.write(terminal.main, b"\x03")
                    assert terminal.end() == 130
                    harmless(terminal.text.replace(b"^C", b""))
        finally:
            done = tool("topics", where, "--publish", "end", "1")
        assert done.returncode == 0, done.stderr
        result = board.result()
        assert result.out.endswith("True\n"), result.err


@pytest.fixture
def rp2_or_skip(request):
    wanted(request, "rp2")
    return request.getfixturevalue("rp2")


def until_listening(port, board):
    while not board.done():
        with contextlib.suppress(OSError), open("/proc/net/tcp") as table:
            if f"0100007F:{port:04X} 00000000:0000 0A" in table.read():
                return
        time.sleep(0.05)


# In a pipe


def test_nothing_of_a_board_is_a_command_or_a_line_in_a_pipe(where):
    done = tool("topics", where, "--filter", "t/#", "--seconds", "0.5")
    assert done.returncode == 0 and not done.stderr
    lines = harmless(done.stdout).splitlines()
    assert len(lines) == 5 and all(line.startswith("t/") for line in lines)


@pytest.mark.parametrize("options", [[], ["--filter", "t/#"]])
def test_a_closed_pipe_ends_it_silently_at_once(where, options):
    # The second one has nothing more to say, and ends all the same.
    with subprocess.Popen(
        [*_TOOL, "topics", where, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        for _ in range(5 if options else 1):
            process.stdout.readline()
        process.stdout.close()
        assert process.wait(_LIMIT) == 141 and process.stderr.read() == b""


def test_a_closed_pipe_ends_what_prints_all_the_time(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("range(10)", "range(10**6)").replace('", end=""', '"'))
    with subprocess.Popen(
        [*_TOOL, "trace", path], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(_LIMIT) == 141 and process.stderr.read() == b""


def test_a_reader_that_stands_still_does_not_keep_it(broker):
    # The pipe is full: the time that it was given holds, Ctrl-C does.
    assert tool("topics", broker, "--retain", "--publish", "big", "x" * 100000).returncode == 0
    for seconds, code in (("0.5", 0), ("60", 130)):
        with subprocess.Popen(
            [*_TOOL, "topics", broker, "--seconds", seconds], cwd=ROOT, stdout=subprocess.PIPE
        ) as process:
            until_full(process.stdout, code)
            if code:
                process.send_signal(signal.SIGINT)
            assert process.wait(_LIMIT) == code


@pytest.mark.parametrize("name", ["trace", "top"])
def test_a_reader_that_stands_still_does_not_keep_what_runs_a_script(name, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("range(10)", "range(10**6)").replace('", end=""', '" * 99'))
    folder = ["-o", str(tmp_path)] if name == "trace" else []
    for seconds, code in (("1", 0), ("60", 130)):
        command = [*_TOOL, name, str(script), "--seconds", seconds, *folder]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            until_full(process.stdout, code)
            if code:
                process.send_signal(signal.SIGINT)
            assert process.wait(_LIMIT) == code
    if folder:
        assert (tmp_path / "trace.json").exists()


def until_full(pipe, wait):
    """Have a pipe take little; wait until it is full, if that is asked for."""
    fcntl.fcntl(pipe, 1031, 4096)  # F_SETPIPE_SZ
    if wait:
        end = os.open(f"/proc/self/fd/{pipe.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
        while select.select([], [end], [], 0)[1]:
            time.sleep(0.05)
        os.close(end)


def test_of_much_output_the_newest_is_kept(monkeypatch):
    monkeypatch.setattr(pc.targets, "KEPT", 10000)
    monkeypatch.setattr(pc.targets, "_LINE", 1000)
    pieces = []
    with targets.get("unix") as unix:
        source = "for i in range(30000): print(i, end=' ' if i > 5000 else '\\n')\nprint('end')"
        result = unix.run(source, told=pieces.append)
    assert result.ok and result.out.endswith(" 29999 end\n") and 10000 <= len(result.out) <= 20000
    assert "".join(pieces).startswith("0\n1\n") and "".join(pieces).endswith(result.out)
    assert max(map(len, pieces)) < 1000 + 65536 and len(pieces) > 5000


# Messages that are published, recorded, lost


def test_what_cannot_be_published_is_said_so(where):
    for topic, payload, why in (
        ("set/a", "x" * 3000, "not sent"),
        ("set/" + "x" * 300, "1", "255 bytes"),
    ):
        done = tool("topics", where, "--publish", topic, payload)
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1, done.stderr
        assert why in done.stderr.decode() and topic[:20] in done.stderr.decode()
    assert tool("topics", where, "--publish", "set/a", "1").returncode == 0


_BUSY = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen


async def main():
    broker = Broker()
    messages = broker.subscribe("end", policy="block", maxlen=1)
    broker.publish("end", "the queue is full")
    async with Link(broker, Listen("127.0.0.1", PORT), ["t"], ["end"]):
        for _ in range(100):
            broker.publish("t", "was not asked for")
            await asyncio.sleep_ms(20)
        async for topic, payload in messages:
            print(payload)


asyncio.run(main())
"""


def test_what_was_not_asked_for_is_no_answer():
    # It comes between a message that is published and the acknowledgement of that.
    port = free_port()
    with board_at(port, _BUSY):
        done = tool("topics", f"127.0.0.1:{port}", "--publish", "end", "1")
    assert done.returncode == 0, done.stderr


def test_many_topics_and_large_payloads_are_drawn_in_time(broker):
    import asyncio

    import aiomqtt

    async def publish():
        async with aiomqtt.Client("127.0.0.1", int(broker.rpartition(":")[2])) as client:
            await client.publish("a/large", b"\x1b" + b"x" * 1000000, retain=True)
            for n in range(5000):
                await client.publish(f"many/{n}", "1", retain=True)

    asyncio.run(publish())
    begin = time.monotonic()
    code, text = in_terminal("topics", broker, "--seconds", "2")
    assert code == 0 and time.monotonic() - begin < 20
    assert "more topics" in text and "1,000,001 bytes" in text and len(text) < 100000


def test_a_full_disk_ends_the_record_with_one_line(where):
    done = tool("topics", where, "--record", "/dev/full")
    assert done.returncode == 1
    assert done.stderr == b"error: --record /dev/full: No space left on device\n"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*_TOOL, "topics", where], cwd=ROOT, stdout=full, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), done.stderr


def test_a_board_that_goes_away_is_told_in_one_line():
    port = free_port()
    with (
        board_at(port) as board,
        subprocess.Popen(
            [*_TOOL, "topics", f"127.0.0.1:{port}", "--seconds", "3"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        process.stdout.readline()
        board_ended = time.monotonic()
        board.kill()
        out, err = process.communicate(timeout=_LIMIT)
        assert process.returncode == 0 and time.monotonic() - board_ended < 20, err
        assert err.count(b"\n") == 1 and b"not connected" in err, err


def test_garbage_on_a_serial_line_is_said_in_one_line():
    main, child = pty.openpty()
    try:
        with subprocess.Popen(
            [*_TOOL, "topics", os.ttyname(child)], cwd=ROOT, stderr=subprocess.PIPE
        ) as process:
            while process.poll() is None:
                select.select([], [main], [], 0.1)
                os.write(main, os.urandom(100))
                time.sleep(0.05)
            said = process.stderr.read()
        assert process.returncode == 1 and said.count(b"\n") == 1 and b"no connection" in said
    finally:
        os.close(main)
        os.close(child)


# As on Windows, as far as that can be tried elsewhere

_WINDOWS = """
import select, signal, sys
sys.modules["termios"] = None
del signal.SIGALRM, signal.setitimer, signal.pthread_kill, select.poll
from asyncio_alt.pc import __main__, ending
print(ending.run(__main__.main, sys.argv[1:]))
"""


def test_topics_need_nothing_that_only_posix_has(where):
    command = [sys.executable, "-c", _WINDOWS, "topics", where, "--filter", "count"]
    done = subprocess.run(
        [*command, "--seconds", "0.5"], cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT
    )
    *lines, code = done.stdout.splitlines()
    assert code == "0" and lines and lines[0].startswith("count "), done.stderr


# Wrong arguments


@pytest.mark.parametrize(
    "args",
    [
        "topics 127.0.0.1:65536",
        "topics mqtt://127.0.0.1:abc",
        "topics mqtt://[::1",
        "topics a..b:80",
        "topics mqtts://h",
        "topics /dev/null --baud -5",
        "topics h:1 --seconds nan",
        "topics h:1 --filter a/#/b",
        "topics h:1 --publish a/+ 1",
        "topics h:1 --record /nonexistent/x",
        "top LATIN",
        "top /nonexistent.py",
        "top LATIN --seconds inf",
        "top LATIN --period nan",
        "top LATIN --threshold 0",
        "top LATIN --target device=socket://h:65536",
        "trace LATIN -o /nonexistent/x",
        "trace LATIN -o /dev/null",
        "trace LATIN --size 1e3",
        "trace :main.py",
        "bench soak --seconds nan",
        "size --json /nonexistent/x",
        "size --micropython-src /nonexistent",
        "bench report /nonexistent",
        "bench report -o /nonexistent/x",
        "api -o /",
        "mip-index /nonexistent/x",
        "release -o /dev/null",
        "firmware unix --heap 50000",
        "firmware qemu --heap -5",
        "firmware rp2 -o x.hex",
        "bench power --ma nan 1",
        "bench power [[[",
        "bench pubsub --messages 5",
        "bench stock --repeats 0",
        "bench x",
        "demo -o /nonexistent/x",
        "bench hops -o /nonexistent/x",
        "bench frames --rounds x",
        "bench shared --repeats -1",
        "bench messages -o /nonexistent/x",
        "upstream --target x",
        "test --target x",
        "bench stock --only x",
        "bench hops --repeats 0",
        "bench frames --rounds 1e3",
        "demo --rounds 0",
        "bench pubsub --repeats nan",
        "bench pubsub --messages 601",
        "bench pubsub --messages 0",
        "upstream no_such_test",
        "release --tag v9.8.7",
        "release --tag=",
        "asyncio-alt install --parts pubsub,x",
        "asyncio-alt install socket://h:65536",
        "asyncio-alt install a b",
        "asyncio-alt doctor socket://h:0",
        "asyncio-alt doctor --x",
        "asyncio-alt bench unix -o /nonexistent/x",
        "asyncio-alt bench socket://h:x",
        "asyncio-alt trace --target socket://h:99999",
        "asyncio-alt page",
        "asyncio-alt page h:0",
        "asyncio-alt page h:1 --port 65536",
        "asyncio-alt x",
    ],
)
def test_wrong_argument_is_said_in_one_line_that_names_it(args, tmp_path, capsys):
    (tmp_path / "latin.py").write_bytes(b"x = '\xff'\n")
    args = args.replace("LATIN", str(tmp_path / "latin.py")).split()
    with pytest.raises(WrongArgument) as wrong:
        if args[0] == "asyncio-alt":
            command.main(args[1:])
        else:
            __main__.main(args)
    said = str(wrong.value)
    assert "\n" not in said and capsys.readouterr() == ("", ""), said
    options = [word.partition("=")[0] for word in args if re.match("-[a-z-]", word)]
    names = options[-1:] or ["WHERE", "SCRIPT", "DIR", "STATS", "NAME", "PORT", "arguments"]
    assert any(name in said for name in names), said
    if "--repeats" in args or "--rounds" in args or "--messages" in args:
        assert re.search("from [0-9]+ to [0-9]+", said), said


@pytest.mark.parametrize("args", ["x", "topics h:0", "upstream no_such_test", "release --tag x"])
def test_a_wrong_argument_ends_it_with_2(args):
    done = tool(*args.split())
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and not done.stdout


@pytest.mark.parametrize("name", ["trace", "top"])
def test_a_port_that_is_not_there_is_said_in_one_line(name, script):
    done = tool(name, script, "--target", "device=/dev/nonexistent")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1, done.stderr
    assert b"/dev/nonexistent" in done.stderr and not done.stdout


def test_a_password_is_never_shown(broker):
    host = broker.removeprefix("mqtt://")
    for where in (f"u:pa%2Fss@{host}", "u:pa/ss@127.0.0.1", "u:pass@127.0.0.1:1", "u:pa/ss@h:x"):
        code, text = in_terminal("topics", f"mqtt://{where}", "--seconds", "0.5")
        assert "pa" not in text.replace("path", "").replace("password", "")
        assert code in (0, 1, 2)
    done = tool("topics", "mqtt://u:pass@h", "--oops=mqtt://u:pass@h")
    assert b"pass" not in done.stderr
