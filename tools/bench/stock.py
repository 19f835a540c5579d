"""Measure asyncio_alt beside stock asyncio, on real MicroPython.

Both run the same scripts (tools/bench/scripts), in turn; a figure is the median of all repeats,
unless its name says otherwise. Where it matters, peterhinch's design runs them too, reproduced on
stock asyncio. The figures go to benchmarks/TARGET.json, with a picture beside them; those of the
first two go into the table of docs/figures.md, all into the page of bench report. A figure is
"missed" if it is worse than this project's limit.
"""

import datetime
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from rich import box
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from asyncio_alt.pc import screen
from asyncio_alt.pc.figures import PACKAGES, PEER, judged, shown
from asyncio_alt.pc.show import figure_style, replaced, save
from tools import Unavailable, WrongArgument, size, targets
from tools.bench import command, experiments, served
from tools.bench.run import machine, measure, micropython_version
from tools.bootstrap import ROOT, version
from tools.build import firmware, source

_LIMITS = ("required", "aim")
_PAGE = ROOT / "docs" / "figures.md"


def add_arguments(parser):
    parser.add_argument(
        "--target", choices=experiments.EXPERIMENTS, default="unix", help="(default: unix)"
    )
    parser.add_argument(
        "--repeats",
        type=command.repeats,
        metavar="N",
        help="(default: 5; 1 on rp2, where time is simulated)",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="this script of tools/bench/scripts only: show its figures, write nothing",
    )
    command.add_folder(
        parser, "write the JSON and the picture there, and leave docs/figures.md as it is"
    )


def main(args):
    console = screen.console()
    wanted = experiments.EXPERIMENTS[args.target]
    if args.only:
        wanted = [e for e in wanted if e.script == args.only]
        if not wanted:
            names = sorted({e.script for e in experiments.EXPERIMENTS[args.target]})
            raise WrongArgument(f"argument --only: {args.only!r} is none of {', '.join(names)}")
    args.repeats = args.repeats or (1 if args.target == "rp2" else 5)
    with targets.get(args.target) as target, Progress(console=console, transient=True) as bar:
        steps = args.repeats * sum(len(e.packages) for e in wanted)
        task = bar.add_task("", total=steps)
        figures = measure(
            target,
            wanted,
            args.repeats,
            lambda text: bar.update(task, advance=1, description=text),
        )
        micropython = micropython_version(target)
    if args.target == "unix" and not args.only:
        figures += _microdot(console, args.repeats)
        figures += alike(console, args.repeats) + _flash(console)
    report = {
        "target": args.target,
        "micropython": micropython,
        "asyncio_alt": version(),
        "machine": machine() if args.target == "unix" else "an emulated RP2040",
        "date": datetime.date.today().isoformat(),
        "repeats": args.repeats,
        "figures": figures,
    }
    stem = args.folder / args.target
    if not args.only:
        command.write(
            report, stem.with_suffix(".json"), [_PAGE], lambda text, r: with_tables(text, [r])
        )
        draw(report, stem.with_suffix(".svg"))
    console.print(_table(report))
    missed = [figure["name"] for figure in figures if figure["ok"] is False]
    console.print(f"{len(missed)} missed" if missed else "All that is required holds.")
    if not args.only:
        console.print(f"Written: {stem}.json, {stem}.svg")
    return 1 if missed else 0


def _microdot(console, repeats):
    # A list of the figures of a web server; empty if microdot cannot be had.
    per_request, took = defaultdict(list), defaultdict(list)
    try:
        for _ in range(repeats):
            for side, head in (("stock", ""), ("ours", served.INSTALL)):
                each, together = served.measure(**experiments.REQUESTS, head=head)
                took[side] += each
                per_request[side].append(together / len(each))
    except Unavailable as error:
        console.print(f"microdot left out: {error}")
        return []
    return [
        judged(figure, *(figure.of(samples[side]) for side in PACKAGES))
        for figure, samples in zip(experiments.MICRODOT, (per_request, took), strict=True)
    ]


def alike(console, repeats):
    """Return the figures of both packages from files, and of both frozen, if they can be had."""
    figures = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(source.tree(None) / "extmod" / "asyncio", Path(folder, "asyncio"))
            with targets.get("unix", path=[folder, ROOT]) as target:
                figures += measure(target, experiments.alike("both from files"), repeats)
        with targets.get("unix", binary=firmware.build("unix"), path=[]) as target:
            figures += measure(target, experiments.alike("both frozen"), repeats)
    except Unavailable as error:
        console.print(f"Both from files or both frozen left out: {error}")
    return figures


def _flash(console):
    # A list of one figure; empty if stock's source cannot be had.
    try:
        tree = source.tree(None)
    except Unavailable as error:
        console.print(f"Sizes left out: {error}")
        return []
    base = size.measure(ROOT / "asyncio_alt", tree)["sets"]["base"]
    return [judged(experiments.FLASH, base["stock"]["mpy"], base["ours"]["mpy"])]


# How figures are shown


def _table(report):
    table = Table(
        title=f"MicroPython {report['micropython']}, {report['target']}", box=box.SIMPLE_HEAD
    )
    table.add_column("")
    for column in ("stock", "ours", "ratio", "required", "aim"):
        table.add_column(column, justify="right", no_wrap=True)
    for figure in report["figures"]:
        times = " ×" if figure["limits are for"] == "ratio" else ""
        limits = ["" if figure[key] is None else f"{figure[key]:g}{times}" for key in _LIMITS]
        colour = {None: "default", True: "green", False: "bold red"}[figure["ok"]]
        limits[0] += {None: "", True: " ok", False: " missed"}[figure["ok"]]
        table.add_row(figure["name"], *shown(figure), Text(limits[0], colour), limits[1])
    return table


def with_tables(text: str, reports: list[dict]) -> str:
    """Return a Markdown text with the tables of the reports' figures brought up to date.

    A table stands between the comments `<!-- figures: TARGET -->` and `<!-- end -->`.
    """
    for report in reports:
        lines = ["| | stock | asyncio_alt | ratio |", "| --- | ---: | ---: | ---: |"]
        lines += [
            f"| {' | '.join([figure['name'], *shown(figure)])} |" for figure in report["figures"]
        ]
        lines += ["", f"MicroPython {report['micropython']}, {report['machine']}."]
        text = replaced(text, f"figures: {report['target']}", "\n".join(lines))
    return text


def draw(report: dict, path: Path):
    """Draw each figure's ratio to stock."""
    pyplot = figure_style()
    figures = [figure for figure in report["figures"] if figure["ratio"]]
    picture, axes = pyplot.subplots(figsize=(9, 0.42 * len(figures) + 1.2))
    axes.set_xscale("log")
    axes.axvline(1, color="0.45", linewidth=1.5)
    for row, figure in enumerate(reversed(figures)):
        ratio = figure["ratio"]
        colour = "tab:blue" if ratio <= 1 else "tab:orange"
        axes.plot([1, ratio], [row, row], color=colour, linewidth=5, solid_capstyle="butt")
        axes.plot(ratio, row, "o", color=colour, markersize=8)
        if figure.get(PEER):
            design = figure[PEER] / figure["stock"]
            axes.plot(design, row, "d", color="0.1", fillstyle="none", markersize=9)
        stock, ours, _ = shown(figure)
        axes.annotate(
            f"{stock} → {ours}", (1.03, row), xycoords=("axes fraction", "data"), va="center"
        )
        if figure["required"] and figure["limits are for"] == "ratio":
            axes.plot(figure["required"], row, "|", color="0.2", markersize=14)
    axes.set_yticks(range(len(figures)), [figure["name"] for figure in reversed(figures)])
    axes.set_xticks([0.001, 0.01, 0.1, 1], ["1/1000", "1/100", "1/10", "1"])
    axes.set_xlabel(
        "asyncio_alt / stock asyncio, logarithmic (left is better; | is required; "
        "◇ is peterhinch's design)"
    )
    axes.annotate("stock", (1, 1.01), xycoords=("data", "axes fraction"), ha="center", va="bottom")
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(axis="y", length=0)
    axes.set_title(f"asyncio_alt beside stock asyncio, MicroPython {report['target']}", pad=22)
    save(picture, path)
    pyplot.close(picture)
