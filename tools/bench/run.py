"""Runs the scripts of tools/bench/scripts on a target."""

import json
import platform
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asyncio_alt.pc.figures import PACKAGES, PEER, judged
from tools import Problem
from tools.targets.child import free_port

SCRIPTS = Path(__file__).with_name("scripts")


def measure(target, experiments, repeats, tell=lambda text: None) -> list[dict]:
    """Run the experiments on a started target; return their figures, as they go into the JSON.

    tell: called with the name of the next script and its package, before each script
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
        judged(figure, *(_of(figure, samples[i, side, figure.key]) for side in (*PACKAGES, PEER)))
        for i, experiment in enumerate(experiments)
        for figure in experiment.figures
    ]


def _of(figure, samples):
    return figure.of(samples) if samples else None


def run(target, script, package, **args) -> dict:
    """Run measure(package, **args) of a script in tools/bench/scripts; return its result."""
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
    """Return a script of tools/bench/scripts, with code that makes the package if it is PEER."""
    text, peer = ((SCRIPTS / f"{name}.py").read_text() for name in (script, PEER))
    return f"{text}\nexec({peer!r}, {{}})\n" if package == PEER else text


def run_pair(target, script, package, sender=None, **args) -> dict:
    """As run(), in two processes at once; return the results of both.

    sender: the target of the one that sends, if that is another
    """
    args["port"] = free_port()
    with ThreadPoolExecutor() as pool:
        ends = {"receive": target, "send": sender or target}
        running = [pool.submit(run, ends[r], script, package, role=r, **args) for r in ends]
        return {key: value for end in running for key, value in end.result().items()}


def _answers(events):
    # The us from each edge of the driven pin to the next edge of the watched one.
    rising = [(us, what[:2]) for us, what, value in events if value]
    pairs = zip(rising, rising[1:], strict=False)
    return [out - at for (at, first), (out, then) in pairs if first == "in" and then == "pi"]


def micropython_version(target) -> str:
    script = "import sys\nprint(sys.implementation.version)\nprint(sys.version)"
    numbers, build = target.run(script).out.splitlines()
    version = re.sub(r"[(' )]", "", numbers).replace(",", ".", 2).replace(",", "-").rstrip("-")
    return f"{version} ({build.rpartition('MicroPython ')[2]})"


def machine():
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return model[1] if model else platform.processor() or platform.machine()
