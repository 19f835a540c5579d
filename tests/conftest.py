"""Collects tests/device/test_*.py as tests that run on MicroPython, one script a test function.

CPython reads those files, it never imports them. A test runs once for each variant of a target,
such as "unix-py": the unix port with its tasks in Python.
"""

import ast
import os
import re
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools import Problem, Unavailable, targets
from tools.targets import child

_ROOT = Path(__file__).resolve().parent.parent
_HARNESS = (Path(__file__).parent / "device" / "harness.py").read_text()
_PASSED = "-- passed --"  # what harness.py prints last
_TIMEOUT = 20  # seconds for one test on a target of slowness 1
_RUNNING = pytest.StashKey()

# These simulate their time, which a busy PC has no effect on: several scripts run at once.
_EMULATED = ("qemu", "rp2")

# The variants of each target: options for targets.get(), and what goes ahead of each script. A
# name with "-py" uses asyncio_alt/task.py.
_VARIANTS = {
    "unix": {
        "unix": ({}, ""),
        "unix-py": ({}, targets.HIDE_C_TASKS),
    },
    "qemu": {
        "qemu": ({}, ""),
        "qemu-py": ({"c_tasks": False}, ""),
        "qemu-64k": ({"heap": 65536}, ""),
    },
    "rp2": {
        "rp2": ({}, ""),
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


def pytest_configure(config):
    config.stash[_RUNNING] = Running()


def pytest_unconfigure(config):
    config.stash[_RUNNING].stop()


def pytest_collection_modifyitems(items):
    # What runs on the PC comes first, while nothing else does.
    items.sort(key=lambda item: isinstance(item, DeviceTest) and item.emulated)


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.parent.name == "device":
        return DeviceFile.from_parent(parent, path=module_path)


class Running:
    """The targets in use, each started by the first test that runs on it; and the emulated tests
    that run ahead of their turn."""

    def __init__(self):
        self._lock = threading.Lock()
        self._targets = {}  # (name, options) to the started Target, or what start() raised
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._queue = None  # the emulated tests that have not been begun
        self._begun = {}  # others to the Future of their Result

    def get(self, name, options):
        """Return the started target; a test that asks for one that cannot be had is skipped."""
        with self._lock:
            key = name, *options.items()
            if key not in self._targets:
                self._targets[key] = target = targets.get(name, **options)
                try:
                    target.start()
                except Exception as failure:
                    self._targets[key] = failure
            target = self._targets[key]
        if isinstance(target, Unavailable):
            pytest.skip(str(target))
        if isinstance(target, Exception):
            raise target
        return target

    def result(self, test):
        """Return the Result of the script of a DeviceTest."""
        if not test.emulated:
            return test.run_script()
        if self._queue is None:
            items = test.session.items
            self._queue = deque(i for i in items if isinstance(i, DeviceTest) and i.emulated)
        while self._queue and len(self._begun) <= os.cpu_count():
            begun = self._queue.popleft()
            self._begun[begun] = self._pool.submit(begun.run_script)
        return self._begun.pop(test).result()

    def stop(self):
        self._pool.shutdown(wait=False, cancel_futures=True)
        child.kill_all()  # after Ctrl-C, else there is none
        self._pool.shutdown()
        for target in self._targets.values():
            if isinstance(target, targets.Target):
                target.stop()


class DeviceFile(pytest.File):
    """One tests/device/test_*.py."""

    def collect(self):
        self.lines = self.path.read_text().splitlines()
        try:
            tree = ast.parse("\n".join(self.lines))
        except SyntaxError as error:
            raise self.CollectError(f"{self.path}:{error.lineno}: {error.msg}") from None
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tests = [n for n in tree.body if isinstance(n, functions) and n.name.startswith("test_")]
        for node in tests:
            others = [other for other in tests if other is not node]
            for name, variant, options, head in _variants(self.config):
                yield DeviceTest.from_parent(
                    self,
                    name=f"{node.name}[{variant}]",
                    node=node,
                    source=_without(self.lines, others),
                    target=(name, options),
                    variant=variant,
                    head=head + _HARNESS,
                )


class DeviceTest(pytest.Item):
    """One test function on one variant of one target."""

    def __init__(self, node, source, target, variant, head, **kwargs):
        super().__init__(**kwargs)
        self.line = node.lineno
        self.needs = _needs(node)
        self.target = target
        self.emulated = target[0] in _EMULATED
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
    """A device test failed; the arguments are what is known besides, and the Result."""


def _variants(config):
    """Yield (target, variant, options, head) of what --target and --task-py ask for."""
    wanted = config.getoption("--target")
    name, _, port = wanted.partition("=")
    if port:
        yield name, name, {"port": port}, ""
        return
    for name in targets.NAMES if wanted == "all" else [wanted]:
        for variant, (options, head) in _VARIANTS[name].items():
            if variant.endswith("-py") or not config.getoption("--task-py"):
                yield name, variant, options, head


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
