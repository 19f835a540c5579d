"""Collects tests/device/test_*.py as tests that run on MicroPython, one script a test function.

CPython reads those files, it never imports them. A test runs once for each variant of a target,
such as "unix-py": the unix port with its tasks in Python.

Tests on the unix port run first, two at once, as they sleep most of their time. Tests of the PC's
own (tests/host) may measure time: they run one after the other. Emulated tests have simulated
time: they run meanwhile, as many at once as there are processors and with the least priority, and
are reported at the end.

With --quick no test measures: those on the unix port run beside those of the PC's own. With
--target all and without --long each test runs on one of QEMU's chips.
"""

import ast
import os
import re
import signal
import threading
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import parts
from tools import Problem, Unavailable, targets
from tools.targets import child, qemu

_ROOT = Path(__file__).resolve().parent.parent
_POWER = (Path(__file__).parent / "device" / "power.py").read_text()
_PASSED = "-- passed --"  # harness.py prints it last
_TIMEOUT = 20  # seconds for one test on a target of slowness 1
_RUNNING = pytest.StashKey()

# Files of tests/host that --quick leaves out: they build firmware, run emulators, or measure.
_SLOW = """bench commands device devices emulators end_to_end every_step figures firmware libraries
long mip package power pubsub release shm shm_peers soak system_calls terminal trace types
upstream""".split()


class Variant(NamedTuple):
    """One way that tests run on a target."""

    options: dict = {}  # for targets.get()
    head: str = ""  # goes ahead of each script
    core: bool = False  # only the files of _CORE run


# Tests that depend on where tasks are implemented, or on little memory. The package's optional
# parts are used through these. Their tests run once on each target, and once more with power mode
# where that is quick.
_CORE = """clock connect drain flags gather heap input install interrupts lock_event loop priority
queue streams task threads wait_for""".split()

# A name with "-py" uses asyncio_alt/task.py.
_VARIANTS = {
    "unix": {
        "unix": Variant(),
        "unix-py": Variant(head=targets.HIDE_C_TASKS, core=True),
        "unix-power": Variant(head=_POWER),
    },
    **{
        chip: {
            chip: Variant(),
            f"{chip}-py": Variant({"c_tasks": False}, core=True),
            f"{chip}-64k": Variant({"heap": 65536}, core=True),
            f"{chip}-power": Variant(head=_POWER),
        }
        for chip in qemu.NAMES
    },
    "rp2": {
        "rp2": Variant(),
        "rp2-power": Variant(head=_POWER, core=True),
    },
}


def pytest_addoption(parser):
    group = parser.getgroup("MicroPython")
    group.addoption(
        "--target",
        type=targets.wanted,
        default="unix",
        metavar="TARGET",
        help=f"where device tests run: {targets.WANTED} (default: unix)",
    )
    group.addoption(
        "--task-py",
        action="store_true",
        help="device tests run with asyncio_alt/task.py only (default: also with tasks in C)",
    )
    group.addoption(
        "--quick",
        action="store_true",
        help="leave out the slow tests of the PC's own, and variants with power mode",
    )
    group.addoption(
        "--long",
        action="store_true",
        help="also run tests that take very long; with --target all, each on all of QEMU's chips",
    )
    group.addoption(
        "--mqtt-as",
        metavar="DIR",
        help="the folder that has mqtt_as in it, to be tested too",
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes very long, and runs with --long only")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As of a background job: the commands under test would ignore Ctrl-C, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_RUNNING] = Running()


def pytest_unconfigure(config):
    config.stash[_RUNNING].stop()


def pytest_ignore_collect(collection_path, config):
    name = collection_path.stem.removeprefix("test_")
    if config.option.quick and collection_path.parent.name == "host" and name in _SLOW:
        return True


def pytest_collection_modifyitems(items, config):
    for item in items:
        if item.get_closest_marker("long") and not config.option.long:
            item.add_marker(pytest.mark.skip("with --long only"))
    items.sort(key=_meanwhile if config.option.quick else _emulated)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if not session.testsfailed and not session.config.option.collectonly:
        session.config.stash[_RUNNING].begin(
            [item for item in session.items if isinstance(item, DeviceTest)]
        )


def _meanwhile(item):
    return isinstance(item, DeviceTest)


def _emulated(item):
    return isinstance(item, DeviceTest) and item.target[0] in targets.NAMES[1:]


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.parent.name == "device":
        return DeviceFile.from_parent(parent, path=module_path)


class Running:
    """The targets in use, each started by the first test that runs on it; and the tests on them,
    which run ahead of their turn."""

    def __init__(self):
        self._lock = threading.Lock()
        self._targets = {}  # (name, options) to the Future of the started Target
        # On Linux niceness is a thread's own, and that of the processes that it starts.
        self._pool = ThreadPoolExecutor(os.cpu_count(), initializer=os.nice, initargs=(19,))
        self._unix = ThreadPoolExecutor(2)
        self._begun = {}  # tests to the Future of their Result

    def get(self, name, options):
        """Return the started target; a test that asks for one that cannot be had is skipped."""
        key = name, *options.items()
        with self._lock:
            first = key not in self._targets
            started = self._targets.setdefault(key, Future())
        if first:
            try:
                target = targets.get(name, **options)
                target.start()
                started.set_result(target)
            except Exception as failure:
                started.set_exception(failure)
        try:
            return started.result()
        except Unavailable as reason:
            raise pytest.skip.Exception(str(reason)) from None

    def begin(self, tests):
        """Have these tests run in the background, but for those on a board."""
        emulated = [test for test in tests if _emulated(test)]
        # First the firmware is built for all of them, so that no test waits for another's.
        for name, options in {str(test.target): test.target for test in emulated}.values():
            self._pool.submit(self.get, name, options)
        for test in emulated:
            self._begun[test] = self._pool.submit(test.run_script)
        for test in tests:
            if test.target[0] == "unix":
                self._begun[test] = self._unix.submit(test.run_script)

    def result(self, test):
        """Return the Result of the script of a DeviceTest."""
        return self._begun.pop(test).result() if test in self._begun else test.run_script()

    def stop(self):
        for pool in self._pool, self._unix:
            pool.shutdown(wait=False, cancel_futures=True)
        child.kill_all()  # after Ctrl-C; else no process runs
        for pool in self._pool, self._unix:
            pool.shutdown()
        for started in self._targets.values():
            if started.done() and not started.exception():
                started.result().stop()


class DeviceFile(pytest.File):
    """One tests/device/test_*.py."""

    def collect(self):
        self.lines = self.path.read_text().splitlines()
        try:
            tree = ast.parse("\n".join(self.lines))
        except SyntaxError as error:
            raise self.CollectError(f"{self.path}:{error.lineno}: {error.msg}") from None
        try:
            ahead = "".join([file.read_text() for file in parts.ahead(self.path)])
        except FileNotFoundError as error:
            raise self.CollectError(f"{self.path}:1: no file {error.filename}") from None
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tests = [n for n in tree.body if isinstance(n, functions) and n.name.startswith("test_")]
        for node in tests:
            others = [other for other in tests if other is not node]
            for target, name, variant in _variants(self.config, self.path.stem, node):
                yield DeviceTest.from_parent(
                    self,
                    name=f"{node.name}[{name}]",
                    node=node,
                    source=_without(self.lines, others),
                    target=(target, variant.options),
                    variant=name,
                    head=variant.head + ahead,
                )


class DeviceTest(pytest.Item):
    """One test function on one variant of one target."""

    def __init__(self, node, source, target, variant, head, **kwargs):
        super().__init__(**kwargs)
        self.add_marker(pytest.mark.timeout(0))  # it may wait for its turn; the script has a limit
        self.line = node.lineno
        self.needs = _needs(node)
        self.target = target
        self.variant = variant
        self.head = head
        unknown = self.needs - set(targets.FEATURES)
        if unknown:
            raise self.parent.CollectError(
                f"{self.path}:{self.line}: needs({', '.join(map(repr, unknown))}) is not one of "
                + ", ".join(targets.FEATURES)
            )
        self.script = f"{self.head}{source}\n_run({node.name})\n"

    def run_script(self):
        target = self.config.stash[_RUNNING].get(*self.target)
        features = target.features - ({"c-tasks"} if self.variant.endswith("-py") else set())
        missing = ", ".join(sorted(self.needs - features))
        if missing:
            raise pytest.skip.Exception(
                f"{self.variant} has no {missing}", _use_item_location=True
            )
        return target.run(self.script, _TIMEOUT * target.slowness)

    def runtest(self):
        result = self.config.stash[_RUNNING].result(self)
        passed = result.ok and _PASSED in result.out.splitlines()
        if result.timed_out:
            raise DeviceFailure(f"not finished after {result.seconds:.0f} s", result)
        if not passed:
            raise DeviceFailure("", result)

    def reportinfo(self):
        return self.path, self.line - 1, self.name

    def repr_failure(self, excinfo):
        if isinstance(excinfo.value, Problem):
            return str(excinfo.value)
        if not isinstance(excinfo.value, DeviceFailure):
            return super().repr_failure(excinfo)
        what, result = excinfo.value.args
        err = self._in_files(result.err)
        what = what or ("" if err else "the script ended before the test did")
        parts = [what, f"---- printed on {self.variant} ----\n{result.out.rstrip()}", err]
        return "\n".join(part for part in parts if part and not part.endswith("----\n"))

    def _in_files(self, err):
        # The device knows one script without a name: name the test file, and drop the frames
        # that are not the test's.
        head = self.head.count("\n")
        last = head + len(self.parent.lines)

        text = []
        for line in err.rstrip().replace(f"{_ROOT}/", "").splitlines():
            frame = re.match(r'  File "<stdin>", line (\d+)(.*)', line)
            if not frame:
                text.append(line)
            elif head < int(frame[1]) <= last:
                place = f'"{self.parent.nodeid}", line {int(frame[1]) - head}'
                text.append(f"  File {place}{frame[2]}")
        return "\n".join(text)


class DeviceFailure(Exception):
    """A device test failed; the arguments are a text with more information, and the Result."""


def _variants(config, file, test):
    """Yield (target, name, Variant) for a test of a file, as the options ask."""
    wanted = config.getoption("--target")
    target, _, port = wanted.partition("=")
    if port:
        yield target, target, Variant({"port": port})
        return
    core = file.removeprefix("test_") in _CORE
    everywhere = wanted == "all" and not config.getoption("--long")
    chip = _chip(file, test) if everywhere else None
    for target in targets.NAMES if wanted == "all" else [wanted]:
        for name, variant in _VARIANTS[target].items():
            wanted_too = name.endswith("-py") or not config.getoption("--task-py")
            if config.getoption("--quick") and variant.head == _POWER:
                continue
            if chip and target in qemu.NAMES:
                # More builds of a chip would take longer than their tests.
                if target != (qemu.NAMES[0] if variant.options else chip):
                    continue
            if wanted_too and (core or not variant.core):
                yield target, name, variant


def _chip(file, test):
    """Return the one of QEMU's chips that a test runs on, of those that have what it needs."""
    needs = _needs(test)
    chips = [chip for chip in qemu.NAMES if needs <= targets.get(chip).features] or qemu.NAMES
    return chips[zlib.crc32(f"{file}.{test.name}".encode()) % len(chips)]


def _needs(node):
    return {
        feature.value
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "needs"
        for feature in decorator.args
    }


def _without(lines, nodes):
    # Blank lines keep the numbers of those that follow, and cost the device nothing.
    lines = lines[:]
    for node in nodes:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        lines[first - 1 : node.end_lineno] = [""] * (node.end_lineno - first + 1)
    return "\n".join(lines)
