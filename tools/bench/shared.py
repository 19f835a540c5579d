"""Measure payloads of 16 KB to 8 MB between two processes, by Link and by SharedLink, on CPython.

A figure is the median time from publish() until a short answer is back, or the time a payload
takes if they are sent as fast as the link takes them. Link and SharedLink take turns. The table
goes to benchmarks/shared.json and docs/link.md.
"""

import datetime
import platform
import statistics
from collections import defaultdict
from itertools import product

from rich import box
from rich.progress import track
from rich.table import Table

from asyncio_alt.pc import screen
from asyncio_alt.pc.show import number, replaced
from tools.bench.command import add_folder, add_repeats, write
from tools.bench.run import machine
from tools.bench.scripts import shared
from tools.bootstrap import ROOT

_PAGE = ROOT / "docs" / "link.md"
_SIZES = [16, 32, 64, 128, 256, 1024, 8192]  # KB
_FASTER = 256  # KB: SharedLink has to be faster from here; at the default threshold both are even
_LOOPS = ("asyncio", "uvloop")
_HOW = ("Link", "SharedLink")
_WAYS = {"back": "and an answer back", "on": "one after the other"}


def add_arguments(parser):
    add_repeats(parser)
    add_folder(parser, "write the JSON there, and leave docs/link.md as it is")


def main(args):
    console = screen.console()
    report = {
        "python": platform.python_version(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "repeats": args.repeats,
        "figures": measure(args.repeats, console),
    }
    path = args.folder / "shared.json"
    write(report, path, [_PAGE], with_table)
    table = Table(box=box.SIMPLE_HEAD)
    for heading in _headings():
        table.add_column(heading, justify="right")
    for row in rows(report):
        table.add_row(*row)
    console.print(table)
    console.print(f"Written: {path}")
    missed = sum(figure["ok"] is False for figure in report["figures"])
    console.print(f"{missed} missed" if missed else "All that is required holds.")
    return 1 if missed else 0


def measure(repeats, console):
    """Return figures as those of bench stock: stock is a Link, ours a SharedLink."""
    us = defaultdict(list)
    runs = [(s, *side) for _ in range(repeats) for s in _SIZES for side in product(_LOOPS, _HOW)]
    for size, loop, how in track(runs, "Measuring", console=console, transient=True):
        count = max(20, min(300, 30000 // size))
        for way, values in shared.measure(how, loop, size * 1024, count).items():
            us[size, way, loop, how] += values
    return [
        _figure(size, way, loop, *(statistics.median(us[size, way, loop, how]) for how in _HOW))
        for size in _SIZES
        for loop in _LOOPS
        for way in _WAYS
    ]


def _figure(size, way, loop, stock, ours):
    ratio = round(ours / stock, 3)
    required = 1 if size >= _FASTER else None
    return {
        "name": f"{size} KB {_WAYS[way]}, {loop}",
        "unit": "µs",
        "stock": round(stock, 1),
        "ours": round(ours, 1),
        "ratio": ratio,
        "required": required,
        "limits are for": "ratio",
        "ok": None if required is None else ratio <= required,
    }


def _headings():
    return ["", *(f"{how}{', uvloop' * (loop == 'uvloop')}" for loop in _LOOPS for how in _HOW)]


def rows(report):
    """Yield the table's rows, as text."""
    figures = report["figures"]
    count = len(_LOOPS) * len(_WAYS)
    for i in range(0, len(figures), count):
        cells = []
        for back, on in zip(figures[i : i + count : 2], figures[i + 1 : i + count : 2]):
            for side in ("stock", "ours"):
                cells.append(f"{number(back[side])} / {number(on[side])}")
        yield [" ".join(figures[i]["name"].split()[:2]), *cells]


def with_table(text, report):
    """Return a Markdown text with the table, which stands between the comments `<!-- shared -->`
    and `<!-- end -->`, brought up to date."""
    lines = [
        f"|{' | '.join(_headings())} |",
        "| ---: |" + " ---: |" * (len(_headings()) - 1),
        *(f"| {' | '.join(row)} |" for row in rows(report)),
        "",
        f"CPython {report['python']}, {report['machine']}.",
    ]
    return replaced(text, "shared", "\n".join(lines))
