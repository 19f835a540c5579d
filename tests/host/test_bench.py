"""The bench itself: the command line, the unix target, and how device tests are collected."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asyncio_alt.pc import screen
from asyncio_alt.pc.show import number
from tools import size, targets
from tools.__main__ import TOOLS, main
from tools.bench import TOOLS as BENCH
from tools.bench import stock
from tools.bootstrap import ROOT
from tools.targets.child import running
from tools.targets.qemu import NAMES as QEMUS


def tools(*args):
    return subprocess.run(
        [sys.executable, "-m", "tools", *args], cwd=ROOT, capture_output=True, text=True
    )


@pytest.fixture
def device_tests(tmp_path):
    """Return a function that runs pytest on a device test file of the given text."""

    def run(text, *options, name="test_task.py"):  # a file of the core
        file = tmp_path / "device" / name
        file.parent.mkdir()
        file.write_text(text)
        # A second for a test that hangs, not twenty.
        (tmp_path / "conftest.py").write_text("import tests.conftest as c\nc._TIMEOUT = 1\n")
        pytest_ = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-v", "--color=no"]
        where = ["-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, file]
        return subprocess.run(
            [*pytest_, *options, *where], cwd=ROOT, capture_output=True, text=True
        ).stdout

    return run


@pytest.fixture
def unix(tmp_path):
    with targets.get("unix", path=[tmp_path]) as target:
        yield target


# The command line


@pytest.mark.parametrize("args, names", [([], TOOLS), (["bench"], BENCH)])
def test_no_tool_named_shows_them_all(args, names):
    done = tools(*args)
    assert done.returncode == 2 and 9 <= len(names) <= 14
    for name, (_, text) in names.items():
        assert re.search(rf"^  {name} +{re.escape(text)}$", done.stdout, re.MULTILINE)


def test_unknown_tool_and_option_are_said_in_one_line():
    for args, wrong in ((["tset"], "'tset'"), (["size", "--jsom=x"], "--jsom=x")):
        done = tools(*args)
        assert done.returncode == 2
        assert wrong in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", [*TOOLS, *(f"bench {name}" for name in BENCH)])
def test_each_tool_has_help(name):
    done = tools(*name.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert f"python3 -m tools {name}" in done.stdout


def test_a_problem_is_said_in_one_line():
    done = tools("size", "--micropython-src", "/nonexistent")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "/nonexistent" in done.stderr


def test_old_python_is_told_what_is_needed():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.version_info = (3, 9, 1); import tools"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "need Python 3.10 or newer" in done.stderr and "Traceback" not in done.stderr


# What the tool test runs


def collected(*options):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    return [line for line in text.splitlines() if "::" in line]


def test_all_chips_together_run_each_test_and_with_long_each_chip_does():
    file = "tests/device/test_irq.py"
    everywhere = collected("--target=qemu", file)
    shared = [name for name in collected("--target=all", file) if "[qemu" in name]
    tests = re.sub(r"-(m4|m0|rv32)", "", "\n".join(shared)).split("\n")
    assert sorted(tests) == sorted(everywhere)
    assert {re.search(r"\[(qemu[^]]*)", name)[1] for name in shared} >= {*QEMUS}
    assert [name for name in shared if "floating_point" in name and "[qemu-m4]" in name]
    whole = [name for name in collected("--target=all", "--long", file) if "[qemu" in name]
    assert len(whole) == len(QEMUS) * len(everywhere)


def test_without_arguments_only_what_is_quick_runs_and_it_is_said_how_to_run_the_rest(
    monkeypatch, capsys
):
    quick = collected("--quick", "tests/device/test_flags.py", "tests/host")
    assert quick and not any("-power]" in name or "test_bench.py" in name for name in quick)
    for args, has in (([], True), (["--target", "unix"], False), (["-k", "x"], False)):
        monkeypatch.setattr(pytest, "main", lambda options, plugins: "--quick" in options and 9)
        assert bool(main(["test", *args])) == has
        said = capsys.readouterr().out
        assert ("--target all" in said and "--long" in said) == has


def test_a_long_test_runs_with_long_only(device_tests, tmp_path):
    (tmp_path / "test_long.py").write_text(
        "import pytest\n@pytest.mark.long\ndef test_it(): pass\n"
    )
    text = "def test_it(): pass"
    assert "1 skipped" in device_tests(text, tmp_path / "test_long.py", "--task-py")


# The unix target


def test_result_of_a_script_that_ends(unix):
    result = unix.run("print('hello')")
    assert (result.out, result.err, result.ok, result.timed_out) == ("hello\n", "", True, False)
    assert 0 < result.seconds < 5


def test_result_of_a_script_that_raises(unix):
    result = unix.run("print('before')\nraise ValueError('so')")
    assert result.out == "before\n"
    assert "line 2, in <module>\nValueError: so\n" in result.err
    assert not result.ok


def test_result_of_a_script_that_hangs(unix):
    result = unix.run("print('before')\nwhile True: pass", timeout=0.5)
    assert (result.out, result.ok, result.timed_out) == ("before\n", False, True)
    assert result.seconds < 5


def test_what_a_hanging_script_started_is_killed_with_it(unix):
    script = "import os\nos.system('sleep 1000 & echo $!')\nwhile True: pass"
    pid = int(unix.run(script, timeout=0.5).out)
    wait_until(lambda: not alive(pid))


def test_path_comes_ahead_of_frozen_modules(unix, tmp_path):
    (tmp_path / "asyncio.py").write_text("print('mine')")
    assert unix.run("import asyncio").out == "mine\n"


def test_features_of_the_unix_port(unix):
    assert {"c-tasks", "sockets", "threads", "schedule"} <= unix.features
    assert not {"pin-irq", "lightsleep", "emu"} & unix.features


def test_interrupt_leaves_nothing_running(tmp_path):
    pid_file = tmp_path / "pid"
    file = tmp_path / "device" / "test_hang.py"
    file.parent.mkdir()
    hang = f"import os\n  os.system('echo $PPID > {pid_file}')\n  while True: pass\n"
    file.write_text(f"def test_hang():\n  {hang}")
    for ending in (signal.SIGINT, signal.SIGTERM):
        pid_file.unlink(missing_ok=True)
        command = ["-m", "tools", "test", "-p", "tests.conftest", "--rootdir", tmp_path, file]
        with running([sys.executable, *command], cwd=ROOT) as process:
            wait_until(lambda: pid_file.exists() and pid_file.read_text())
            assert alive(int(pid_file.read_text()))
            process.send_signal(ending)
            assert process.wait(10) != 0
            wait_until(lambda: not alive(int(pid_file.read_text())))


def alive(pid):
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()  # dead, and nobody asked yet
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return True


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Device tests


def test_a_test_runs_with_tasks_in_c_and_in_python_and_with_power_mode(device_tests):
    text = (
        "def test_c_tasks():\n  import _asyncio\n  assert hasattr(_asyncio, 'Task')\n"
        "def test_no_c_tasks():\n  raises(ImportError, exec, 'from _asyncio import Task')\n"
        "def test_power_mode():\n  from asyncio_alt import power_mode\n  assert power_mode()\n"
    )
    out = device_tests(text)
    outcomes = dict(re.findall(r"::(\S+) (PASSED|FAILED)", out))
    assert outcomes == {
        "test_c_tasks[unix]": "PASSED",
        "test_c_tasks[unix-py]": "FAILED",
        "test_c_tasks[unix-power]": "PASSED",
        "test_no_c_tasks[unix]": "FAILED",
        "test_no_c_tasks[unix-py]": "PASSED",
        "test_no_c_tasks[unix-power]": "FAILED",
        "test_power_mode[unix]": "FAILED",
        "test_power_mode[unix-py]": "FAILED",
        "test_power_mode[unix-power]": "PASSED",
    }


def test_an_optional_part_runs_with_tasks_in_c_only(device_tests):
    out = device_tests("def test_it(): pass", name="test_part.py")
    assert "2 passed" in out and "unix-py" not in out


def test_task_py_leaves_out_tasks_in_c(device_tests):
    out = device_tests("def test_it(): pass", "--task-py")
    assert "test_it[unix-py] PASSED" in out and "1 passed" in out


def test_the_other_tests_of_a_file_are_not_sent(device_tests):
    text = (
        "@needs('threads')\ndef test_a():\n  assert 'test_b' not in globals()\n"
        "def help(): pass\n"
        "async def test_b():\n  pass\n"
        "def test_c():\n  help()\n  assert 'test_a' not in globals()\n"
    )
    assert "6 passed" in device_tests(text, "-k", "test_a or test_c")


def test_missing_feature_skips_with_the_reason(device_tests):
    out = device_tests("@needs('threads', 'pin-irq')\ndef test_it(): pass")
    assert "3 skipped" in out and "test_task.py:2: unix has no pin-irq" in out


def test_tasks_in_python_are_no_tasks_in_c(device_tests):
    out = device_tests("@needs('c-tasks')\ndef test_it(): pass")
    assert "2 passed, 1 skipped" in out and "unix-py has no c-tasks" in out


def test_feature_that_is_none_is_an_error(device_tests):
    out = device_tests("def test_a(): pass\n@needs('socket')\ndef test_b(): pass")
    assert "1 error" in out and "test_task.py:3: needs('socket')" in out


def test_syntax_error_is_shown_with_its_line(device_tests):
    out = device_tests("def test_a(): pass\ndef test_b(: pass")
    assert "1 error" in out and "test_task.py:2: invalid syntax" in out


def test_failure_shows_what_the_device_said_and_nothing_else(device_tests):
    text = "def helper():\n  return 1 // 0\n\ndef test_it():\n  print('hello')\n  helper()\n"
    out = device_tests(text, "--task-py")
    assert (
        "---- printed on unix-py ----\n"
        "hello\n"
        "Traceback (most recent call last):\n"
        '  File "device/test_task.py", line 6, in test_it\n'
        '  File "device/test_task.py", line 2, in helper\n'
        "ZeroDivisionError: divide by zero\n"
    ) in out
    assert "conftest" not in out and "stdin" not in out


def test_hang_fails_with_what_was_printed(device_tests):
    out = device_tests("def test_it():\n  print('hello')\n  while True: pass", "--task-py")
    assert "not finished after 1 s\n---- printed on unix-py ----\nhello\n" in out


def test_script_that_exits_early_has_not_passed(device_tests):
    out = device_tests("import sys\ndef test_it(): sys.exit()")
    assert "3 failed" in out and "the script ended before the test did" in out


# Sizes


def test_sizes_of_two_packages(tmp_path):
    core = (
        "def create_task(coro): return coro\n"
        "async def sleep_ms(ms): pass\n"
        "def run(coro):\n  try: coro.send(None)\n  except StopIteration: pass\n"
    )
    stock, ours = tmp_path / "extmod" / "asyncio", tmp_path / "asyncio_alt"
    for package in (stock, ours):
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from .core import *\n")
        (package / "core.py").write_text(core)
        (package / "task.py").write_text("class Task: pass\n")
        (package / "lock.py").write_text("class Lock: pass\n")
    (ours / "wake.py").write_text("BELL = 'a bell'\n")
    (ours / "core.py").write_text("from . import wake\nassert True, 'frozen without'\n" + core)
    (ours / "pubsub").mkdir()
    (ours / "pubsub" / "__init__.py").write_text("from .broker import Broker\n")
    (ours / "pubsub" / "broker.py").write_text("class Broker: pass\n")
    (tmp_path / "py").mkdir()
    (tmp_path / "py" / "mpconfig.h").write_text("#define MICROPY_VERSION_MAJOR 1\n")

    report = size.measure(ours, tmp_path)

    loaded = {step["step"]: step["modules"] for step in report["steps"]["ours"]}
    assert loaded == {
        "base": ["__init__", "core", "wake"],
        "lock": ["lock"],
        "pubsub": ["pubsub", "pubsub.broker"],
        "pubsub.broker": [],
        "wake": [],
    }
    modules = report["modules"]["ours"]
    assert modules["core"]["mpy -O3"] < modules["core"]["mpy"]
    base, alike, everything = report["sets"].values()
    assert base["ours"]["mpy"] == sum(modules[m]["mpy"] for m in ("__init__", "core", "wake"))
    assert 0 < base["stock"]["heap"] < base["ours"]["heap"] < alike["ours"]["heap"]
    assert alike["ours"]["heap"] < everything["ours"]["heap"] and "stock" not in everything


def test_a_number_has_two_digits_whatever_its_sign():
    shown = [number(value) for value in (0, 0.0123, -0.5, -3, 12.34, -123.4)]
    assert shown == ["0", "0.012", "-0.5", "-3", "12.3", "-123"]


def test_a_table_names_what_is_missed_without_markup(capsys):
    report = json.loads((ROOT / "benchmarks" / "unix.json").read_text())
    screen.console(width=200).print(stock._table(report))
    said = capsys.readouterr().out
    assert " ok" in said and "[green]" not in said and "[default]" not in said
