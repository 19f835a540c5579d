"""The target device=PORT, with the firmware of ports/qemu as the board."""

import subprocess
import sys

import pytest

from asyncio_alt import pc
from tools import Problem, targets
from tools.bootstrap import ROOT
from tools.targets.child import running


@pytest.fixture
def port(board):
    """Return the port of a board."""
    return board[1]


def test_scripts_run_and_fail_and_hang(port):
    with targets.get("device", port=port) as board:
        assert {"hwirq", "schedule", "c-tasks"} <= board.features
        result = board.run("import sys\nsys.modules['x'] = 1\nprint('hello')")
        assert (result.out, result.err, result.ok) == ("hello\n", "", True)
        result = board.run("import sys\nprint('x' in sys.modules)\nraise ValueError('so')")
        assert result.out == "False\n" and not result.ok
        assert result.err.endswith("line 3, in <module>\nValueError: so\n")
        for hang in ("while True: pass", "while True: print('on')"):
            result = board.run(f"print('before')\n{hang}", timeout=1)
            assert result.out.startswith("before\n") and result.timed_out and not result.ok
        assert board.run("print('after')").out == "after\n"


def test_device_tests_run_on_a_board(port):
    file = "tests/device/test_lock_event.py"
    command = [sys.executable, "-m", "tools", "test", f"--target=device={port}", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "test_lock_event.py .." in done.stdout


def test_of_much_output_the_newest_is_kept(port, monkeypatch):
    monkeypatch.setattr(pc.targets, "KEPT", 1000)
    pieces = []
    script = "for i in range(999): print(i, end=' ')\nprint('end')"
    for target in targets.get("device", port=port), targets.get("qemu"):
        with target as board:
            result = board.run(script, told=pieces.append)
        assert result.out.endswith(" 998 end\n") and 1000 <= len(result.out) <= 2001
        assert "".join(pieces).startswith("0 1 2 ") and "".join(pieces).endswith("998 end\n")
        pieces.clear()


def test_a_port_without_a_board_is_said_so():
    with pytest.raises(Problem, match="/dev/nonexistent"):
        targets.get("device", port="/dev/nonexistent").start()


def test_a_board_is_traced(port, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio\nasync def main():\n  await asyncio.sleep_ms(5)\nasyncio.run(main())\n"
    )
    for tool in (["trace", "-o", tmp_path], ["top", "--period=0.01"]):
        command = [sys.executable, "-m", "tools", *tool, script, f"--target=device={port}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert '"main"' in (tmp_path / "trace.json").read_text()


def test_a_board_that_goes_away_is_told_in_one_line(board, tmp_path):
    process, port = board
    script = tmp_path / "script.py"
    script.write_text("import time\nwhile True:\n  print('on')\n  time.sleep(0.01)\n")
    command = [sys.executable, "-m", "tools", "trace", script, f"--target=device={port}"]
    with running(command, cwd=ROOT) as tool:
        assert tool.stdout.readline() == b"on\n"
        process.kill()
        _, err = tool.communicate(timeout=30)
    assert tool.returncode == 1 and err.count(b"\n") == 1 and port.encode() in err, err
