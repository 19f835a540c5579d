"""Measure how long messages of 16 bytes to 512 KB take to another process, with streams and with
a Protocol, on the unix port and on CPython.

Messages have their length ahead; each is sent when the one before has been answered. A figure is
the median time from the sender's write to the receiver that has the message. The table goes to
benchmarks/messages.json and docs/protocols.md, the picture beside the former.
"""

import datetime
import json
import platform
import statistics
import sys
from collections import defaultdict

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tools import bench, targets
from tools.bootstrap import ROOT

_PAGE = ROOT / "docs" / "protocols.md"
_SIZES = [16, 64, 256, 1024, 4096, 16384, 65536, 524288]

# What is measured: name, target, package, how.
_SIDES = (
    ("unix, stock streams", "unix", "asyncio", "stream"),
    ("unix, streams", "unix", "asyncio_alt", "stream"),
    ("unix, Protocol", "unix", "asyncio_alt", "protocol"),
    ("CPython, streams", "cpython", "asyncio", "stream"),
    ("CPython, Protocol", "cpython", "asyncio", "protocol"),
)


def add_arguments(parser):
    parser.add_argument(
        "--repeats", type=bench.repeats, default=5, metavar="N", help="(default: 5)"
    )
    bench.add_folder(
        parser, "write the JSON and the picture there, and leave docs/protocols.md as it is"
    )


def main(args):
    console = Console()
    # Large messages need more than the unix port's 2 MB; CPython reads scripts as that does.
    unix = targets.get("unix", args=["-X", "heapsize=32M"])
    cpython = targets.get("unix", binary=sys.executable)
    with unix, cpython:
        medians = measure({"unix": unix, "cpython": cpython}, args.repeats, console)
        report = {
            "target": "messages",
            "micropython": bench.micropython_version(unix),
            "cpython": platform.python_version(),
            "machine": bench.machine(),
            "date": datetime.date.today().isoformat(),
            "repeats": args.repeats,
            "sizes": medians,
            "figures": [_figure(sides) for sides in medians],
        }
    args.folder.mkdir(parents=True, exist_ok=True)
    stem = args.folder / "messages"
    stem.with_suffix(".json").write_text(
        json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    draw(report, stem.with_suffix(".svg"))
    if args.folder == bench.RESULTS:
        _PAGE.write_text(with_table(_PAGE.read_text("utf-8"), report), "utf-8")
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", *(side[0] for side in _SIDES)):
        table.add_column(heading, justify="right")
    for row in rows(report):
        table.add_row(*row)
    console.print(table)
    console.print(f"Written: {stem}.json, {stem}.svg")
    return 0


def measure(started, repeats, console):
    """Return, for each size, {"size": bytes, name of a side: median in us, ...}."""
    samples = defaultdict(list)
    runs = [(size, side) for _ in range(repeats) for size in _SIZES for side in _SIDES]
    for size, (name, target, package, how) in track(
        runs, "Measuring", console=console, transient=True
    ):
        args = {"size": size, "bursts": 300 if size < 65536 else 60, "how": how}
        result = bench.run_pair(started[target], "message", package, **args)
        samples[size, name] += result["us"]
    medians = {key: statistics.median(us) for key, us in samples.items()}
    return [
        {"size": size} | {side[0]: medians[size, side[0]] for side in _SIDES} for size in _SIZES
    ]


def _figure(sides):
    # As those of tools.bench: stock is streams of stock asyncio, ours a Protocol.
    stock, ours = sides[_SIDES[0][0]], sides[_SIDES[2][0]]
    name = f"Message of {_text(sides['size'])} to another process"
    return {"name": name, "unit": "µs", "stock": stock, "ours": ours, "ratio": ours / stock}


def _text(size):
    return f"{size} B" if size < 1024 else f"{size // 1024} KB"


def rows(report):
    """Yield the table's rows, as text."""
    for sides in report["sizes"]:
        yield [_text(sides["size"]), *(f"{bench.number(sides[side[0]])} µs" for side in _SIDES)]


def with_table(text, report):
    """Return a Markdown text with the table, which stands between the comments `<!-- messages -->`
    and `<!-- end -->`, brought up to date."""
    lines = [
        f"| | {' | '.join(side[0] for side in _SIDES)} |",
        "| ---: |" + " ---: |" * len(_SIDES),
        *(f"| {' | '.join(row)} |" for row in rows(report)),
        "",
        f"MicroPython {report['micropython']}, CPython {report['cpython']}, {report['machine']}.",
    ]
    return bench.replaced(text, "messages", "\n".join(lines))


def draw(report, path):
    pyplot = bench.figure_style()
    picture, axes = pyplot.subplots(figsize=(8, 4.5))
    sizes = [sides["size"] for sides in report["sizes"]]
    for name, target, _, how in _SIDES:
        axes.plot(
            sizes,
            [sides[name] for sides in report["sizes"]],
            "o-" if how == "protocol" else "s--",
            color="tab:blue" if target == "unix" else "tab:orange",
            alpha=0.45 if "stock" in name else 1,
            label=name,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [row[0] for row in rows(report)])
    axes.set_ylim(bottom=5)
    axes.set_ylabel("µs from write to handler, logarithmic")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title("A message over TCP to another process")
    bench.save(picture, path)
    pyplot.close(picture)
