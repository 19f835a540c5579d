"""Measure publish/subscribe: beside trio's channels, and its cost on a Pico.

Publishes 100,000 messages to 0, 1 and 2 consumers with each program of
tools/bench/scripts/fanout.py, and measures the processor time without imports. Measures the cost
of subscriptions that do not match, on the unix port, and the heap, on an emulated Pico. Writes
benchmarks/pubsub.json and the tables of docs/pubsub.md.

With --day, sends the messages of a day, one for each second of it, through a broker, and through
a broker, a link to another one and back. Fails if a message is lost, or if less of the heap is
free afterwards than before. The result goes into the same file and page.

With --mqtt, sends messages of QoS 1 to Mosquitto with aiomqttc alone, and through a Bridge, on the
unix port. Fails if the bridge is not 8 times as fast. The result goes there, too.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from asyncio_alt.pc import screen
from asyncio_alt.pc.figures import shown
from asyncio_alt.pc.show import number, replaced
from tools import Problem, targets
from tools.bench.command import add_folder, add_repeats, write
from tools.bench.run import machine, micropython_version, run
from tools.bootstrap import ROOT
from tools.build import source
from tools.mosquitto import Mosquitto
from tools.targets.unix import Unix, micropython

DOC = ROOT / "docs" / "pubsub.md"
_SCRIPT = Path(__file__).with_name("scripts") / "fanout.py"
_MESSAGES = 100_000
_MAXLEN = 32
_FILTERS = (0, 10, 100, 1000)
_NOISE = 0.01  # of the heap: a value that looks like a message's address keeps the message
_FASTER = 8  # times as many messages of QoS 1 through a bridge as with the client alone
_REQUIRED = 0.2  # of trio's processor time, with a consumer or two

# The ways of a day's messages, and their names in docs.
WAYS = {"broker": "through a broker", "link": "through a broker, a link and back"}
_BOARDS = {"unix": "the unix port", "qemu": "an emulated Cortex-M3", "rp2": "an emulated Pico"}

# (name in the JSON, name in docs, runs on MicroPython, program of fanout.py, arguments)
PROGRAMS = (
    ("trio", "trio", False, "trio", ()),
    ("agents", "agents, MicroPython", True, "agents", ()),
    ("bare", "bare deques, MicroPython", True, "bare", (_MAXLEN,)),
    ("micropython", "asyncio_alt, MicroPython", True, "ours", (_MAXLEN,)),
    ("ours", "asyncio_alt, CPython", False, "ours", (_MAXLEN,)),
)


def add_arguments(parser):
    add_repeats(parser)
    parser.add_argument("--mqtt", action="store_true", help="(see above)")
    parser.add_argument("--day", choices=("unix", "qemu", "rp2"), help="(see above)")
    parser.add_argument(
        "--messages",
        type=of_a_day,
        default=86_400,
        metavar="N",
        help="of the day, a multiple of 600 (default: 86400)",
    )
    add_folder(parser, "write the JSON there, and leave docs/pubsub.md as it is")


def main(args):
    console = screen.console()
    file = args.folder / "pubsub.json"
    last = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if args.day:
        days = {way: day(args.day, args.messages, way) for way in WAYS}
        console.print(days)
        write(last | {"day": {"target": args.day, **days}}, file, [DOC], with_tables)
        return 1 if any(faults(left) for left in days.values()) else 0
    if args.mqtt:
        rates = acknowledged()
        console.print(rates)
        write(last | {"mqtt": rates}, file, [DOC], with_tables)
        return 0 if rates["bridge"] >= _FASTER * rates["aiomqttc"] else 1
    with targets.get("rp2") as rp2:
        footprint = run(rp2, "footprint", "asyncio_alt")
        rp2_version = micropython_version(rp2)
    with targets.get("unix") as unix:
        filters = run(unix, "filters", "asyncio_alt", counts=_FILTERS)
        unix_version = micropython_version(unix)
    runs = fan_out(args.repeats, _MESSAGES)
    report = {
        "target": "pubsub",
        "micropython": unix_version,
        "micropython of the Pico": rp2_version,
        "python": sys.version.split()[0],
        "trio": version("trio"),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "repeats": args.repeats,
        "figures": figures(runs),
        "runs": runs,
        "filters": {"counts": _FILTERS, **filters},
        "heap on the Pico": footprint["bytes"],
        "day": last.get("day"),
        "mqtt": last.get("mqtt"),
    }
    write(report, file, [DOC], with_tables)
    for figure in report["figures"]:
        console.print(figure["name"], *shown(figure))
    console.print(f"Written: {file}")
    return 1 if any(figure["ok"] is False for figure in report["figures"]) else 0


def of_a_day(text):
    if not re.fullmatch("[0-9]{3,9}", text) or not (count := int(text)) or count % 600:
        why = "it must be a multiple of 600, from 600 to 999999600"
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: {why}")
    return count


def day(target, messages, way, pause_ms=0) -> dict:
    """Return the heap before and after so many messages, a multiple of 600; way: of WAYS.
    pause_ms: after each message of a link the board sleeps so long, in power mode."""
    with targets.get(target) as board:
        text = (_SCRIPT.with_name("day.py")).read_text()
        call = f"measure('asyncio_alt', {messages}, '{way}', {pause_ms})"
        text += f"\nimport json\nprint(json.dumps({call}))\n"
        result = board.run(text, 3600 + messages * pause_ms / 1000)
    if not result.ok:
        raise Problem(f"the day is not over on {target}: {result.err.strip() or 'no time left'}")
    return json.loads(result.out)


def acknowledged(n=400) -> dict:
    """Return how many messages of QoS 1 Mosquitto acknowledges each second."""
    path = [source.from_pypi("aiomqttc", "1.0.7"), ROOT]
    with Mosquitto() as mosquitto, Unix(path=path) as unix:
        text = _SCRIPT.with_name("mqtt.py").read_text()
        result = unix.run(f"{text}\nasyncio.run(measure({mosquitto.port}, {n}))\n", 60)
    if not result.ok:
        raise Problem(f"no messages a second: {result.err.strip()}")
    bare, bridge = map(float, result.out.split())
    return {"aiomqttc": round(bare, 1), "bridge": round(bridge, 1)}


def faults(left) -> list[str]:
    """Return the errors in a result of day()."""
    found = []
    for what, sign in (("taken", 1), ("largest free", -1)):
        before, after = left[what + " before and after"]
        if sign * (after - before) > before * _NOISE:
            found.append(f"{what}: {before} before, {after} after")
    if "wrong" in left and (left["wrong"] or left["delivered"] != left["messages"]):
        found.append("messages are lost, wrong, or there twice")
    return found


def fan_out(repeats, messages, programs=PROGRAMS) -> list[dict]:
    """Run programs in turn; return the processor time of a publish, in us, and the messages got.

    The time is the least of all repeats: other programs on this machine only add to it.
    """
    runs = []
    for consumers in (0, 1, 2):
        for wait in (0, 1):
            us = defaultdict(list)
            got = {}
            for _ in range(repeats):
                for name, _, on_micropython, program, more in programs:
                    rest = (messages, consumers, wait, *more)
                    got[name], seconds = _run(on_micropython, program, *rest)
                    us[name].append(seconds * 1e6 / messages)
            runs.append(
                {
                    "consumers": consumers,
                    "wait": bool(wait),
                    "us": {name: round(min(each), 2) for name, each in us.items()},
                    "got": got,
                }
            )
    return runs


def _run(on_micropython, *args):
    # Returns how many messages arrived, and the seconds of processor time.
    binary = micropython() if on_micropython else sys.executable
    path = {"MICROPYPATH": f"{ROOT}:.frozen", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [binary, _SCRIPT, *map(str, args)],
        env={**os.environ, **path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Problem(f"{args}: {done.stderr.strip()}")
    got, seconds = done.stdout.split()
    return int(got), float(seconds)


def figures(runs) -> list[dict]:
    """Return ours beside trio, on CPython, then on MicroPython, as the figures of bench stock."""
    found = []
    for side, where in (("ours", ""), ("micropython", ", MicroPython")):
        for each in runs:
            ratio = each["us"][side] / each["us"]["trio"]
            required = _REQUIRED if each["consumers"] else None
            found.append(
                {
                    "name": _name(each) + where,
                    "unit": "µs",
                    "stock": each["us"]["trio"],
                    "ours": each["us"][side],
                    "ratio": float(f"{ratio:.2g}"),
                    "required": required,
                    "limits are for": "ratio",
                    "ok": None if required is None else ratio <= required,
                }
            )
    return found


def _name(run):
    how = "waiting for room" if run["wait"] else "dropping"
    return f"Publish to {run['consumers']}, {how}"


def with_tables(text, report) -> str:
    """Return docs/pubsub.md with its tables brought up to date."""
    names = [title for _, title, *_ in PROGRAMS]
    fan = [f"| µs of processor time | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    for each in report["runs"]:
        cells = []
        for name, *_ in PROGRAMS:
            share = each["got"][name] / max(1, each["consumers"]) / _MESSAGES
            lost = f" ({share:.0%})" if each["consumers"] and not each["wait"] else ""
            cells.append(f"{number(each['us'][name])}{lost}")
        fan.append(_row(_name(each), cells))
    fan += [
        "",
        f"trio {report['trio']} on CPython {report['python']}, MicroPython "
        f"{report['micropython']}, {report['machine']}; the least of {report['repeats']} runs.",
    ]
    filters = report["filters"]
    match = [
        f"| other filters | {' | '.join(map(str, filters['counts']))} |",
        "| --- |" + " ---: |" * len(filters["counts"]),
        f"| first publish, µs | {' | '.join(map(number, filters['first']))} |",
        f"| next ones, µs | {' | '.join(map(number, filters['next']))} |",
    ]
    heap = ["| on a Pico, frozen | bytes of heap |", "| --- | ---: |"]
    heap += [f"| {name} | {number(value)} |" for name, value in report["heap on the Pico"]]
    days = report["day"]
    lefts = [days[way] for way in WAYS]
    day = [
        f"| on {_BOARDS[days['target']]} | {' | '.join(WAYS.values())} |",
        "| --- | ---: | ---: |",
        _row("messages", [f"{left['messages']:,}" for left in lefts]),
        _row("delivered, to all subscribers", [f"{left['delivered']:,}" for left in lefts]),
        _row("heap in use, in each tenth", [_range(left["taken meanwhile"]) for left in lefts]),
    ]
    for name, what in (("heap in use", "taken"), ("largest free block", "largest free")):
        pairs = [left[f"{what} before and after"] for left in lefts]
        day.append(_row(f"{name}, before / after", [f"{b:,} / {a:,}" for b, a in pairs]))
    rates = report["mqtt"]
    rate = [
        "| on the unix port, to Mosquitto | messages of QoS 1 in a second |",
        "| --- | ---: |",
        f"| aiomqttc alone, one after the other | {number(rates['aiomqttc'])} |",
        f"| through a bridge | {number(rates['bridge'])} |",
    ]
    tables = ("fan", fan), ("match", match), ("heap", heap), ("day", day), ("rate", rate)
    for mark, lines in tables:
        text = replaced(text, mark, "\n".join(lines))
    return text


def _row(name, cells):
    return f"| {name} | {' | '.join(cells)} |"


def _range(values):
    return f"{min(values):,} to {max(values):,}"
