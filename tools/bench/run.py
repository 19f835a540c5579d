"""Runs the scripts of tools/bench/scripts, and those of asyncio_alt/pc/scripts, on a target."""

import json
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asyncio_alt.pc import bench
from asyncio_alt.pc.figures import PEER
from tools import Problem
from tools.targets.child import free_port

SCRIPTS = Path(__file__).with_name("scripts")


def measure(target, experiments, repeats, tell=lambda text: None) -> list[dict]:
    """As asyncio_alt.pc.bench.measure(), with the scripts of the tools."""
    return bench.measure(target, experiments, repeats, tell, _run)


def _run(target, experiment, package, args):
    how = run_pair if experiment.pair else run
    return how(target, experiment.script, package, **args)


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
    """Return a script, with code that makes the package if it is PEER."""
    folder = SCRIPTS if (SCRIPTS / f"{script}.py").exists() else bench.SCRIPTS
    text, peer = (folder / f"{script}.py").read_text(), (SCRIPTS / f"{PEER}.py").read_text()
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
