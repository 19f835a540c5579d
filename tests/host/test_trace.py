"""The tools trace and top: the scripts they run, their files, and their output."""

import argparse
import json
import re
import shutil
import time
import xml.etree.ElementTree

import pytest

from asyncio_alt.pc import top, trace
from tools import Problem, Unavailable, targets
from tools.bootstrap import ROOT
from tools.targets.unix import Unix

SCRIPT = """
import asyncio
import time

async def blink():
    while True:
        await asyncio.sleep_ms(5)

async def hog():
    await asyncio.sleep_ms(20)
    begin = time.ticks_ms()
    while time.ticks_diff(time.ticks_ms(), begin) < 150:
        pass

async def urgent(flag):
    await flag.wait(priority=True)

async def main():
    flag = asyncio.ThreadSafeFlag()
    tasks = [asyncio.create_task(coro) for coro in (blink(), hog(), urgent(flag))]
    await asyncio.sleep_ms(10)
    flag.set()
    await tasks[1]
    await asyncio.sleep_ms(30)
    print("that was it")

asyncio.run(main())
"""


def run(tool, folder, script, *options):
    """Run a tool on a script; return its exit code."""
    path = folder / "script.py"
    path.write_text(script)
    return main(tool, str(path), *options)


def main(tool, *args):
    parser = argparse.ArgumentParser()
    tool.add_arguments(parser, **targets.ONE)
    return tool.main(parser.parse_args(args))


def traced(folder, script, *options):
    """Return the exit code of the tool trace, and the events that it has written."""
    code = run(trace, folder, script, "-o", str(folder / "made"), *options)
    return code, json.loads((folder / "made" / "trace.json").read_text())["traceEvents"]


def rows(text):
    """Return the rows of a table: first cell to all."""
    return {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}


# trace


@pytest.mark.parametrize("name", targets.NAMES)
def test_trace_on_each_target(name, tmp_path, capsys, request):
    if name != "unix" and request.config.getoption("--target") not in (name, "all"):
        pytest.skip(f"with --target {name} or all only")
    try:
        code, events = traced(tmp_path, SCRIPT, "--target", name, "--threshold", "100")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert code == 0
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    # run() itself is a task at its end, made of a generator expression.
    assert sorted(names.values()) == ["<genexpr>", "blink", "hog", "loop", "main", "urgent"]
    check(events)

    of = {name: [e for e in events if names[e["tid"]] == name] for name in names.values()}
    runs = {name: [e for e in of[name] if e["ph"] == "X"] for name in of}
    assert [e["args"]["why"] for e in runs["urgent"]] == ["start", "priority flag"]
    assert [e["name"] for e in of["urgent"] if e["ph"] == "i"] == ["priority flag"]
    assert [e["args"]["why"] for e in runs["hog"]] == ["start", "timer"]
    assert max(e["args"]["late (us)"] for e in runs["blink"]) > 100000  # the hog ran
    assert {e["name"] for e in runs["loop"]} <= {"sleep", "poll"}

    out = capsys.readouterr().out
    assert "that was it" in out and "#TRACE" not in out
    assert re.search(r"trace: blocked for 1\d\d ms by <generator object 'hog'", out)
    assert rows(out)["hog"][-5:-2] == ["1", "×,", "to"]

    picture = (tmp_path / "made" / "trace.svg").read_text()
    xml.etree.ElementTree.fromstring(picture)
    assert "hog 1" in picture and "urgent" in picture


def check(events):
    """Check that events have the format of chrome://tracing and Perfetto."""
    ends = {}
    for event in events:
        assert {"ph", "pid", "tid", "name"} <= set(event)
        if event["ph"] == "M":
            continue
        assert event["ph"] in ("X", "i") and isinstance(event["ts"], int) and event["ts"] >= 0
        if event["ph"] == "i":
            assert event["s"] == "t"
            continue
        # In order, and one after the other: on a thread, and on one chip.
        assert isinstance(event["dur"], int) and event["dur"] >= 0
        assert event["ts"] >= ends.get(event["tid"], 0), event
        ends[event["tid"]] = event["ts"] + event["dur"]
    assert ends


def test_trace_of_more_than_the_ring_holds(tmp_path, capsys):
    code, events = traced(tmp_path, SCRIPT, "--size", "16")
    assert code == 0 and len([e for e in events if e["ph"] != "M"]) <= 16
    check(events)
    assert re.search(r"\d+ events before these were not kept", capsys.readouterr().out)


def test_trace_is_ended_by_the_clock(tmp_path, capsys):
    forever = (
        "import asyncio_alt\nasync def tick():\n  while True: await asyncio_alt.sleep(0.01)\n"
    )
    code, events = traced(tmp_path, forever + "asyncio_alt.run(tick())", "--seconds", "0.1")
    assert code == 0 and len([e for e in events if e["name"] == "tick"]) > 5
    assert capsys.readouterr().err == ""


def test_trace_of_a_script_that_fails(tmp_path, capsys):
    code, events = traced(tmp_path, SCRIPT.replace("print(", "raise ValueError("))
    assert code == 1
    check(events)
    assert "ValueError: that was it" in capsys.readouterr().out


def test_trace_of_what_has_no_loop_and_never_ends_and_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(Problem, match="no loop"):
        run(trace, tmp_path, "print(1)", "-o", str(tmp_path))
    with pytest.raises(Problem, match="SyntaxError"):
        run(trace, tmp_path, "print(", "-o", str(tmp_path))
    monkeypatch.setattr(trace, "_LIMIT", 0.5)
    with pytest.raises(Problem, match="--seconds"):
        run(trace, tmp_path, "while True: pass", "-o", str(tmp_path))
    args = argparse.Namespace(script=str(tmp_path / "nothing.py"), threshold=1, seconds=0)
    with pytest.raises(Problem, match=r"nothing\.py"):
        trace.driver(args, "")


def test_board_without_the_module_is_said_so(tmp_path, monkeypatch):
    ignore = shutil.ignore_patterns("trace*")
    shutil.copytree(ROOT / "asyncio_alt", tmp_path / "lib" / "asyncio_alt", ignore=ignore)
    monkeypatch.setitem(targets.ONE, "get", lambda name: Unix(path=[tmp_path / "lib"]))
    with pytest.raises(Problem, match="--parts trace"):
        run(trace, tmp_path, SCRIPT, "-o", str(tmp_path))


PROGRAM = f"""
import asyncio_alt, asyncio_alt.trace
asyncio_alt.trace.start(3000)
asyncio_alt.install()
{SCRIPT.replace("sleep_ms(30)", "sleep_ms(print('begun') or 10**6)")}
"""


def test_program_of_the_boards_own(tmp_path, capsys, request):
    if request.config.getoption("--target") not in ("rp2", "all"):
        pytest.skip("with --target rp2 or all only")
    with request.getfixturevalue("rp2").board() as port:
        with targets.get(f"device={port}") as board:
            # One that the tool runs; later one that runs when the tool comes.
            save = f"with open('main.py', 'w') as f: f.write({SCRIPT!r})"
            assert board.run(save).ok
        options = ["--target", f"device={port}", "-o", str(tmp_path)]
        with pytest.raises(Problem, match="has not called"):
            main(trace, *options)
        main(trace, ":main.py", *options)
        assert "that was it" in capsys.readouterr().out
        assert runs(tmp_path)["hog"] == ["start", "timer"]

        with targets.get(f"device={port}") as board, pytest.raises(Enough):
            board.run(PROGRAM, told=enough)
        main(trace, *options)
    assert runs(tmp_path)["urgent"] == ["start", "priority flag"]
    assert runs(tmp_path)["hog"] == ["start", "timer"]


def enough(line):
    raise Enough


def runs(folder):
    """Return why the tasks of a trace ran: their coroutines' names to the reasons in order."""
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X" and "args" in event:
            found[names[event["tid"]]].append(event["args"]["why"])
    return found


def test_program_of_a_board_is_not_looked_for_elsewhere(tmp_path):
    for args in ([], [":main.py"]):
        with pytest.raises(Problem, match="not for --target unix"):
            main(trace, *args, "-o", str(tmp_path))
    with pytest.raises(Problem, match="not for --target unix"):
        main(top, ":main.py")


def test_what_blocked_is_read_from_a_line():
    read = trace.named
    assert read("trace: blocked for 12 ms by <generator object 'hog' at 2000aaf0>\n") == (
        "hog",
        12,
    )
    assert read("trace: blocked for 7 ms by callbacks\n") == ("callbacks", 7)
    assert read("blocked for 7 ms by me\n") is None


# top


def test_top_shows_who_takes_the_time_and_who_blocked(tmp_path, capsys):
    options = ["--period", "0.1", "--threshold", "100"]
    assert run(top, tmp_path, SCRIPT, *options) == 0
    out = capsys.readouterr().out
    shown = rows(out)
    assert "that was it" in out and "#TOP" not in out
    assert {"hog", "blink", "main", "(sleep)", "late", "latest"} <= set(out.split())
    assert shown["hog"][-5:-2] == ["1", "×,", "to"] and "%" in shown["hog"]


def test_top_is_ended_by_the_clock_and_says_what_failed(tmp_path, capsys):
    forever = SCRIPT + "\nasyncio.run(blink())"
    begin = time.monotonic()
    assert run(top, tmp_path, forever, "--period", "0.1", "--seconds", "0.3") == 0
    assert time.monotonic() - begin < 60
    with pytest.raises(Problem, match="ValueError: that was it"):
        run(top, tmp_path, SCRIPT.replace("print(", "raise ValueError("))


# A target's output while a script runs


class Enough(Exception):
    pass


@pytest.mark.parametrize("name", targets.NAMES)
def test_lines_are_told_as_they_come(name, request):
    if name != "unix" and request.config.getoption("--target") not in (name, "all"):
        pytest.skip(f"with --target {name} or all only")
    lines = []

    def told(line):
        lines.append(line)
        if len(lines) == 3:
            raise Enough

    try:
        with targets.get(name) as target, pytest.raises(Enough):
            target.run("n = 0\nwhile True:\n  print('line', n)\n  n += 1", told=told)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert lines == ["line 0\n", "line 1\n", "line 2\n"]


def test_result_is_the_same_where_lines_are_told():
    script = "import sys\nprint('é')\nprint('no', file=sys.stderr)\nprint('end', end='')\n"
    with targets.get("unix") as unix:
        lines = []
        told = unix.run(script, told=lines.append)
        result = unix.run(script)
        assert (told.out, told.err, told.ok) == (result.out, result.err, True)
        assert sorted(lines) == ["end", "no\n", "é\n"]
        hung = unix.run(script + "while True: pass", timeout=1, told=lines.append)
        assert (hung.out, hung.timed_out, hung.ok) == (result.out, True, False)
