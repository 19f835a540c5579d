"""QEMU's targets and rp2: how a script ends, stimuli from outside, and the state afterwards."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools.bootstrap import ROOT
from tools.targets.child import free_port, running


@pytest.fixture(scope="module", params=["qemu", "rp2"])
def board(request):
    return request.getfixturevalue(request.param)


# How a script ends


def test_output_and_traceback_are_apart(board):
    result = board.run("print('before')\nraise ValueError('ä')\nprint('after')")
    assert (result.out, result.ok, result.timed_out) == ("before\n", False, False)
    assert result.err.splitlines()[1:] == [
        '  File "<stdin>", line 2, in <module>',
        "ValueError: ä",
    ]


def test_each_run_begins_afresh(board):
    assert board.run("import sys\nsys.modules['x'] = 1").ok
    assert board.run("import sys\nprint('x' in sys.modules)").out == "False\n"


def test_script_with_a_syntax_error(board):
    assert "SyntaxError" in board.run("x = (\n" + "# more than one window\n" * 20).err


def test_long_script(board):
    script = "".join(f"print({n})\n" for n in range(500))
    assert board.run(script).out == "".join(f"{n}\n" for n in range(500))


@pytest.mark.parametrize("script", ["while True: pass", "import time\nwhile True: time.sleep(1)"])
def test_time_limit_keeps_what_was_printed(board, script):
    result = board.run("print('begun')\n" + script, timeout=2)
    assert (result.out, result.ok, result.timed_out) == ("begun\n", False, True)


def test_reset_is_a_failure(board):
    result = board.run("import machine\nmachine.reset()")
    assert (result.ok, result.err) == (False, "the board has been reset\n")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name, program", [("qemu", "qemu-system-arm"), ("rp2", "node")])
def test_no_emulator_is_left_running(name, program, sent, request):
    request.getfixturevalue(name)
    script = f"""
import signal
from tools import targets
signal.signal(signal.SIGINT, signal.default_int_handler)
with targets.get({name!r}) as target:
    print("started", flush=True)
    target.run("while True: pass")
"""
    with running([sys.executable, "-c", script], cwd=ROOT) as pytest_:
        pytest_.stdout.readline()
        assert until(lambda: program in children(pytest_.pid))
        (emulator,) = children(pytest_.pid)[program]
        pytest_.send_signal(sent)
        assert until(lambda: not alive(emulator))


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_tests_that_are_interrupted_leave_no_emulator_running(sent, qemu, rp2, tmp_path):
    file = tmp_path / "device" / "test_hang.py"
    file.parent.mkdir()
    file.write_text("def test_hang():\n  while True: pass\n")
    options = ["--target=all", "-k", "not unix", "-p", "tests.conftest", "--rootdir", tmp_path]
    command = [sys.executable, "-m", "tools", "test", *options, file]
    with running(command, cwd=ROOT) as tests:
        n = os.cpu_count()
        assert until(lambda: len(emulators(tests.pid)) >= min(n, 4), 60)
        left = emulators(tests.pid)
        tests.send_signal(sent)
        assert until(lambda: not any(map(alive, left)))
        assert tests.wait(60) != 0


def emulators(parent):
    found = children(parent)
    return [
        pid
        for name in ("qemu-system-arm", "qemu-system-ris", "node")
        for pid in found.get(name, [])
    ]


def children(parent):
    """Return {program: [pid, ...]} of the processes that a process has started."""
    ps = ["ps", "-o", "pid=,comm=", "--ppid", str(parent)]
    found = {}
    for line in subprocess.run(ps, capture_output=True, text=True).stdout.splitlines():
        pid, program = line.split(None, 1)
        found.setdefault(program, []).append(int(pid))
    return found


def alive(pid):
    ps = subprocess.run(["ps", "-o", "stat=", str(pid)], capture_output=True, text=True)
    return ps.stdout.strip()[:1] not in ("", "Z")


def until(condition, timeout=10):
    end = time.monotonic() + timeout
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


# qemu


def test_hard_interrupt_runs_at_once_and_with_the_heap_locked(chip):
    result = chip.run("""
import hwirq
def handler(irq):
    global n
    n += 1
    try:
        bytearray(100)
    except MemoryError:
        n += 10
n = 0
hwirq.irq(1, handler, hard=True)
hwirq.pend(1)
print(n)
hwirq.irq(1, None)
hwirq.pend(1)
print(n)
""")
    assert (result.out, result.err) == ("11\n11\n", "")


def test_soft_interrupt_runs_later(chip):
    script = (
        "import hwirq\nhwirq.irq(1, lambda irq: print('soft'))\nhwirq.pend(1)\nfor _ in (0,): pass"
    )
    assert chip.run(script).out == "soft\n"


def test_hardware_timer_keeps_its_period(chip):
    result = chip.run("""
import hwirq, time
def handler(irq):
    global n
    n += 1
n = 0
hwirq.irq(hwirq.TIMER, handler, hard=True)
hwirq.timer(200)
time.sleep_ms(100)
hwirq.timer(0)
print(n)
time.sleep_ms(10)
print(n)
""")
    first, second = map(int, result.out.split())
    assert first == second and 495 <= first <= 505


def test_ticks_wrap_where_they_are_told_to(chip):
    result = chip.run("""
import hwirq, time
hwirq.set_ticks((1 << 30) - 5)
t = time.ticks_ms()
time.sleep_ms(20)
print(t, time.ticks_ms(), time.ticks_diff(time.ticks_ms(), t))
""")
    before, after, between = map(int, result.out.split())
    assert before > after and 20 <= between <= 21


def test_bad_arguments_of_hwirq(chip):
    calls = ["irq(0, print)", "pend(32)", "timer(-1)", "priority(1, 0x40)", "priority(32, 0x80)"]
    for call in calls:
        assert "ValueError" in chip.run(f"import hwirq\nhwirq.{call}").err


def test_interrupts_call_machine_code_but_on_a_chip_without_an_emitter(chip):
    result = chip.run("""
from asyncio_alt import Interrupt
print(type(Interrupt.__call__) is type(lambda: 0))
try:
    exec("@micropython.viper\\ndef f(): pass")
    print(False)
except SyntaxError:
    print(True)
""")
    bytecode = str(chip.name == "qemu-m0")
    assert result.out.split() == [bytecode] * 2, result.err


# rp2

ECHO_PIN = """
import time
from machine import Pin
led = Pin(15, Pin.OUT, value=0)
def edge(pin):
    led(1)
    led(0)
Pin(5, Pin.IN).irq(edge, Pin.IRQ_RISING, hard=True)
"""


def test_a_script_asks_for_edges_and_they_are_timed(rp2):
    result = rp2.run(
        ECHO_PIN
        + """
print('#EMU {"watch": 15}')
print('#EMU {"pin": 5, "value": 1, "after_us": 2000}')
print('#EMU {"pin": 5, "value": 0, "after_us": 3000}')
t = time.ticks_us()
time.sleep_ms(10)
print(t)
"""
    )
    (edge_us, *edge), (on_us, *on), (_, *off), (back_us, *back) = result.events
    assert (edge, on, off, back) == (["in5", 1], ["pin15", 1], ["pin15", 0], ["in5", 0])
    assert 5 < on_us - edge_us < 20  # the handler's first write
    asked_us = int(result.out)  # by the board's own clock, and with nothing of "#EMU" in it
    assert 1900 < edge_us - asked_us < 2100
    assert back_us - edge_us > 1000  # the second line was printed later


def test_a_test_gives_edges_and_two_runs_are_equal(rp2):
    stimuli = [{"watch": 15}] + [
        {"pin": 5, "value": value, "after_us": 15000 + 1000 * n + 100 * (not value)}
        for n in range(20)
        for value in (1, 0)
    ]
    first = rp2.run(ECHO_PIN + "time.sleep_ms(60)", stimuli=stimuli)
    again = rp2.run(ECHO_PIN + "time.sleep_ms(60)", stimuli=stimuli)
    assert [what for _, what, value in first.events if value == 1] == ["in5", "pin15"] * 20
    assert first.events == again.events and first.us == again.us


UART = "import time\nfrom machine import UART\nuart = UART(1, 115200)\n"


def test_uart_bytes_in_and_out(rp2):
    result = rp2.run(
        UART + "time.sleep_ms(20)\nprint(uart.read())\nuart.write('xyz')\ntime.sleep_ms(2)",
        stimuli=[{"uart": 1, "data": "ab", "repeat": 3, "after_us": 10000}],
    )
    assert (result.out, result.err) == ("b'ababab'\n", "")
    assert [(what, chr(byte)) for _, what, byte in result.events] == [("uart1", c) for c in "xyz"]


def test_uart_bytes_that_nobody_takes_are_lost_and_counted(rp2):
    result = rp2.run(
        UART + "time.sleep_ms(100)\nprint(len(uart.read()))",
        stimuli=[{"uart": 1, "data": "0123456789", "repeat": 50, "after_us": 10000}],
    )
    lost = [event for event in result.events if event[1] == "uart1-lost"]
    assert int(result.out) + len(lost) == 500 and len(lost) > 100


ECHO_UART = """
print("ready")
time.sleep_ms(100)  # bytes that come meanwhile have to wait
n = 0
while n < 1000:
    data = uart.read()
    if data:
        n += len(data)
        while data:
            data = data[uart.write(data) or 0:]
uart.flush()
"""


def test_uart_that_ends_at_a_port_loses_no_byte_and_takes_its_time(rp2):
    sent = bytes(n % 256 for n in range(1000))
    back = []

    def talk(line):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(sent)
            while data := s.recv(1000):
                back.append(data)

    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        stimuli = [{"uart": 1, "port": port}]
        told = lambda line: pool.submit(talk, line)  # noqa: E731
        result = rp2.run(UART + ECHO_UART, told=told, stimuli=stimuli)
    assert result.ok and b"".join(back) == sent, result.err
    byte_us = 1e7 / 115200
    came = [us for us, what, _ in result.events if what == "uart1-in"]
    assert len(came) == 1000 and came[-1] - came[0] > 999 * byte_us * 0.99
    assert result.us > 1000 * byte_us  # and no byte leaves sooner than it can
    assert result.us < result.seconds * 1e6  # no time is skipped
    assert "-lost" not in str(result.events)
    assert rp2.run("print('gone')").out == "gone\n"


def test_a_bad_line_for_the_emulator_is_said_so(rp2):
    for line in ('{"pim": 5}', "{"):
        result = rp2.run(f"print('#EMU {line}')\nimport time\ntime.sleep(1)")
        assert not result.ok and line in result.err


def test_idle_time_is_simulated_time(rp2):
    begin = time.monotonic()
    result = rp2.run("import time\ntime.sleep(30)", timeout=60)
    assert result.ok and 30e6 < result.us < 30.1e6
    assert time.monotonic() - begin < 10


def test_files_can_be_written(rp2):
    result = rp2.run("with open('a', 'w') as f: f.write('x' * 5000)\nprint(len(open('a').read()))")
    assert result.out == "5000\n"


def test_lightsleep_ends_by_its_alarm_or_a_pin(rp2):
    script = """
import machine, time
from machine import Pin
def slept(ms):
    t = time.ticks_us()
    machine.lightsleep(ms)
    return time.ticks_diff(time.ticks_us(), t)
print(slept(50))
Pin(5, Pin.IN).irq(lambda pin: None, Pin.IRQ_RISING, hard=True)
print('#EMU ' + %r)
print(slept(50))
"""
    edge = json.dumps({"pin": 5, "value": 1, "after_us": 20000})
    whole, cut = map(int, rp2.run(script % edge).out.split())
    assert 50000 < whole < 51000 and 19000 < cut < 21000
