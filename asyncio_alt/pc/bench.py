"""Measure asyncio_alt on a board, beside the stock asyncio of its firmware.

Both run the same scripts, in turn; the figures are medians. The table is Markdown, to be posted.
With -o they go to a file, too: benchmarks/boards/ of the project gathers such files.

PORT is a board's port, as mpremote takes it, or unix, for MicroPython's unix port. Without PORT it
is the board that is connected by USB.
"""

import dataclasses
import datetime
import json
from collections import defaultdict
from pathlib import Path

from rich.progress import Progress

from asyncio_alt.pc import Problem, arguments, parts, targets
from asyncio_alt.pc.ask import ask, name
from asyncio_alt.pc.figures import PACKAGES, PEER, Figure, judged, shown, worst
from asyncio_alt.pc.screen import console, escaped

SCRIPTS = Path(__file__).with_name("scripts")
_LIMIT = 120  # seconds that a script may take
_NAME = 60  # characters


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A script, and its figures."""

    script: str
    figures: tuple
    args: dict = dataclasses.field(default_factory=dict)
    ours: dict = dataclasses.field(default_factory=dict)  # arguments that stock does not know
    pair: bool = False  # two processes run it at once, one with role="send", one "receive"
    peer: bool = False  # with peterhinch's design too

    @property
    def packages(self):
        return {**PACKAGES, PEER: PEER} if self.peer else PACKAGES


_US, _MS, _BYTES = "µs", "ms", "bytes"
EXPERIMENTS = (
    Experiment(
        "passes",
        (
            Figure("Pass with 10 ready tasks", _US, "us"),
            Figure("Pass while 30 flags are waited for", _US, "us with flags"),
            Figure("Allocated in a pass", _BYTES, "bytes"),
        ),
        {"flags": 30},
    ),
    Experiment(
        "woken",
        (
            Figure("Flag set to resumed task, idle", _US, "us"),
            Figure("— latest", _US, "us", worst),
        ),
    ),
    Experiment(
        "woken",
        (
            Figure("Flag set to resumed task, ten busy tasks", _US, "us"),
            Figure("— latest", _US, "us", worst),
        ),
        {"busy": 10},
        {"mode": "priority"},
    ),
    Experiment(
        "latency",
        (
            Figure("100 ms stream timer, ten busy tasks", _MS, "ms"),
            Figure("— longest", _MS, "ms", worst),
        ),
        {"source": "timer", "busy": 10, "repeats": 10},
        {"mode": "roundrobin(False)"},
    ),
    Experiment(
        "ended",
        (Figure("Ended tasks that stay in memory", "tasks", "tasks"),),
        {"count": 100, "ms": 50},
    ),
    Experiment("heap", (Figure("Heap for tasks that sleep", _BYTES, "bytes"),)),
)

_LOOK = """
import sys
import asyncio_alt
from asyncio_alt import core
try:
    import machine
    freq = machine.freq()
except (ImportError, AttributeError):
    freq = 0
answer = {
    "micropython": sys.version,
    "machine": sys.implementation._machine,
    "mhz": (freq if isinstance(freq, int) else freq[0]) // 1000000,
    "file": core.__file__,
}
"""


def add_arguments(parser):
    parser.add_argument("port", metavar="PORT", nargs="?", type=targets.wanted, help="see above")
    parser.add_argument(
        "-o", dest="file", type=arguments.file, metavar="FILE", help="write the figures there too"
    )
    parser.add_argument(
        "--name", type=_name, metavar="TEXT", help="of the board (default: as it says itself)"
    )


def _name(text):
    return escaped(text.strip(), _NAME)


def main(args):
    screen = console()
    with targets.get(args.port) as target:
        board = ask(target, _LOOK, micropython=str, machine=str, mhz=int, file=str)
        with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
            task = bar.add_task("", total=sum(len(e.packages) for e in EXPERIMENTS))
            figures = measure(
                target, EXPERIMENTS, 1, lambda text: bar.update(task, advance=1, description=text)
            )
    frozen = not board["file"].startswith("/")
    report = {
        "board": args.name or board["machine"],
        "machine": board["machine"],
        "mhz": board["mhz"],
        "micropython": board["micropython"].rpartition("MicroPython ")[2],
        "asyncio_alt": parts.version(),
        "installed": "in the firmware" if frozen else Path(board["file"]).suffix[1:] + " files",
        "date": datetime.date.today().isoformat(),
        "figures": figures,
    }
    screen.print("\n".join(table(report)), soft_wrap=True)
    if args.file:
        text = json.dumps(report, indent=1, ensure_ascii=False)
        args.file.write_text(text + "\n", encoding="utf-8")
    return 0


def table(report) -> list[str]:
    """Return the lines of a report's table, and of what it is of, as Markdown."""
    speed = f" at {report['mhz']} MHz" if report["mhz"] else ""
    return [
        f"| {report['board'].replace('|', '/')} | stock | asyncio_alt | ratio |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {' | '.join([figure['name'], *shown(figure)])} |" for figure in report["figures"]),
        "",
        f"{report['machine']}{speed}, MicroPython {report['micropython']}; asyncio_alt "
        f"{report['asyncio_alt']} {_FROM[report['installed'].split()[0]]}; {report['date']}.",
    ]


_FROM = {"in": "in the firmware", "mpy": "from .mpy files", "py": "from .py files"}


def measure(target, experiments, repeats, tell=lambda text: None, run=None) -> list[dict]:
    """Run the experiments on a started target; return their figures, as they go into the JSON.

    tell: called with the name of the next script and its package, before each script
    run: called as run(target, experiment, package, args), returns the samples
    """
    samples = defaultdict(list)  # (experiment, side, key) to the values of all repeats
    for _ in range(repeats):
        for i, experiment in enumerate(experiments):
            for side, package in experiment.packages.items():
                tell(f"{experiment.script}, {package}")
                more = experiment.ours if side == "ours" else {}
                values = (run or _run)(target, experiment, package, {**experiment.args, **more})
                for key, value in values.items():
                    samples[i, side, key] += value if isinstance(value, list) else [value]
    return [
        judged(figure, *(_of(figure, samples[i, side, figure.key]) for side in (*PACKAGES, PEER)))
        for i, experiment in enumerate(experiments)
        for figure in experiment.figures
    ]


def _of(figure, samples):
    return figure.of(samples) if samples else None


def _run(target, experiment, package, args):
    text = (SCRIPTS / f"{experiment.script}.py").read_text("utf-8")
    script = f"{text}\nanswer = {{'it': measure({package!r}, **{args!r})}}\n"
    values = ask(target, script, _LIMIT, it=dict)["it"]
    keys = {figure.key for figure in experiment.figures}
    for key in keys:
        value = values.get(key)
        numbers = value if isinstance(value, list) else [value]
        if not numbers or not all(type(n) in (int, float) and abs(n) < 1e12 for n in numbers):
            raise Problem(f"{name(target)}: {experiment.script} gives an invalid answer")
    return {key: values[key] for key in keys}
