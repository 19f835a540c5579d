"""Gather the figures and pictures of benchmarks/ in one page, and the main figures in README.md.

The page is one HTML file without scripts that needs no other file: the limits and whether they
hold, then each benchmark with its table and its picture. Nothing is measured. The page names the
data that the JSON files lack.
"""

import base64
import dataclasses
import html
import json
from pathlib import Path

from asyncio_alt.pc import arguments
from asyncio_alt.pc.figures import PEER, with_unit
from asyncio_alt.pc.show import number, replaced
from tools import Problem
from tools.bench.command import RESULTS
from tools.bootstrap import ROOT

_README = ROOT / "README.md"
_SIDES = {
    "stock": "stock asyncio",
    PEER: "peterhinch's design",
    "ours": "asyncio_alt",
}
_NEEDED = ("name", "unit", "stock", "ours")  # of every figure
_RUN = ("date", "machine")  # of every file
_NOTHING = dict.fromkeys((*_SIDES, "ratio", "required", "aim", "ok", "limits are for"), None)
_NOTHING["unit"] = ""
_CALLED = {"micropython": "MicroPython", "cpython": "CPython", "python": "CPython"}
_CALLED |= {"machine": "", "date": ""}

_NOTE = (
    "peterhinch's design: his scheduling, as with roundrobin(False), and his 20 ms slices of "
    "sleep, reproduced on stock asyncio (tools/bench/scripts/peer.py). It is not his package that "
    "was measured."
)


@dataclasses.dataclass(frozen=True)
class Page:
    """The report's texts for a file of benchmarks/."""

    title: str
    tool: str  # writes it
    text: str = ""
    sides: dict = dataclasses.field(default_factory=dict)  # other names than those of _SIDES


# By the file's stem, in the order of the report. A file that is not listed comes last.
PAGES = {
    "latency": Page(
        "Late events among busy tasks",
        "demo",
        "How late a task is resumed among others that work.",
    ),
    "unix": Page(
        "On a PC: the unix port",
        "bench stock",
        "The packages run the same scripts in turn; medians, or what the name says. A busy task "
        "works 5 ms, then lets the others run.",
    ),
    "rp2": Page(
        "On a Raspberry Pi Pico, emulated",
        "bench stock --target rp2",
        "All frozen into real firmware, in an emulator whose time is exact to the cycle but knows "
        "no cache misses: compare the figures, don't quote them as the hardware's.",
    ),
    "power": Page(
        "Low power, on the same Pico",
        "bench power",
        "Time asleep is simulated; mA is an estimate from it, with currents that others have "
        "measured.",
    ),
    "messages": Page(
        "Messages to another process",
        "bench messages",
        "From the sender's write to the receiver that has all of the message, over TCP.",
        {"stock": "stock streams", "ours": "Protocol"},
    ),
    "pubsub": Page(
        "Publish and subscribe",
        "bench pubsub",
        "Processor time of a publish to so many consumers, on CPython where nothing else is said.",
        {"stock": "trio's channels"},
    ),
    "frames": Page(
        "Frames, on CPython",
        "bench frames",
        "FramedProtocol beside CPython's own streams, both ends in one process.",
        {"stock": "streams", "ours": "FramedProtocol"},
    ),
    "shared": Page(
        "Large payloads between two processes of one PC",
        "bench shared",
        "By a Link over TCP and a SharedLink, on CPython; required from 256 KB on.",
        {"stock": "Link", "ours": "SharedLink"},
    ),
    "hops": Page(
        "From a pin's interrupt to an MQTT subscriber, and back",
        "bench hops",
        "Medians of what each part of the way takes: simulated time on the board and on its line, "
        "real time on the PC.",
    ),
    "trace": Page("What a trace shows", "trace", "Which task ran when and why."),
}

# The table in README.md: (file, full name of the figure).
SUMMARY = (
    ("rp2", "Pin edge to resumed task, ten busy tasks — latest"),
    ("rp2", "100 ms stream timer, ten busy tasks — longest"),
    ("rp2", "Pass while 30 flags are waited for"),
    ("rp2", "Two I2C buses stand still, ten tasks of 1 ms — two tasks for each bus"),
    ("rp2", "Ended tasks that stay in memory"),
    ("power", "A blink, once a second: estimated current"),
    ("power", "A UART's answer, every other second: lost in a minute"),
    ("unix", "Flag set in a thread to resumed task"),
    ("messages", "Message of 64 KB to another process"),
    ("pubsub", "Publish to 2, waiting for room"),
    ("unix", "Flash for tasks that sleep (.mpy)"),
)


def add_arguments(parser):
    parser.add_argument(
        "folder",
        nargs="?",
        type=arguments.existing_folder,
        default=RESULTS,
        metavar="DIR",
        help="gather what is there, and leave README.md as it is (default: benchmarks)",
    )
    parser.add_argument(
        "-o",
        dest="output",
        type=arguments.file,
        default=ROOT / "build" / "report.html",
        metavar="FILE",
        help="where to write the page (default: build/report.html)",
    )


def main(args):
    reports = load(args.folder)
    pictures = {file.stem: file.read_bytes() for file in args.folder.glob("*.svg")}
    if not reports and not pictures:
        raise Problem(
            f"{args.folder} has neither JSON files nor pictures of python3 -m tools bench"
        )
    try:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(page(reports, pictures), encoding="utf-8")
    except OSError as error:
        raise Problem(f"{args.output}: {error.strerror}") from None
    if args.folder == RESULTS:
        _README.write_text(with_summary(_README.read_text("utf-8"), reports), "utf-8")
    for stem, report in reports.items():
        if lacking := lacks(report):
            print(f"{stem}.json lacks {', '.join(lacking)}")
    required = [f for report in reports.values() for f in figures(report) if _is_required(f)]
    missed = [figure["full name"] for figure in required if figure["ok"] is not True]
    print(f"{len(required) - len(missed)} of {len(required)} required figures hold.")
    for name in missed:
        print(f"missed: {name}")
    print(f"Written: {args.output}")
    return 0


def load(folder: Path) -> dict:
    """Return the content of each JSON file of a folder by its stem, in the order of PAGES."""
    reports = {}
    for file in sorted(folder.glob("*.json"), key=lambda file: _order(file.stem)):
        try:
            reports[file.stem] = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise Problem(f"{file} is no JSON: {error}") from None
        if not isinstance(reports[file.stem], dict):
            raise Problem(f"{file} is no JSON object")
    return reports


def _order(stem):
    stems = list(PAGES)
    return stems.index(stem) if stem in stems else len(stems), stem


def lacks(report) -> list[str]:
    """Return the data for the report that a file lacks."""
    lacking = [key for key in _RUN if key not in report]
    if not any("python" in key for key in report):
        lacking.append("the version of MicroPython or Python")
    if not report.get("figures"):
        return [*lacking, "figures"]
    for key in _NEEDED:
        without = sum(key not in figure for figure in report["figures"])
        if without:
            lacking.append(f"{key} in {without} of {len(report['figures'])} figures")
    return lacking


def figures(report) -> list[dict]:
    """Return a file's figures, with None for missing values. Each gets a "full name": its name
    after that of the figure that it is a part of."""
    found, whole = [], ""
    for figure in report.get("figures", ()):
        name = figure.get("name") or "(a figure without a name)"
        part = name.startswith("— ")
        whole = whole if part else name
        full = f"{whole} {name}" if part else name
        found.append({**_NOTHING, **figure, "name": name, "full name": full})
    return found


def _is_required(figure):
    return figure["required"] is not None


def summary(reports) -> list[list[str]]:
    """Return the rows of SUMMARY: the figure's name, and the sides as text."""
    found = {
        (stem, figure["full name"]): figure
        for stem, report in reports.items()
        for figure in figures(report)
    }
    rows = []
    for stem, name in SUMMARY:
        figure = found.get((stem, name), _NOTHING)
        sides = [with_unit(figure, side) for side in _SIDES]
        names = _names(stem)
        if names != _SIDES:
            name += f" ({names['stock']} / {names['ours']})"
        rows.append([name, *(sides if any(sides) else [f"not in {stem}.json", "", ""])])
    return rows


def with_summary(text: str, reports: dict) -> str:
    """Return README.md's text with the table between `<!-- summary -->` and `<!-- end -->` brought
    up to date."""
    lines = [f"| | {' | '.join(_SIDES.values())} |", "| --- |" + " ---: |" * len(_SIDES)]
    lines += [f"| {' | '.join(row)} |" for row in summary(reports)]
    return replaced(text, "summary", "\n".join(lines))


# The page


def page(reports: dict, pictures: dict) -> str:
    """Return the report as HTML. pictures: SVG (bytes) by the stem of its file."""
    stems = sorted({*reports, *pictures}, key=_order)
    required = [f for report in reports.values() for f in figures(report) if _is_required(f)]
    met = sum(figure["ok"] is True for figure in required)
    missed = len(required) - met
    aims = [_reached(figure) for figure in required if figure["aim"] is not None]
    links = [f'<a href="#{_e(stem)}">{_e(_page(stem).title)}</a>' for stem in stems]
    parts = [
        "<h1>asyncio_alt, measured</h1>",
        f"<p class=lead>Of {len(required)} figures that are required, <b>{met}</b> are met"
        + (f", <b class=bad>{missed}</b> are not" if missed else "")
        + f"; of {len(aims)} aims, <b>{sum(aims)}</b> are reached.</p>",
        f"<nav>{' '.join(links)}</nav>",
        _table(["", *_SIDES.values()], summary(reports)),
        f"<p class=note>{_e(_NOTE)}</p>",
        "<h2 id=required>What is required</h2>",
        _required(reports),
        *(_section(stem, reports.get(stem), pictures.get(stem)) for stem in stems),
        "<footer>Made by <code>python3 -m tools bench report</code> from what the runs wrote."
        "</footer>",
    ]
    return _HEAD + "\n".join(filter(None, parts)) + "\n</main>\n</html>\n"


def _page(stem):
    return PAGES.get(stem) or Page(stem, stem)


def _names(stem):
    return {**_SIDES, **_page(stem).sides}


class _Html(str):
    """A text that is HTML."""


def _e(text):
    return text if isinstance(text, _Html) else html.escape(str(text))


_VERDICTS = {
    True: _Html("<b class=good>met</b>"),
    False: _Html("<b class=bad>missed</b>"),
}


def _table(head, rows, kind=""):
    # A row is a list of texts (or _Html), or the _Html of a heading within the table.
    def cells(tag, texts):
        return "".join(f"<{tag}>{_e(text)}</{tag}>" for text in texts)

    lines = [f"<tr>{cells('th', head)}</tr>"]
    for row in rows:
        if isinstance(row, _Html):
            lines.append(f"<tr><th class=group colspan={len(head)}>{row}</th></tr>")
        else:
            part = " class=part" if row[0].startswith("— ") else ""
            lines.append(f"<tr{part}>{cells('td', row)}</tr>")
    return f'<div class=wide><table class="{kind}">\n' + "\n".join(lines) + "\n</table></div>"


def _run(report):
    # A file's data about its run: versions, machine, date.
    said = [
        f"{_CALLED.get(key, key)} {value}".strip()
        for key, value in report.items()
        if isinstance(value, str | int) and key not in ("target", "repeats")
    ]
    return ", ".join(said)


def _required(reports):
    rows = []
    for stem, report in reports.items():
        required = [figure for figure in figures(report) if _is_required(figure)]
        if required:
            run = f"<small>{_e(_run(report))}</small>"
            rows.append(_Html(f"{_e(_page(stem).title)} {run}"))
        rows += [_requirement(figure, _names(stem)["stock"]) for figure in required]
    return _table(["", "value", "required", "aim", ""], rows, "required")


def _value(figure):
    # The value that the limits are for.
    return figure["ratio"] if figure["limits are for"] == "ratio" else figure["ours"]


def _reached(figure):
    value = _value(figure)
    return value is not None and value <= figure["aim"]


def _requirement(figure, stock):
    by_ratio = figure["limits are for"] == "ratio"
    value = _value(figure)

    def limit(n):
        return "" if n is None else f"≤ {n:g}{' ×' if by_ratio else ''}"

    aim = limit(figure["aim"])
    if aim and _reached(figure):
        aim = _Html(f"<span class=good>{aim} ✓</span>")
    unit = f"× {stock}" if by_ratio else figure["unit"]
    shown = "" if value is None else f"{number(value)} {unit}"
    return [
        figure["full name"],
        shown,
        limit(figure["required"]),
        aim,
        _VERDICTS.get(figure["ok"], "not said"),
    ]


def _section(stem, report, picture):
    about = _page(stem)
    parts = [f'<h2 id="{_e(stem)}">{_e(about.title)}</h2>']
    if about.text:
        parts.append(f"<p>{_e(about.text)}</p>")
    if report is not None:
        lacking = lacks(report)
        if lacking:
            parts.append(f"<p class=bad>{_e(stem)}.json lacks {_e(', '.join(lacking))}.</p>")
        parts.append(_figures(report, _names(stem)))
    if picture:
        data = base64.b64encode(picture).decode()
        parts.append(
            f'<div class=wide><img alt="{_e(about.title)}" '
            f'src="data:image/svg+xml;base64,{data}"></div>'
        )
    if report is not None:
        parts += [_details(key, value) for key, value in report.items() if key != "figures"]
        parts.append(f"<p class=note>{_e(_run(report))}</p>")
    parts.append(f"<p class=note>Again: <code>python3 -m tools {_e(about.tool)}</code></p>")
    return "<section>\n" + "\n".join(filter(None, parts)) + "\n</section>"


def _figures(report, names):
    found = figures(report)
    if not found:
        return ""
    sides = [side for side in names if any(figure[side] is not None for figure in found)]
    rows = [
        [
            figure["name"],
            *(with_unit(figure, side) for side in sides),
            "" if figure["ratio"] is None else number(figure["ratio"]),
        ]
        for figure in found
    ]
    return _table(["", *(names[side] for side in sides), "ratio"], rows)


def _details(name, value):
    # A list of dicts, as "runs", as a table that is folded in.
    if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
        return ""
    flat = [_flat(each) for each in value]
    head = list(dict.fromkeys(key for each in flat for key in each))
    rows = [[_text(each.get(key)) for key in head] for each in flat]
    return f"<details><summary>{_e(name)}</summary>{_table(head, rows)}</details>"


def _flat(values, prefix=""):
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key} ")
        else:
            found[prefix + key] = value
    return found


def _text(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return "" if value is None else str(value)


_HEAD = """<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width, initial-scale=1">
<meta name=color-scheme content="light dark">
<title>asyncio_alt, measured</title>
<style>
:root { --ink: #1d2430; --soft: #5d6878; --line: #dfe3e9; --ground: #fff; --shade: #f5f7fa;
  --blue: #1f5fa8; --good: #19713a; --bad: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e7ee; --soft: #98a3b3; --line: #323a46; --ground: #14181e; --shade: #1c222a;
    --blue: #7db3ee; --good: #66c186; --bad: #ff8a80 }
  img { filter: invert(.92) hue-rotate(180deg) }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1 { margin: .5rem 0 0; font-size: 2rem; line-height: 1.2 }
h2 { margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line);
  font-size: 1.35rem }
p { max-width: 46rem }
a { color: var(--blue) }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 1rem 0 1.5rem }
.lead { font-size: 1.15rem }
.note, footer { color: var(--soft); font-size: .875rem }
footer { margin-top: 3rem }
.good { color: var(--good) }
.bad { color: var(--bad) }
.wide { overflow-x: auto; margin: 1rem 0 }
table { border-collapse: collapse; width: 100%; font-size: .925rem;
  font-variant-numeric: tabular-nums }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 10rem }
th { color: var(--soft); font-weight: 600; vertical-align: bottom }
.group { padding-top: 1.1rem; color: var(--ink) }
.group small { display: block; color: var(--soft); font-weight: 400 }
.part td:first-child { padding-left: 1.5rem; color: var(--soft) }
tr:hover td { background: var(--shade) }
@media (max-width: 40rem) {
  main { padding: 1rem .7rem 3rem }
  table { font-size: .75rem }
  th, td { padding: .3rem .2rem }
  th, .required td:nth-child(2) { white-space: normal }
  th:first-child, td:first-child { min-width: 6rem }
}
img { display: block; width: 100%; min-width: 40rem }
details { margin: 1rem 0 }
summary { cursor: pointer; color: var(--blue) }
</style>
<main>
"""
