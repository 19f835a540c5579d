"""See an event handled first: how late its task is resumed while other tasks work.

It takes under a minute: real MicroPython runs the same scripts with stock asyncio and with
asyncio_alt, in turn. Draws a picture too.
"""

import statistics
from collections import defaultdict

from rich import box
from rich.progress import Progress
from rich.table import Table

from asyncio_alt.pc import arguments, screen
from asyncio_alt.pc.figures import PACKAGES
from asyncio_alt.pc.show import figure_style, number, save
from tools import targets
from tools.bench.command import add_folder
from tools.bench.run import run

_BUSY = "A busy task works 5 ms, then lets the others run."
_REPEATS = 5  # in a round

# (name, package, mode of tools/bench/scripts/latency.py, colour)
_VARIANTS = (
    ("stock asyncio", "asyncio", "", "0.45"),
    ("asyncio_alt", "asyncio_alt", "", "tab:blue"),
    ("… roundrobin(False)", "asyncio_alt", "roundrobin(False)", "tab:orange"),
    ("… one priority wait", "asyncio_alt", "priority", "tab:green"),
)

# (title, source of events, busy tasks)
_SCENES = (
    ("100 ms stream timer, ten busy tasks", "timer", 10),
    ("flag set in a thread, ten busy tasks", "flag", 10),
    ("flag set in a thread, one busy task", "flag", 1),
)

_FLAGS = 50
_PASS = f"a pass, {_FLAGS} tasks waiting for flags"


def add_arguments(parser):
    parser.add_argument(
        "--rounds",
        type=arguments.count(1, 1000),
        default=4,
        metavar="N",
        help="how often each script runs (default: 4)",
    )
    add_folder(parser, "draw DIR/latency.svg (default: benchmarks)")


def main(args):
    console = screen.console()
    console.print(f"{_BUSY} How late are events handled?")
    late, passes = _measured(console, args.rounds)
    console.print(_table(late, passes))
    args.folder.mkdir(parents=True, exist_ok=True)
    picture = args.folder / "latency.svg"
    _draw(late, passes, picture)
    for line in _words(late, passes):
        console.print(f"* {line}")
    console.print(f"Picture: {picture}", soft_wrap=True)
    return 0


def _measured(console, rounds):
    """Return the ms late of each (scene, variant), and the us of a pass of each package."""
    late, passes = defaultdict(list), defaultdict(list)
    with targets.get("unix") as unix, Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=rounds * (len(_SCENES) * len(_VARIANTS) + 2))
        for _ in range(rounds):
            for what, source, busy in _SCENES:
                for variant, package, mode, _ in _VARIANTS:
                    progress.update(task, advance=1, description=f"{what}: {variant}")
                    args = {"source": source, "busy": busy, "repeats": _REPEATS, "mode": mode}
                    late[what, variant] += run(unix, "latency", package, **args)["late"]
            for package in PACKAGES.values():
                progress.update(task, advance=1, description=f"{_PASS}: {package}")
                result = run(unix, "passes", package, flags=_FLAGS)
                passes[package].append(result["us with flags"])
    return late, {package: statistics.median(us) for package, us in passes.items()}


def _table(late, passes):
    table = Table(title="ms late: median (latest)", box=box.SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for heading in [what for what, *_ in _SCENES] + [_PASS]:
        table.add_column(heading, justify="right", max_width=12)
    for variant, package, mode, _ in _VARIANTS:
        cells = [late[what, variant] for what, *_ in _SCENES]
        row = [f"{statistics.median(ms):.1f} ({max(ms):.1f})" for ms in cells]
        row.append("as above" if mode else f"{number(passes[package])} µs")
        table.add_row(variant, *row)
    return table


def _words(late, passes):
    stock, _, first, one = (variant for variant, *_ in _VARIANTS)
    timer, flag, single = (what for what, *_ in _SCENES)

    def ms(what, variant, more=0):
        return f"{more + statistics.median(late[what, variant]):.0f} ms"

    yield (
        f"Among ten busy tasks a 100 ms timer takes {ms(timer, stock, 100)} with stock asyncio, "
        f"{ms(timer, first, 100)} with roundrobin(False): it waits for the task that works, "
        "not for all ten."
    )
    yield (
        "One wait(priority=True) does that for one flag, while all else takes turns: "
        f"{ms(flag, one)} late, {ms(flag, stock)} with stock."
    )
    yield f"Beside one busy task a flag is {ms(single, one)} late, {ms(single, stock)} with stock."
    yield (
        f"While {_FLAGS} tasks wait for flags, a pass takes {number(passes['asyncio'])} µs "
        f"with stock, {number(passes['asyncio_alt'])} µs with asyncio_alt."
    )


def _draw(late, passes, path):
    pyplot = figure_style()
    picture, panels = pyplot.subplots(
        len(_SCENES) + 1, 1, figsize=(9, 7.6), gridspec_kw={"hspace": 0.75}
    )
    end = 1.05 * max(max(values) for values in late.values())
    for axes, (what, *_) in zip(panels, _SCENES, strict=False):
        for row, (variant, _, _, colour) in enumerate(reversed(_VARIANTS)):
            values = late[what, variant]
            middle = statistics.median(values)
            axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.5, markersize=6)
            axes.plot([middle] * 2, [row - 0.35, row + 0.35], color=colour, linewidth=2.5)
            axes.annotate(
                f"{middle:.1f} ms",
                (1.01, row),
                xycoords=("axes fraction", "data"),
                va="center",
                color=colour,
            )
        axes.set_xlim(-0.01 * end, end)
        axes.set_title(what, loc="left", fontsize="medium", fontweight="bold")
        _rows(axes, [variant for variant, *_ in _VARIANTS])
    panels[-2].set_xlabel("ms late (dots: each event; bars and figures: the median)")

    axes = panels[-1]
    for row, (package, us) in enumerate(reversed(passes.items())):
        axes.barh(row, us, color="tab:blue" if row == 0 else "0.45", height=0.5)
        axes.annotate(f" {number(us)} µs", (us, row), va="center")
    axes.set_xscale("log")
    axes.set_title(_PASS, loc="left", fontsize="medium", fontweight="bold")
    axes.set_xlabel("µs, logarithmic")
    axes.set_xlim(left=0.1)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(-0.6, 1.6)
    _rows(axes, ["stock asyncio", "asyncio_alt"])
    picture.suptitle(
        "An urgent event waits for the task that works, not for every ready task",
        fontsize="x-large",
        y=0.98,
    )
    picture.text(0.5, 0.925, f"{_BUSY} MicroPython, unix port.", ha="center")
    save(picture, path)
    pyplot.close(picture)


def _rows(axes, names):
    axes.set_yticks(range(len(names)), names[::-1])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
