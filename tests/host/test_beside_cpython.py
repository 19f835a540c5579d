"""Programs do the same on CPython and on MicroPython's unix port, with tasks in C and in Python:
random programs, and those in tests/beside_cpython/programs. Those in differences do not.

PROGRAMS=FIRST:LAST in the environment runs the random programs of these seeds; the default is
0:2000. The clock is virtual on both sides, so that a delay takes no time. What a program does that
is known to differ is written in docs/cpython.md: such a program may differ."""

import collections
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.beside_cpython import generate
from tools.bootstrap import ROOT
from tools.targets.unix import micropython

FOLDER = ROOT / "tests" / "beside_cpython"
FIRST, LAST = (int(seed) for seed in os.environ.get("PROGRAMS", "0:2000").split(":"))
BATCH = 250  # programs in one process
TIMEOUT = 300  # seconds for a batch, on a machine that does other things too
TASKS = ("c", "py")

pytestmark = pytest.mark.timeout(1800)


def oracle():
    """Return the Python that has 3.13's asyncio or is nearest to it, and its (major, minor)."""
    found = {}
    names = [sys.executable, *(f"python3.{minor}" for minor in range(11, 15))]
    for path in filter(None, map(shutil.which, names)):
        code = "import sys; print(*sys.version_info[:2])"
        run = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            found.setdefault(tuple(map(int, run.stdout.split())), path)
    version = min(found, key=lambda version: (abs(version[1] - 13), version))
    return found[version], version


class Beside:
    """Runs programs on both sides."""

    def __init__(self, folder):
        self.folder = folder
        self.python, self.version = oracle()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not sys.platform.startswith("linux") or not compiler:
            pytest.skip("the virtual clock needs Linux and a C compiler")
        clock = folder / "clock.so"
        command = [compiler, "-shared", "-fPIC", "-o", clock, FOLDER / "clock.c", "-ldl"]
        subprocess.run(command, check=True)
        path = os.pathsep.join([str(ROOT), ".frozen"])
        self.environment = {**os.environ, "LD_PRELOAD": str(clock), "MICROPYPATH": path}
        probe = "import time; time.ticks_ms() == 1000000 or 1 / 0"
        command = [micropython(), "-c", probe]
        if subprocess.run(command, env=self.environment, capture_output=True).returncode:
            pytest.skip("this MicroPython takes its clock elsewhere")

    def run(self, sources, side):
        """Return [log, known differences] of each program."""
        path = self.folder / f"{side}-{hash(tuple(sources))}.json"
        path.write_text(json.dumps(sources))
        if side == "cpython":
            command = [self.python, "-W", "ignore", FOLDER / "run.py", path]
            environment = None
        else:
            command = [micropython(), "-X", "heapsize=32m", FOLDER / "run.py", path, side]
            environment = self.environment
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        done = [json.loads(line) for line in run.stdout.splitlines()]
        if len(done) != len(sources):
            source = sources[len(done)]
            raise AssertionError(f"{side} ended in this program:\n{source}\n{run.stderr}")
        return done

    def differing(self, programs):
        """Yield (program, known differences, side) where one differs."""
        sources = [generate.source(program) for program in programs]
        expected = self.run(sources, "cpython")
        for side in TASKS:
            for program, (log, known), (ours, _) in zip(
                programs, expected, self.run(sources, side), strict=True
            ):
                if ours != log:
                    yield program, tuple(known), side

    def shrink(self, program, side):
        """Return a smaller program that differs, too."""
        while True:
            candidates = list(generate.smaller(program))
            for first in range(0, len(candidates), 50):
                found = [
                    smaller
                    for smaller, known, where in self.differing(candidates[first : first + 50])
                    if where == side and not known
                ]
                if found:
                    program = min(found, key=lambda smaller: len(generate.source(smaller)))
                    break
            else:
                return program

    def shown(self, program, side):
        """Return a text of a program and of what it does."""
        source = generate.source(program)
        expected, ours = (self.run([source], where)[0][0] for where in ("cpython", side))
        same = 0
        while expected[same : same + 1] == ours[same : same + 1]:
            same += 1
        parts = ("both", expected[:same]), ("CPython", expected[same:]), (side, ours[same:])
        return source + "".join(
            f"\n---- {name}:\n" + "\n".join(map(str, lines)) for name, lines in parts
        )


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    return Beside(tmp_path_factory.mktemp("beside"))


def test_random_programs_do_the_same(beside, record_property, capsys):
    python = f"CPython {'.'.join(map(str, beside.version))}"
    missing = generate.missing(beside.version)
    left_out = f"; it has not, or not as 3.13 has: {', '.join(missing)}" if missing else ""
    seeds = range(FIRST, LAST)
    batches = [seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH)]
    excused = collections.Counter()

    def differing(batch):
        programs = {seed: generate.generate(seed, missing) for seed in batch}
        number = {id(program): seed for seed, program in programs.items()}
        return [
            (number[id(program)], program, known, side)
            for program, known, side in beside.differing(list(programs.values()))
        ]

    with ThreadPoolExecutor(2) as pool:
        found = [item for items in pool.map(differing, batches) for item in items]
    for _, _, known, _ in found:
        excused.update(known)
    failed = [item for item in found if not item[2]]
    with capsys.disabled():
        print(f"\n{len(seeds)} programs beside {python}{left_out}")
        print("known differences:", ", ".join(f"{n} {name}" for name, n in excused.items()))
    if failed:
        seed, program, _, side = failed[0]
        smaller = beside.shrink(program, side)
        pytest.fail(
            f"{len(failed)} differ; the one of seed {seed}, made smaller:\n"
            + beside.shown(smaller, side)
        )
    # Few enough that a new difference is not excused by chance.
    assert len(found) < len(TASKS) * len(seeds) * 0.2


def needed(path, beside):
    # The source, unless the Python beside is too old for it.
    source = path.read_text()
    if "Needs Python 3.13" in source and beside.version < (3, 13):
        pytest.skip("needs Python 3.13")
    return source


DIFFERENCES = sorted((FOLDER / "differences").glob("*.py"))
PROGRAMS = sorted((FOLDER / "programs").glob("*.py"))


@pytest.mark.parametrize("path", DIFFERENCES, ids=lambda path: path.stem)
def test_difference_that_the_docs_name_is_there(beside, path):
    assert f"`{path.stem}`" in (ROOT / "docs" / "cpython.md").read_text()
    source = needed(path, beside)
    logs = [beside.run([source], side)[0][0] for side in ("cpython", *TASKS)]
    assert logs[0] != logs[1] == logs[2], logs


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_does_the_same(beside, path):
    source = needed(path, beside)
    expected = beside.run([source], "cpython")[0][0]
    for side in TASKS:
        assert beside.run([source], side)[0][0] == expected, side
