"""Measure how long messages of 16 bytes to 512 KB take to another process, with streams and with
a Protocol, on the unix port and on CPython; and messages with a topic, over a Link and with
streams.

A message begins with its length; each is sent when the one before has been answered. A figure is
the median time from the sender's write until the receiver has the message. The table goes to
benchmarks/messages.json and docs/protocols.md, the picture beside the former.

Messages with a topic come one by one and in bursts; each burst is answered. Their table goes to
docs/link.md.
"""

import datetime
import platform
import statistics
import sys
from collections import defaultdict

from rich import box
from rich.progress import track
from rich.table import Table

from asyncio_alt.pc import screen
from asyncio_alt.pc.show import figure_style, number, replaced, save
from tools import targets
from tools.bench.command import add_folder, add_repeats, write
from tools.bench.run import machine, micropython_version, run_pair
from tools.bootstrap import ROOT

_PAGES = (ROOT / "docs" / "protocols.md", ROOT / "docs" / "link.md")
_SIZES = [16, 64, 256, 1024, 4096, 16384, 65536, 524288]

# The sides that are measured: name, target, package, method.
_SIDES = (
    ("unix, stock streams", "unix", "asyncio", "stream"),
    ("unix, streams", "unix", "asyncio_alt", "stream"),
    ("unix, Protocol", "unix", "asyncio_alt", "protocol"),
    ("CPython, streams", "cpython", "asyncio", "stream"),
    ("CPython, Protocol", "cpython", "asyncio", "protocol"),
)


# The same for messages with a topic: from where to where, sizes, bursts, package and method.
_PAIRS = ("unix → unix", "unix → CPython", "CPython → unix")
_LINKS = [(pair, size, burst) for pair in _PAIRS for size in (64, 1024, 8192) for burst in (1, 50)]
_WAYS = {"streams": ("asyncio", "stream"), "link": ("asyncio_alt", "link")}
_STAGES = ("to the handler", "to the answer", "messages a second")

# CPython's arguments, to read a script as MicroPython does, and find the package.
_CPYTHON = ["-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); exec(sys.stdin.read())"]


def add_arguments(parser):
    add_repeats(parser)
    add_folder(parser, "write the JSON and the picture there, and leave docs/ as it is")


def main(args):
    console = screen.console()
    # Large messages need more than the unix port's 2 MB.
    unix = targets.get("unix", args=["-X", "heapsize=32M"])
    cpython = targets.get("unix", binary=sys.executable, args=_CPYTHON)
    with unix, cpython:
        started = {"unix": unix, "cpython": cpython}
        medians = measure(started, args.repeats, console)
        report = {
            "target": "messages",
            "micropython": micropython_version(unix),
            "cpython": platform.python_version(),
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
            "repeats": args.repeats,
            "sizes": medians,
            "figures": [_figure(sides) for sides in medians],
            "links": measure_links(started, args.repeats, console),
        }
    stem = args.folder / "messages"
    write(report, stem.with_suffix(".json"), _PAGES, with_tables)
    draw(report, stem.with_suffix(".svg"))
    _print(console, ("", *(side[0] for side in _SIDES)), rows(report))
    _print(console, _HEADINGS, link_rows(report))
    console.print(f"Written: {stem}.json, {stem}.svg")
    return 0


def _print(console, headings, rows):
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=not heading)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def measure(started, repeats, console):
    """Return, for each size, {"size": bytes, name of a side: median in us, ...}."""
    samples = defaultdict(list)
    runs = [(size, side) for _ in range(repeats) for size in _SIZES for side in _SIDES]
    for size, (name, target, package, how) in track(
        runs, "Measuring", console=console, transient=True
    ):
        args = {"size": size, "bursts": 300 if size < 65536 else 60, "how": how}
        result = run_pair(started[target], "message", package, **args)
        samples[size, name] += result["us"]
    medians = {key: statistics.median(us) for key, us in samples.items()}
    return [
        {"size": size} | {side[0]: medians[size, side[0]] for side in _SIDES} for size in _SIZES
    ]


def measure_links(started, repeats, console):
    """Return of each of _LINKS {"pair", "size", "burst", name of a way: list of the _STAGES}."""
    samples = defaultdict(list)
    runs = [(hop, way) for _ in range(repeats) for hop in _LINKS for way in _WAYS]
    for (hop, way), (package, how) in track(
        [(run, _WAYS[run[1]]) for run in runs], "Measuring", console=console, transient=True
    ):
        pair, size, burst = hop
        sender, receiver = (started[end.lower()] for end in pair.split(" → "))
        args = {"size": size, "burst": burst, "bursts": 600 if burst == 1 else 40, "how": how}
        result = run_pair(receiver, "link", package, sender=sender, **args)
        for key, value in result.items():
            samples[hop, way, key] += value if isinstance(value, list) else [1e6 / value]

    def stages(hop, way):
        # The most messages a second count: other programs on the machine only reduce them.
        us, answered, each = (samples[hop, way, key] for key in ("us", "answered", "each"))
        return [statistics.median(us), statistics.median(answered), round(max(each))]

    names = ("pair", "size", "burst")
    return [dict(zip(names, hop)) | {way: stages(hop, way) for way in _WAYS} for hop in _LINKS]


def _figure(sides):
    # As those of bench stock: stock is streams of stock asyncio, ours a Protocol.
    stock, ours = sides[_SIDES[0][0]], sides[_SIDES[2][0]]
    name = f"Message of {_text(sides['size'])} to another process"
    return {"name": name, "unit": "µs", "stock": stock, "ours": ours, "ratio": ours / stock}


def _text(size):
    return f"{size} B" if size < 1024 else f"{size // 1024} KB"


def rows(report):
    """Yield the table's rows, as text."""
    for sides in report["sizes"]:
        yield [_text(sides["size"]), *(f"{number(sides[side[0]])} µs" for side in _SIDES)]


_HEADINGS = ("", *(f"{way}, {stage}" for stage in _STAGES for way in _WAYS))


def link_rows(report):
    """Yield the rows of the other table, as text."""
    for hop in report["links"]:
        burst = "" if hop["burst"] == 1 else f"{hop['burst']} × "
        units = (" µs", " µs", "")
        yield [
            f"{hop['pair']}, {burst}{_text(hop['size'])}",
            *(number(hop[way][i]) + unit for i, unit in enumerate(units) for way in _WAYS),
        ]


def with_tables(text, report):
    """Return a Markdown text with its tables brought up to date, which stand between the comments
    `<!-- messages -->` or `<!-- links -->`, and `<!-- end -->`."""
    where = [
        "",
        f"MicroPython {report['micropython']}, CPython {report['cpython']}, {report['machine']}.",
    ]
    for name, headings, cells in (
        ("messages", ("", *(side[0] for side in _SIDES)), rows(report)),
        ("links", _HEADINGS, link_rows(report)),
    ):
        lines = [headings, ["---:"] * len(headings), *cells]
        lines = ["| " + " | ".join(line) + " |" for line in lines]
        text = replaced(text, name, "\n".join(lines + where))
    return text


def draw(report, path):
    pyplot = figure_style()
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
    save(picture, path)
    pyplot.close(picture)
