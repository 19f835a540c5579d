"""Measure asyncio_alt beside stock asyncio, on real MicroPython.

Both run the same scripts (tools/experiments), in turn; a figure is the median of all repeats, or
what its name says. Where it matters, so does peterhinch's design, reproduced on stock asyncio. The
figures go to benchmarks/TARGET.json, with a picture beside them; those of the first two go into
the table of docs/figures.md, all into the page of tools report. A figure is "missed" if it is
worse than what this project requires.
"""

import dataclasses
import datetime
import json
import math
import platform
import re
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich import box
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from tools import (
    Problem,
    Unavailable,
    WrongArgument,
    arguments,
    firmware,
    screen,
    served,
    size,
    source,
    targets,
)
from tools.bootstrap import ROOT, version
from tools.targets.child import free_port

RESULTS = ROOT / "benchmarks"
PACKAGES = {"stock": "asyncio", "ours": "asyncio_alt"}
PEER = "peer"  # both a side and its package, which tools/experiments/peer.py makes of stock's
_EXPERIMENTS = Path(__file__).with_name("experiments")
_PAGE = ROOT / "docs" / "figures.md"

median = statistics.median
worst = max


def p99(samples):
    return sorted(samples)[math.ceil(len(samples) * 0.99) - 1]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number that stock, if it has it, and ours are compared by; less is better."""

    name: str
    unit: str
    key: str  # of the samples in what the script returns
    of: Callable = median  # makes a number of the samples of all repeats
    required: float | None = None  # at most
    aim: float | None = None
    ratio: bool = False  # these two are for ours / stock, not for ours


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A script of tools/experiments, and the figures that it gives."""

    script: str
    figures: tuple
    args: dict = dataclasses.field(default_factory=dict)
    ours: dict = dataclasses.field(default_factory=dict)  # arguments that stock does not know
    pair: bool = False  # two processes run it at once, one with role="send", one "receive"
    peer: bool = False  # with peterhinch's design too

    @property
    def packages(self):
        return {**PACKAGES, PEER: PEER} if self.peer else PACKAGES


_LIMITS = ("required", "aim")
_US, _MS, _BYTES = "µs", "ms", "bytes"
_BUSY = {"busy": 10, "repeats": 4}  # events in each of the repeats


def _of_stock(required, aim):
    return {"required": required, "aim": aim, "ratio": True}


EXPERIMENTS = {
    "unix": (
        Experiment(
            "passes",
            (
                Figure("Pass with 10 ready tasks", _US, "us", **_of_stock(0.67, 0.5)),
                Figure("Pass while 50 flags are waited for", _US, "us with flags"),
                Figure("— against none waited for", "×", "times", required=1.15, aim=1),
                Figure("Allocated in a pass", _BYTES, "bytes"),
            ),
            {"flags": 50},
            peer=True,
        ),
        Experiment(
            "ended",
            (Figure("Ended tasks that stay in memory", "tasks", "tasks", required=5),),
            {"count": 1000, "ms": 5},
            peer=True,
        ),
        Experiment(
            "flag",
            (
                Figure("Flag set in a thread to resumed task", _US, "us", **_of_stock(0.2, 0.1)),
                Figure("— 99 of 100 within", _US, "us", p99),
                Figure("Allocated in a wait for a flag", _BYTES, "bytes"),
            ),
            {"repeats": 200},
            peer=True,
        ),
        Experiment(
            "idle",
            (Figure("Polls in 2 s idle, a flag waited for", "", "polls", required=10, aim=2),),
            {"seconds": 2},
            peer=True,
        ),
        Experiment(
            "latency",
            (
                Figure("100 ms stream timer, ten busy tasks", _MS, "ms"),
                Figure("— longest", _MS, "ms", worst, required=106, aim=105),
                Figure("— busy tasks' turns before it, at most", "", "turns", worst),
            ),
            {"source": "timer", **_BUSY},
            {"mode": "roundrobin(False)"},
            peer=True,
        ),
        Experiment(
            "latency",
            (
                Figure("Lateness of a flag, ten busy tasks", _MS, "late"),
                Figure("— latest", _MS, "late", worst, required=6),
            ),
            {"source": "flag", **_BUSY},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "echo",
            (Figure("TCP echo by readexactly, round trip", _US, "us"),),
            {"repeats": 500, "size": 68},
        ),
        Experiment(
            "message",
            (
                Figure(
                    "64-byte messages over TCP, bursts, stream / Protocol",
                    _US,
                    "us",
                    **_of_stock(0.5, 0.33),
                ),
                Figure(
                    "— to the answer to a burst of 50", _US, "answered", **_of_stock(0.71, 0.5)
                ),
                Figure("— each, all in all", _US, "each", **_of_stock(0.93, 0.6)),
            ),
            {"size": 64, "bursts": 60, "burst": 50},
            {"how": "protocol"},
            pair=True,
        ),
        Experiment(
            "message",
            (
                Figure("64-byte message over TCP, stream / Protocol", _US, "us"),
                Figure("— to its answer", _US, "answered"),
            ),
            {"size": 64, "bursts": 1000},
            {"how": "protocol"},
            pair=True,
        ),
        Experiment(
            "message",
            (
                Figure("8 KB message over TCP, stream / Protocol", _US, "us"),
                Figure("— to its answer", _US, "answered"),
            ),
            {"size": 8192, "bursts": 300},
            {"how": "protocol"},
            pair=True,
        ),
        Experiment(
            "deferred",
            (
                Figure(
                    "Echo request, write in the poll / at once", _US, "us", **_of_stock(0.91, 0.8)
                ),
            ),
            {"repeats": 1000, "size": 64},
        ),
    ),
    # Simulated time is exact, so one repeat tells all. The emulator has the samples of "edge" and
    # "irq".
    "rp2": (
        Experiment(
            "passes",
            (
                Figure("Pass with 10 ready tasks", _US, "us", required=150, aim=100),
                Figure(
                    "Pass while 30 flags are waited for",
                    _US,
                    "us with flags",
                    required=160,
                    aim=110,
                ),
                Figure("Allocated in a pass", _BYTES, "bytes"),
            ),
            {"flags": 30},
            peer=True,
        ),
        Experiment(
            "ended",
            (Figure("Ended tasks that stay in memory", "tasks", "tasks", required=5),),
            {"count": 150, "ms": 50},
            peer=True,
        ),
        Experiment(
            "trace",
            (
                Figure("Pass with the trace on, against off", "×", "times", required=1.15, aim=1),
                Figure("Pass with the trace off, differs by", _US, "differs by", required=0.05),
            ),
            ours={"module": "asyncio_alt.trace"},
        ),
        Experiment(
            "edge",
            (
                Figure("Pin edge to resumed task, idle", _US, "us", required=240, aim=150),
                Figure("— latest", _US, "us", worst),
            ),
            {"edges": 50},
            peer=True,
        ),
        Experiment(
            "edge",
            (
                Figure("Pin edge to resumed task, ten busy tasks", _US, "us"),
                Figure("— latest", _US, "us", worst, required=5400, aim=5200),
            ),
            {"edges": 50, "busy": 10},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "irq",
            (
                Figure(
                    "Pin edge to first line, plain handler / interrupt block",
                    _US,
                    "us",
                    **_of_stock(2, 1.3),
                ),
            ),
            {"edges": 20, "busy": 10},
        ),
        Experiment(
            "bus",
            (
                Figure(
                    "Two buses stand still, ten tasks, priority", "%", "idle", required=35, aim=25
                ),
            ),
            {"ms": 400},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "bus",
            (Figure("— interrupt block", "%", "idle", required=5, aim=2),),
            {"ms": 400},
            {"mode": "block"},
            peer=True,
        ),
        Experiment(
            "latency",
            (
                Figure("100 ms stream timer, ten busy tasks", _MS, "ms"),
                Figure("— longest", _MS, "ms", worst, required=106, aim=102),
            ),
            {"source": "timer", "busy": 10, "repeats": 20},
            {"mode": "roundrobin(False)"},
            peer=True,
        ),
        Experiment(
            "uart",
            (Figure("Lost of 20 KB from a UART, ten busy tasks", _BYTES, "lost", required=0),),
            {"blocks": 20},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "byte",
            (
                Figure(
                    "UART byte, nine ready tasks, stream / Protocol",
                    _US,
                    "us",
                    **_of_stock(0.5, 0.3),
                ),
            ),
            {"count": 40, "busy": 9},
            {"mode": "protocol"},
            peer=True,
        ),
        Experiment(
            "publish",
            (
                Figure("Publish to a function (stock: agents)", _US, "function", required=150),
                Figure("Publish to a waiting priority task", _US, "task", required=310),
            ),
            {"count": 20},
        ),
        Experiment(
            "publisher",
            (Figure("Publish in a hard interrupt (stock: flag)", _US, "us", worst, required=60),),
            {"count": 20},
        ),
        Experiment(
            "heap",
            (Figure("Heap for tasks that sleep, frozen", _BYTES, "bytes", **_of_stock(1.25, 1)),),
        ),
    ),
}


def _alike(how):
    # The unix port has stock frozen in and ours lies in the heap, where a collection goes through
    # its code too: these figures are of both in the same place.
    figures = (
        Figure(f"gc.collect(), {how}", _US, "collect"),
        Figure("— heap in use", _BYTES, "used"),
        Figure("— small web request", _US, "us"),
    )
    return [Experiment("alike", figures, {"port": free_port(), "requests": 200})]


_REQUESTS = {"clients": 10, "requests": 2000}
_MICRODOT = (
    Figure("Web server microdot, per request, 10 clients", _US, ""),
    Figure("— 99 of 100 answered within", _US, "", p99),
)
_FLASH = Figure("Flash for tasks that sleep (.mpy)", _BYTES, "", **_of_stock(1.5, 1))


repeats = arguments.count(1, 100000)


def add_folder(parser, text):
    """Give a tool that measures the option -o for a folder other than benchmarks/."""
    parser.add_argument(
        "-o", dest="folder", type=arguments.folder, default=RESULTS, metavar="DIR", help=text
    )


def add_arguments(parser):
    parser.add_argument("--target", choices=EXPERIMENTS, default="unix", help="(default: unix)")
    parser.add_argument(
        "--repeats",
        type=repeats,
        metavar="N",
        help="(default: 5; 1 on rp2, where time is simulated)",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="this script of tools/experiments only: show its figures, write nothing",
    )
    add_folder(parser, "write the JSON and the picture there, and leave docs/figures.md as it is")


def add_repeats(parser):
    """Give a tool that measures the option --repeats."""
    parser.add_argument("--repeats", type=repeats, default=5, metavar="N", help="(default: 5)")


def write(report, path, pages=(), with_tables=None):
    """Write what a tool has measured to a JSON file, in a folder that is made if need be. If that
    is benchmarks/, bring the pages with its tables up to date: with_tables(text, report) returns
    the new text of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in pages if path.parent == RESULTS else ():
        page.write_text(with_tables(page.read_text("utf-8"), report), "utf-8")


def main(args):
    console = screen.console()
    experiments = EXPERIMENTS[args.target]
    if args.only:
        experiments = [e for e in experiments if e.script == args.only]
        if not experiments:
            names = sorted({e.script for e in EXPERIMENTS[args.target]})
            raise WrongArgument(f"argument --only: {args.only!r} is none of {', '.join(names)}")
    args.repeats = args.repeats or (1 if args.target == "rp2" else 5)
    with targets.get(args.target) as target, Progress(console=console, transient=True) as bar:
        steps = args.repeats * sum(len(e.packages) for e in experiments)
        task = bar.add_task("", total=steps)
        figures = measure(
            target,
            experiments,
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
        write(report, stem.with_suffix(".json"), [_PAGE], lambda text, r: with_tables(text, [r]))
        draw(report, stem.with_suffix(".svg"))
    console.print(_table(report))
    missed = [figure["name"] for figure in figures if figure["ok"] is False]
    console.print(f"{len(missed)} missed" if missed else "All that is required holds.")
    if not args.only:
        console.print(f"Written: {stem}.json, {stem}.svg")
    return 1 if missed else 0


def measure(target, experiments, repeats, tell=lambda text: None) -> list[dict]:
    """Run the experiments on a started target; return their figures, as they go into the JSON.

    tell: called with what comes next, before each script
    """
    samples = defaultdict(list)  # (experiment, side, key) to the values of all repeats
    for _ in range(repeats):
        for i, experiment in enumerate(experiments):
            for side, package in experiment.packages.items():
                tell(f"{experiment.script}, {package}")
                more = experiment.ours if side == "ours" else {}
                how = run_pair if experiment.pair else run
                result = how(target, experiment.script, package, **experiment.args, **more)
                for key, values in result.items():
                    samples[i, side, key] += values if isinstance(values, list) else [values]
    return [
        _judged(figure, *(_of(figure, samples[i, side, figure.key]) for side in (*PACKAGES, PEER)))
        for i, experiment in enumerate(experiments)
        for figure in experiment.figures
    ]


def _of(figure, samples):
    return figure.of(samples) if samples else None


def run(target, script, package, **args) -> dict:
    """Run measure(package, **args) of a script in tools/experiments; return what it returns."""
    call = f"\nimport json\nprint(json.dumps(measure({package!r}, **{args!r})))\n"
    result = target.run(script_text(script, package) + call)
    if not result.ok:
        said = result.err.strip().splitlines() or ["it says nothing"]
        why = "not finished in time" if result.timed_out else said[-1]
        raise Problem(f"the experiment {script} with {package} on {target.name}: {why}")
    values = json.loads(result.out)
    if getattr(result, "events", None):
        values["us"] = _answers(result.events)
    return values


def script_text(script, package) -> str:
    """Return a script of tools/experiments, and what makes the package if it is PEER."""
    text, peer = ((_EXPERIMENTS / f"{name}.py").read_text() for name in (script, PEER))
    return f"{text}\nexec({peer!r}, {{}})\n" if package == PEER else text


def run_pair(target, script, package, sender=None, **args) -> dict:
    """As run(), in two processes at once; return what both return.

    sender: the target of the one that sends, if that is another
    """
    args["port"] = free_port()
    with ThreadPoolExecutor() as pool:
        ends = {"receive": target, "send": sender or target}
        running = [pool.submit(run, ends[r], script, package, role=r, **args) for r in ends]
        return {key: value for end in running for key, value in end.result().items()}


def _answers(events):
    # From each edge of the pin that is driven to the next of the one that is watched, in us.
    rising = [(us, what[:2]) for us, what, value in events if value]
    pairs = zip(rising, rising[1:], strict=False)
    return [out - at for (at, first), (out, then) in pairs if first == "in" and then == "pi"]


def micropython_version(target) -> str:
    script = "import sys\nprint(sys.implementation.version)\nprint(sys.version)"
    numbers, build = target.run(script).out.splitlines()
    version = re.sub(r"[(' )]", "", numbers).replace(",", ".", 2).replace(",", "-").rstrip("-")
    return f"{version} ({build.rpartition('MicroPython ')[2]})"


def _judged(figure, stock, ours, peer=None):
    ratio = ours / stock if stock else None
    value = ratio if figure.ratio else ours
    return {
        "name": figure.name,
        "unit": figure.unit,
        "stock": _rounded(stock),
        "peer": _rounded(peer),
        "ours": _rounded(ours),
        "ratio": _rounded(ratio),
        "required": figure.required,
        "aim": figure.aim,
        "limits are for": "ratio" if figure.ratio else "ours",
        "ok": None if figure.required is None else value <= figure.required,
    }


def _rounded(value):
    return value if value is None else float(f"{value:.4g}")


def _microdot(console, repeats):
    # A list of the figures of a web server; empty if microdot cannot be had.
    per_request, took = defaultdict(list), defaultdict(list)
    try:
        for _ in range(repeats):
            for side, head in (("stock", ""), ("ours", served.INSTALL)):
                each, together = served.measure(**_REQUESTS, head=head)
                took[side] += each
                per_request[side].append(together / len(each))
    except Unavailable as error:
        console.print(f"microdot left out: {error}")
        return []
    return [
        _judged(figure, *(figure.of(samples[side]) for side in PACKAGES))
        for figure, samples in zip(_MICRODOT, (per_request, took), strict=True)
    ]


def alike(console, repeats):
    """Return the figures of both packages from files, and of both frozen, if they can be had."""
    figures = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(source.tree(None) / "extmod" / "asyncio", Path(folder, "asyncio"))
            with targets.get("unix", path=[folder, ROOT]) as target:
                figures += measure(target, _alike("both from files"), repeats)
        with targets.get("unix", binary=firmware.build("unix"), path=[]) as target:
            figures += measure(target, _alike("both frozen"), repeats)
    except Unavailable as error:
        console.print(f"Both from files or both frozen left out: {error}")
    return figures


def _flash(console):
    # A list of one figure; of none if stock's source cannot be had.
    try:
        tree = source.tree(None)
    except Unavailable as error:
        console.print(f"Sizes left out: {error}")
        return []
    base = size.measure(ROOT / "asyncio_alt", tree)["sets"]["base"]
    return [_judged(_FLASH, base["stock"]["mpy"], base["ours"]["mpy"])]


def machine():
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return model[1] if model else platform.processor() or platform.machine()


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


def shown(figure) -> list[str]:
    """Return stock, ours and their ratio as text."""
    ratio = figure["ratio"]
    return [
        *(with_unit(figure, side) for side in PACKAGES),
        "" if ratio is None else number(ratio),
    ]


def with_unit(figure, side) -> str:
    """Return what a figure says of a side as text, "" if it says nothing."""
    value = figure.get(side)
    return "" if value is None else f"{number(value)} {figure['unit']}".strip()


def number(value: float) -> str:
    """Return it with about two digits, never as a power of ten."""
    size = abs(value)
    if size == 0 or size >= 100:
        return f"{value:.0f}"
    digits = 1 if size >= 10 else 1 - math.floor(math.log10(size))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


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


def replaced(text: str, name: str, by: str) -> str:
    """Return a Markdown text with other lines between `<!-- NAME -->` and the next
    `<!-- end -->`; unchanged without the former."""
    begin = f"<!-- {name} -->\n"
    head, found, rest = text.partition(begin)
    return head + begin + by + "\n" + rest[rest.index("<!-- end -->") :] if found else text


def figure_style():
    """Return matplotlib.pyplot, set for pictures that are the same for the same figures."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "svg.hashsalt": "asyncio_alt",
            "font.family": "DejaVu Sans",  # comes with matplotlib
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    return pyplot


def save(figure, path: Path):
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")


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
