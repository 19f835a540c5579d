"""Estimate the average current of a board that sleeps while nothing is due.

Without STATS: runs two programs on an emulated Pico, with stock asyncio, with peterhinch's design
(20 ms slices of machine.lightsleep, reproduced on stock asyncio), and with power_mode(True);
writes benchmarks/power.json with a picture of when each one sleeps, and the tables of
docs/power.md. With STATS, the printed result of LightSleep.stats() on a board: estimates for that.
Nothing is measured in either case: the time awake and asleep is multiplied by currents that others
have published.
"""

import argparse
import ast
import datetime
import math
from pathlib import Path

from rich import box
from rich.table import Table

from asyncio_alt.pc import arguments, screen
from asyncio_alt.pc.figures import PEER
from asyncio_alt.pc.show import figure_style, save
from tools import Problem, targets
from tools.bench.command import add_folder, write
from tools.bench.run import micropython_version, script_text
from tools.bootstrap import ROOT

_DOC = ROOT / "docs" / "power.md"
_DRAWN = 6  # seconds of each run in the picture
_PIXEL = _DRAWN / 600


# A Pico's currents in mA, and their source.
PICO = {
    "awake": 18,
    "asleep": 0.99,
    "source": "Peter Hinch, Raspberry Pi Pico at 5 V on VSYS without USB: 18 mA with stock "
    "asyncio (https://github.com/peterhinch/micropython-async/blob/master/v3/docs/ASYNCIO_ALT.md),"
    " 0.99 mA in lightsleep(5000) (https://github.com/micropython/micropython/pull/8832)",
}

# (mode, name, side of a figure, package); all but the first are in power mode
MODES = (
    ("awake", "stock asyncio", "stock", "asyncio"),
    ("slices", "20 ms slices", "peer", PEER),
    ("sleep", "power_mode(True)", "ours", "asyncio_alt"),
)

# (program of tools/bench/scripts/power.py, its description, seconds that it runs)
PROGRAMS = (
    ("blink", "A blink, once a second", 60),
    ("uart", "A UART's answer, every other second", 60),
)


def add_arguments(parser):
    parser.add_argument("stats", nargs="?", type=stats, metavar="STATS", help="(see above)")
    parser.add_argument(
        "--ma",
        nargs=2,
        type=arguments.real(0, 1e6),
        default=(PICO["awake"], PICO["asleep"]),
        metavar=("AWAKE", "ASLEEP"),
        help=f"your board's currents (default: a Pico's, {PICO['awake']} and {PICO['asleep']})",
    )
    add_folder(parser, "write the JSON and the picture there, and leave docs/power.md as it is")


def stats(text):
    wrong = ""
    try:
        values = dict(ast.literal_eval(text))
        missing = [key for key in ("asleep_ms", "awake_ms", "sleeps") if key not in values]
        if not missing:
            told = [values[key] for key in ("asleep_ms", "awake_ms", "sleeps")]
            if all(0 <= value < math.inf for value in told) and told[0] + told[1] > 0:
                return values
        wrong = f": it lacks {', '.join(missing)}" if missing else ": it tells of no time"
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        pass
    raise argparse.ArgumentTypeError(
        f"{text[:99]!r} is not what LightSleep.stats() returns{wrong}"
    )


def main(args):
    console = screen.console()
    awake, asleep = args.ma
    if args.stats:
        share = asleep_share(args.stats["asleep_ms"], args.stats["awake_ms"])
        console.print(f"{100 * share:.2f} % asleep in {args.stats['sleeps']} sleeps")
        console.print(f"Estimate: {estimate(share, awake, asleep):.3g} mA on average")
        return 0
    with targets.get("rp2") as rp2:
        runs = [
            run(rp2, package, program, mode, seconds)
            for program, _, seconds in PROGRAMS
            for mode, _, _, package in MODES
        ]
        version = micropython_version(rp2)
    for values in runs:
        values["mA"] = float(f"{estimate(values['asleep'], awake, asleep):.3g}")
    picture = args.folder / "power.svg"
    draw(runs, picture)
    for values in runs:
        del values["spans"]
    report = {
        "target": "power",
        "micropython": version,
        "machine": "an emulated RP2040",
        "date": datetime.date.today().isoformat(),
        "currents": {"awake": awake, "asleep": asleep, "source": PICO["source"]},
        "figures": _figures(runs),
        "runs": runs,
    }
    path = args.folder / "power.json"
    write(report, path, [_DOC], with_tables)
    console.print(_table(report))
    console.print(f"mA: an estimate, from {awake:g} awake and {asleep:g} asleep.")
    console.print(f"Written: {path}, {picture}")
    return 0


def asleep_share(asleep, awake):
    return asleep / (asleep + awake)


def estimate(share, awake, asleep) -> float:
    """Return the average current of a board that is asleep for this share (0 to 1) of the time."""
    return share * asleep + (1 - share) * awake


def run(rp2, package, program, mode, seconds) -> dict:
    """Run a program on a started Rp2; return how it slept, "spans" with (s, s, depth) among it.

    Depth: 0 it works, 1 it waits with the clocks on, 2 it is in machine.lightsleep.
    """
    arguments = package, program, mode != "awake", seconds
    script = script_text("power", package)
    result = rp2.run(f"{script}\nprint(measure{arguments})\n", timeout=300)
    if not result.ok:
        raise Problem(f"{program} with {mode}: {result.err or 'not finished in time'}")
    values = ast.literal_eval(result.out)
    begin, end = values.pop("begin"), values.pop("end")
    changes = [(us, depth) for us, what, depth in result.events if what == "sleep" and us < end]
    spans = []
    for (us, depth), (until, _) in zip([(begin, 0)] + changes, changes + [(end, 0)], strict=True):
        spans.append(((us - begin) / 1e6, (until - begin) / 1e6, depth))
    times = [sum(b - a for a, b, depth in spans if depth == d) for d in range(3)]
    works, waits, asleep = (time / sum(times) for time in times)
    return {
        "program": program,
        "mode": mode,
        "seconds": round(sum(times), 3),
        "works": works,
        "waits": waits,
        "asleep": asleep,
        "sleeps": sum(depth == 2 for *_, depth in spans),
        "lost": sum(what == "uart1-lost" for _, what, _ in result.events),
        "spans": spans,
        **values,
    }


# (key of a run, unit, name)
_TOLD = (
    ("mA", "mA", "estimated current"),
    ("sleeps", "", "wake-ups in a minute"),
    ("lost", "bytes", "lost in a minute"),
)


def _figures(runs):
    # In the form of benchmarks/*.json, without figures that are 0 on all sides.
    figures = []
    for program, what, _ in PROGRAMS:
        sides = {
            side: next(r for r in runs if (r["program"], r["mode"]) == (program, mode))
            for mode, _, side, _ in MODES
        }
        for key, unit, called in _TOLD:
            figure = {side: r[key] for side, r in sides.items()}
            if not any(figure.values()):
                continue
            ratio = figure["ours"] / figure["stock"] if figure["stock"] else None
            figures.append(
                {
                    "name": f"{what}: {called}",
                    "unit": unit,
                    **figure,
                    "ratio": ratio and float(f"{ratio:.4g}"),
                }
            )
    return figures


# Tables and a picture

_COLUMNS = ("asleep", "waits", "works", "sleeps", "ms late", "lost", "mA")


def rows(report, program):
    """Yield the cells of each mode's row for a program."""
    for mode, name, *_ in MODES:
        for r in report["runs"]:
            if (r["program"], r["mode"]) == (program, mode):
                shares = [f"{100 * r[key]:.2f} %" for key in ("asleep", "waits", "works")]
                counts = [str(r[key]) for key in ("sleeps", "late", "lost")]
                yield [name, *shares, *counts, f"{r['mA']:.3g}"]


def with_tables(text: str, report: dict) -> str:
    """Return a Markdown text with the programs' tables brought up to date.

    A table stands between the comments `<!-- power: PROGRAM -->` and `<!-- end -->`.
    """
    for program, _, _ in PROGRAMS:
        lines = ["| | " + " | ".join(_COLUMNS) + " |", "| --- |" + " ---: |" * len(_COLUMNS)]
        lines += [f"| {' | '.join(cells)} |" for cells in rows(report, program)]
        begin = f"<!-- power: {program} -->\n"
        head, found, rest = text.partition(begin)
        if found:
            text = head + begin + "\n".join(lines) + "\n" + rest[rest.index("<!-- end -->") :]
    return text


def _table(report):
    title = f"MicroPython {report['micropython']}, rp2"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for program, _, _ in PROGRAMS:
        table.add_section()
        table.add_row(program)
        for cells in rows(report, program):
            table.add_row(*cells)
    return table


_DEPTHS = (("tab:red", "works"), ("tab:orange", "waits, clocks on"), ("tab:blue", "asleep"))


def _drawn(spans, depth):
    # The spans of this depth as (begin, end): each and each gap is at least a pixel wide.
    drawn = []
    for begin, end, d in spans:
        if d != depth or begin >= _DRAWN:
            continue
        end = max(end, begin + _PIXEL)
        if drawn and begin - drawn[-1][1] < _PIXEL:
            drawn[-1][1] = max(end, drawn[-1][1])
        else:
            drawn.append([begin, end])
    return drawn


def draw(runs, path: Path):
    """Draw when each program sleeps in each mode."""
    pyplot = figure_style()
    picture, panels = pyplot.subplots(
        len(PROGRAMS), 1, figsize=(9, 5.4), gridspec_kw={"hspace": 0.5}
    )
    for axes, (program, what, _) in zip(panels, PROGRAMS, strict=True):
        for row, (mode, *_) in enumerate(reversed(MODES)):
            r = next(r for r in runs if (r["program"], r["mode"]) == (program, mode))
            for depth, (colour, _) in enumerate(_DEPTHS):
                bars = [(begin, end - begin) for begin, end in _drawn(r["spans"], depth)]
                height = (row - 0.35, 0.7)
                axes.broken_barh(bars, height, color=colour, linewidth=0, zorder=3 - depth)
            text = f"{100 * r['asleep']:.1f} % asleep\n≈ {r['mA']:.3g} mA"
            if r["lost"]:
                text += f", {r['lost']} bytes lost"
            axes.annotate(
                text,
                (1.01, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize="small",
            )
        axes.set_yticks(range(len(MODES)), [name for _, name, *_ in reversed(MODES)])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, _DRAWN)
        axes.set_ylim(-0.5, len(MODES) - 0.5)
        axes.set_title(what, loc="left", fontsize="medium", fontweight="bold")
    panels[-1].set_xlabel("seconds; currents are estimates")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour, _ in _DEPTHS]
    picture.legend(handles, [name for _, name in _DEPTHS], loc="upper center", ncols=3)
    save(picture, path)
    pyplot.close(picture)
