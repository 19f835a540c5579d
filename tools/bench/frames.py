"""Measure FramedProtocol on CPython beside CPython's streams, with its own loop and with uvloop.

Both ends are in one process, and the bytes on the wire are the same. "wins" counts the rounds in
which FramedProtocol was faster; streams and FramedProtocol take turns in each round. Writes
benchmarks/frames.json. A figure is "missed" if streams have won one of its rounds.
"""

import datetime
import platform
import statistics

from rich import box
from rich.table import Table

from asyncio_alt.pc import screen
from asyncio_alt.pc.figures import shown
from tools.bench.command import add_folder, repeats, write
from tools.bench.scripts import frames

_SCENES = (
    ("64-byte frame, there and back", {"size": 64, "repeats": 5000}),
    ("1000-byte frame, there and back", {"size": 1000, "repeats": 5000}),
    ("64-byte frame, one of 50 there and back", {"size": 64, "repeats": 200, "burst": 50}),
)
_LOOPS = ("CPython", "uvloop")
_SIDES = ("streams", "protocols")


def add_arguments(parser):
    parser.add_argument("--rounds", type=repeats, default=5, metavar="N", help="(default: 5)")
    add_folder(parser, "write the JSON there")


def main(args):
    figures = []
    for loop in _LOOPS:
        for name, scene in _SCENES:
            for side in _SIDES:
                frames.measure(loop, side, **{**scene, "repeats": 50})  # whatever is loaded once
            us = {side: [] for side in _SIDES}
            for _ in range(args.rounds):
                for side in _SIDES:
                    us[side].append(round(frames.measure(loop, side, **scene), 2))
            figures.append(_figure(name, loop, us))
    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "date": datetime.date.today().isoformat(),
        "figures": figures,
    }
    path = args.folder / "frames.json"
    write(report, path)
    console = screen.console()
    table = Table(title=f"CPython {report['python']}", box=box.SIMPLE_HEAD)
    for column in ("", "streams", "FramedProtocol", "ratio", "wins"):
        table.add_column(column)
    for figure in figures:
        table.add_row(figure["name"], *shown(figure), f"{figure['wins']} of {args.rounds}")
    console.print(table)
    missed = sum(not figure["ok"] for figure in figures)
    console.print(f"{missed} missed" if missed else "All that is required holds.")
    return 1 if missed else 0


def _figure(name, loop, us):
    # As those of bench stock: stock is CPython's streams, ours FramedProtocol.
    stock, ours = (statistics.median(us[side]) for side in _SIDES)
    wins = sum(p < s for s, p in zip(us["streams"], us["protocols"], strict=True))
    return {
        "name": f"{name}, {loop}",
        "unit": "µs",
        "stock": stock,
        "ours": ours,
        "ratio": round(ours / stock, 3),
        "required": 1,
        "limits are for": "ratio",
        "ok": wins == len(us["streams"]),
        "wins": wins,
        **us,
    }
