"""Run a script, record its loop, and draw when each task ran.

In the script asyncio means asyncio_alt, and its output is shown. When it ends, or after
--seconds, the newest events of its loop are written: to DIR/trace.json, which ui.perfetto.dev and
chrome://tracing open, and to DIR/trace.svg. That has a row for each task, with why it ran and for
how long it had been ready before. Tasks that blocked the loop are named.

SCRIPT is a file on the PC, or with a colon, as :main.py, one on the board. Without it the
program that runs on the board is interrupted; it must have called asyncio_alt.trace.start().
"""

import ast
import collections
import dataclasses
import json
import re
import secrets
from pathlib import Path

from rich import box
from rich.table import Table

from asyncio_alt.pc import Problem, WrongArgument, arguments, ending, targets
from asyncio_alt.pc.screen import console, escaped, print_line
from asyncio_alt.pc.show import figure_style, number, save

# The code for the target; values replace the names in capitals.
_HEAD = """
import asyncio_alt
try:
    import asyncio_alt.trace
except ImportError:
    print(MISSING)
    raise
asyncio_alt.install()
class Over(BaseException):
    pass
"""
_WATCH = """
async def watch():
    await asyncio_alt.sleep_ms(MS)
    raise Over
"""
_TAIL = """
run = asyncio_alt.run
task = WATCHED and asyncio_alt.create_task(watch())
def watched_run(coro):
    # The run before has ended all tasks.
    global task
    if task and task.done():
        task = asyncio_alt.create_task(watch())
    return run(coro)
asyncio_alt.run = watched_run
asyncio_alt.trace.start(SIZE, THRESHOLD)
try:
    exec(SOURCE, {"__name__": "__main__"})
except Over:
    pass
finally:
    asyncio_alt.trace.stop()
    if DUMPED:
        print(MARK)
        asyncio_alt.trace.dump()
"""
_MISSING = "#TRACE missing"
# A tool's own code prints this on the target before its output, as a script may print anything. It
# need not be at the beginning of a line.
MARK = "#" + secrets.token_hex(8) + "#"

# This asks a program that runs, which may have imported the package as asyncio.
_ATTACHED = """
import sys
for name in ("asyncio_alt", "asyncio"):
    trace = sys.modules.get(name + ".trace")
    if trace:
        trace.stop()
        print(MARK)
        trace.dump()
        break
"""
_LIMIT = 60  # seconds that a script may take to end by itself

_TASKS = 100  # so many are drawn, the busiest
_ROWS = 50  # of a table
NAME = 60  # characters of a name that are shown
_NARROW = 60  # columns; a terminal with fewer shows less

_TARGET = {
    "type": targets.wanted,
    "help": "a board's port, as mpremote takes it, or unix, for MicroPython's unix port (default: "
    "the board that is connected by USB)",
}

LOOP = 0  # stands for the loop among the numbers of tasks


def add_arguments(parser, **target):
    add_run_arguments(parser, nargs="?", **target)
    parser.add_argument(
        "--size",
        type=arguments.count(16, 100000),
        default=500,
        metavar="N",
        help="how many events are kept, 16 bytes each (default: 500)",
    )
    parser.add_argument(
        "-o",
        dest="folder",
        type=arguments.folder,
        default=Path("."),
        metavar="DIR",
        help="where to write (default: here)",
    )


def add_run_arguments(parser, nargs=None, get=targets.get, **target):
    """Add the arguments for the script and its target, for the tool top as well.

    get: called with the value of --target, returns the Target; target: of that option, for
    add_argument()
    """
    parser.add_argument("script", metavar="SCRIPT", help="the file to run", nargs=nargs)
    parser.add_argument("--target", metavar="TARGET", **{**_TARGET, **target})
    parser.set_defaults(get=get)
    parser.add_argument(
        "--seconds",
        type=arguments.real(0, arguments.DAY),
        default=0,
        metavar="S",
        help="end it after that long, by the target's clock (default: when it ends by itself)",
    )
    parser.add_argument(
        "--threshold",
        type=arguments.count(1, 500000),
        default=50,
        metavar="MS",
        help="a task that runs for longer without an await is named (default: 50)",
    )


def main(args):
    with ending.Writer(args.seconds) as writer:
        return _traced(args, console(), writer)


def _traced(args, screen, writer):
    blocked = []
    dumped = False
    where = f" on {args.target}" if args.target else ""

    def tell(line):
        nonlocal dumped
        if found := named(line):
            blocked.append(found)
        line, mark, _ = line.partition(MARK)
        if line and not (dumped and line.startswith("#TRACE")):
            writer.write(print_line, screen, line)
        dumped = dumped or bool(mark)

    if args.script:
        title = f"{Path(args.script).name}{where}"
        source = driver(args, _WATCH, SIZE=args.size, WATCHED=args.seconds > 0, DUMPED=True)
        result = run(args, source, (args.seconds or _LIMIT) + _LIMIT, tell)
    else:
        title = f"what ran{where}"
        _only_board(args, "no SCRIPT")
        result = run(args, _with_values(_ATTACHED, MARK=MARK), _LIMIT, tell, resume=True)
        if result.ok and MARK not in result.out:
            raise Problem("the program on the board has not called asyncio_alt.trace.start()")
    title = escaped(title)
    text = result.out.rpartition(MARK)[2]
    if "#TRACE end" not in text:
        raise Problem(
            "it did not end in time: --seconds S ends it" if result.timed_out else why(result)
        )
    events, lost = parsed(text)
    if not events:
        raise Problem("no loop of asyncio has run" if result.ok else why(result))
    args.folder.mkdir(parents=True, exist_ok=True)
    stem = args.folder / "trace"
    stem.with_suffix(".json").write_text(json.dumps(chrome(events, title), indent=0))
    draw(events, title, args.threshold, stem.with_suffix(".svg"))
    rows, us = sums(events)
    shown = table(rows, us, f"the last {us / 1000:.0f} ms", blocked, screen.width)
    writer.write(screen.print, shown)
    more = ": --size N keeps more" if lost else ""
    writer.write(
        screen.print, f"{len(events)} events; {lost} events before these were not kept{more}"
    )
    writer.write(print_line, screen, f"Written: {stem}.json, {stem}.svg")
    if writer.shut:
        raise ending.Over
    return 0 if result.ok else 1


def driver(args, watch, **values):
    """Return code that runs the script on the target, with a task watch() beside its own.

    watch: source of that; values: replace the names in capitals
    """
    values |= {
        "THRESHOLD": args.threshold,
        "MS": int(args.seconds * 1000),
        "MISSING": _MISSING,
        "MARK": MARK,
    }
    text = _HEAD + watch + _TAIL
    if args.script.startswith(":"):
        _only_board(args, args.script)
        text = text.replace("SOURCE", f"open({args.script[1:]!r}).read()")
    else:
        values["SOURCE"] = _source(args.script)
    return _with_values(text, **values)


def _with_values(text, **values):
    names = "|".join(values)
    return re.sub(rf"\b({names})\b", lambda found: repr(values[found[0]]), text)


def _source(script):
    try:
        return Path(script).read_text("utf-8-sig")
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except ValueError as error:  # a 0 in it
        why = error
    raise WrongArgument(f"argument SCRIPT: invalid value {script!r}: {why}")


def _only_board(args, what):
    if args.target and not args.target.startswith("device="):
        raise WrongArgument(
            f"argument SCRIPT: {what}: that is for a program on a board, not for --target "
            f"{args.target}"
        )


def run(args, source, timeout, tell, **options):
    """Run code on the target; tell: called with each line that it prints."""
    with args.get(args.target, **options) as target:
        result = target.run(source, timeout, tell)
    if target.name != "unix":  # unix has told of stderr already
        for line in result.err.splitlines(keepends=True):
            tell(line)
    if not result.ok and _MISSING in result.out.splitlines():
        raise Problem("the board has no asyncio_alt.trace: asyncio-alt install --parts trace")
    return result


def why(result):
    """Return the last line of the error that it ended with."""
    return escaped((result.err.strip().splitlines() or ["it has ended without a word"])[-1])


def named(line):
    """Return (name of the coroutine, ms) if a line reports that one blocked, else None."""
    found = re.match(r"trace: blocked for (\d{1,9}) ms by (?:<.* '(.*)'.*>|(.*))", line)
    return found and (escaped(found[2] or found[3], NAME), int(found[1]))


# The target's output


@dataclasses.dataclass(frozen=True)
class Event:
    """An event of asyncio_alt.trace.records()."""

    what: str  # "run", "wake", "poll", "sleep"
    begin: int  # us since the first
    length: int  # us
    task: int = LOOP  # its number
    name: str = "loop"  # of its coroutine
    why: str = ""
    late: int = 0  # us


def parsed(text):
    """Return the events that asyncio_alt.trace.dump() has printed, and how many are lost.

    Lines in another format are left out: callbacks print among them, and lines may be damaged.
    """
    names, events, lost = {}, [], 0
    for line in re.findall(r"#TRACE (.*)", text):
        kind, _, rest = line.partition(" ")
        try:
            if kind == "begin":
                lost = _number(rest)
            elif kind == "task":
                number, _, name = rest.partition(" ")
                names[_number(number)] = _name(name)
            elif kind != "end":
                events.append(_event(kind, rest.split(), names))
        except (ValueError, IndexError, KeyError):
            pass
    return events, lost


def _event(kind, fields, names):
    if kind == "run":
        begin, length, task, late = (_number(fields[i]) for i in (0, 1, 2, 4))
        return Event(kind, begin, length, task, names[task], _reason(fields[3]), late)
    if kind == "wake":
        task = _number(fields[1])
        return Event(kind, _number(fields[0]), 0, task, names[task], _reason(fields[2]))
    if kind in ("poll", "sleep"):
        return Event(kind, _number(fields[0]), _number(fields[1]))
    raise ValueError


def _number(text):
    if not re.fullmatch("[0-9]{1,15}", text):
        raise ValueError
    return int(text)


def _name(text):
    try:
        text = str(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass  # a package of before 0.1.0 prints it as it is
    return escaped(text, NAME)


def _reason(text):
    reason = "" if text == "None" else text.replace("-", " ")
    if reason.removeprefix("priority ") not in _COLOURS:
        raise ValueError
    return reason


def sums(events):
    """Return "tasks" and "us" of the events, as asyncio_alt.trace.stats() does."""
    runs = {}
    for event in events:
        if event.what == "run":
            runs.setdefault(event.name, []).append(event)
    rows = {}
    for name, of in runs.items():
        late = sorted(event.late for event in of)
        us = [event.length for event in of]
        tasks = len({event.task for event in of})
        rows[name] = (tasks, len(of), sum(us), max(us), late[len(late) // 2], late[-1])
    sleep = sum(event.length for event in events if event.what == "sleep")
    return {**rows, "(sleep)": ("", "", sleep, "", "", "")}, max(
        e.begin + e.length for e in events
    )


def table(rows, us, title, blocked, width=80, height=_ROWS) -> Table:
    """Show rows as of sums(), busiest first, at most height ones; blocked: (name, ms) of each run
    that was too long. A terminal of few columns shows only the share of the time."""
    result = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    wide = width >= _NARROW
    result.add_column("coroutine", min_width=12 if wide else None, overflow="fold")
    columns = ("tasks", "runs", "share", "longest", "late", "latest", "blocked")
    for column in columns if wide else ("share",):
        result.add_column(column, justify="right", no_wrap=True)
    times = {}
    for name, ms in blocked:
        times.setdefault(name, []).append(ms)
    for name in times:
        rows.setdefault(name, ("", "", 0, "", "", ""))
    busiest = sorted(rows.items(), key=lambda item: -item[1][2])
    if len(busiest) > height:
        result.caption = f"{len(busiest) - height} more"
    for name, row in busiest[:height]:
        tasks, runs, total, *lengths = row
        cells = [str(tasks), str(runs), f"{100 * total / max(1, us):.1f} %"]
        cells += ["" if length == "" else f"{number(length / 1000)} ms" for length in lengths]
        long = times.get(name, ())
        cells.append(f"{len(long)} ×, to {max(long)} ms" if long else "")
        result.add_row(name, *(cells if wide else cells[2:3]), style="bold red" if long else None)
    return result


# The trace's files


def chrome(events, title) -> dict:
    """Return the trace in the format of chrome://tracing: a thread for each task."""
    threads = {LOOP: "loop"} | {event.task: event.name for event in events}
    made = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": title}}]
    for task, name in threads.items():
        common = {"ph": "M", "pid": 1, "tid": task}
        made.append({**common, "name": "thread_name", "args": {"name": name}})
        made.append({**common, "name": "thread_sort_index", "args": {"sort_index": task}})
    for event in events:
        common = {"pid": 1, "tid": event.task, "ts": event.begin, "cat": event.what}
        if event.what == "wake":
            made.append({**common, "ph": "i", "s": "t", "name": event.why})
            continue
        run = event.what == "run"
        made.append(
            {**common, "ph": "X", "dur": event.length, "name": event.name if run else event.what}
        )
        if run:
            made[-1]["args"] = {"why": event.why or "unknown", "late (us)": event.late}
    return {"traceEvents": made, "displayTimeUnit": "ms"}


_COLOURS = {
    "timer": "tab:blue",
    "yield": "tab:cyan",
    "start": "tab:gray",
    "task": "tab:green",
    "flag": "tab:orange",
    "io": "tab:purple",
    "": "0.6",
}


def draw(events, title, threshold, path: Path):
    """Draw a row for each task: its runs, in the colour of why it ran, and before each a thin line
    from when it was ready. Runs of more than threshold ms are named. Of many tasks it draws the
    busiest."""
    pyplot = figure_style()
    busy = collections.Counter()
    for event in events:
        if event.task != LOOP:
            busy[event.task] += event.length
    drawn = {LOOP, *(task for task, _ in busy.most_common(_TASKS))}
    if len(busy) > _TASKS:
        title += f"; {len(busy) - _TASKS} tasks more"
    events = [event for event in events if event.task in drawn]
    with pyplot.rc_context({"text.parse_math": False}):  # a name may have a $
        _draw(pyplot, events, title, threshold, path)


def _draw(pyplot, events, title, threshold, path):
    threads = list(dict.fromkeys([LOOP, *(event.task for event in events)]))
    names = {LOOP: "loop"} | {event.task: event.name for event in events}
    row = {number: len(threads) - 1 - i for i, number in enumerate(threads)}
    picture, axes = pyplot.subplots(figsize=(11, 0.32 * len(threads) + 1.4))
    bars, waits = {}, {}
    for event in events:
        if event.what == "wake":
            colour = _COLOURS[event.why.split()[-1]]
            axes.plot(event.begin / 1000, row[event.task], "|", color=colour, markersize=11)
            continue
        span = event.begin / 1000, event.length / 1000
        colour = {"sleep": "0.9", "poll": "0.7"}.get(event.what)
        colour = colour or _COLOURS[event.why.removeprefix("priority ")]
        bars.setdefault((row[event.task], colour, "priority" in event.why), []).append(span)
        if event.late:
            late = min(event.late, event.begin) / 1000
            waits.setdefault(row[event.task], []).append((span[0] - late, late))
        if event.what == "run" and span[1] > threshold:
            text = f"{event.name} {span[1]:.0f} ms"
            axes.annotate(text, (span[0], row[event.task] + 0.36), color="tab:red", va="bottom")
    for y, spans in waits.items():
        axes.broken_barh(spans, (y - 0.06, 0.12), color="tab:red", alpha=0.35, linewidth=0)
    for (y, colour, priority), spans in bars.items():
        edge = "tab:red" if priority else colour
        axes.broken_barh(spans, (y - 0.36, 0.72), facecolor=colour, edgecolor=edge, linewidth=0.4)
    used = {event.why.removeprefix("priority ") for event in events if event.what == "run"}
    for reason in [reason for reason in _COLOURS if reason in used]:
        axes.barh(0, 0, color=_COLOURS[reason], label=reason or "unknown")
    axes.barh(0, 0, color="white", edgecolor="tab:red", label="with priority")
    axes.barh(0, 0, color="tab:red", alpha=0.35, label="ready, waits")
    axes.legend(ncols=9, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    axes.set_yticks([row[number] for number in threads], [names[number] for number in threads])
    axes.set_ylim(-0.6, len(threads) - 0.2)
    axes.set_xlim(0, max(event.begin + event.length for event in events) / 1000)
    axes.set_xlabel(f"ms ({title})")
    axes.tick_params(axis="y", length=0)
    save(picture, path)
    pyplot.close(picture)
