"""Collects tests/device/test_*.py as tests that run on MicroPython, one script a test function.

CPython reads those files, it never imports them. A test runs once for each variant of each target:
"unix" has tasks in C where the build has them, "unix-py" uses asyncio_alt/task.py.
"""

import ast
import re
from pathlib import Path

import pytest

from tools import Problem, targets

_ROOT = Path(__file__).resolve().parent.parent
_HARNESS = (Path(__file__).parent / "device" / "harness.py").read_text()
_PASSED = "-- passed --"  # what harness.py prints last
_TIMEOUT = 20  # seconds for one test on a target of slowness 1
_RUNNING = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("MicroPython")
    group.addoption(
        "--target",
        choices=[*targets.NAMES, "all"],
        default="unix",
        help="where device tests run (default: unix)",
    )
    group.addoption(
        "--task-py",
        action="store_true",
        help="device tests run with asyncio_alt/task.py only (default: on unix with both)",
    )


def pytest_configure(config):
    config.stash[_RUNNING] = Running()


def pytest_unconfigure(config):
    config.stash[_RUNNING].stop()


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.parent.name == "device":
        return DeviceFile.from_parent(parent, path=module_path)


class Running:
    """The targets in use: each is started by the first test that runs on it."""

    def __init__(self):
        self._targets = {}  # name to started Target
        self._failures = {}  # name to the exception that start() raised

    def get(self, name):
        if name in self._failures:
            raise self._failures[name]
        if name not in self._targets:
            target = targets.get(name)
            try:
                target.start()
            except Exception as failure:
                self._failures[name] = failure
                raise
            self._targets[name] = target
        return self._targets[name]

    def stop(self):
        for target in self._targets.values():
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
            for target, variant in _variants(self.config):
                yield DeviceTest.from_parent(
                    self,
                    name=f"{node.name}[{variant}]",
                    node=node,
                    source=_without(self.lines, others),
                    target=target,
                    variant=variant,
                )


class DeviceTest(pytest.Item):
    """One test function on one variant of one target."""

    def __init__(self, node, source, target, variant, **kwargs):
        super().__init__(**kwargs)
        self.line = node.lineno
        self.needs = _needs(node)
        self.target = target
        self.variant = variant
        unknown = self.needs - set(targets.FEATURES)
        if unknown:
            raise self.parent.CollectError(
                f"{self.path}:{self.line}: needs({', '.join(map(repr, unknown))}) is not one of "
                + ", ".join(targets.FEATURES)
            )
        self.head = (targets.HIDE_C_TASKS if variant.endswith("-py") else "") + _HARNESS
        self.script = f"{self.head}{source}\n_run({node.name})\n"

    def runtest(self):
        target = self.config.stash[_RUNNING].get(self.target)
        features = target.features - ({"c-tasks"} if self.variant.endswith("-py") else set())
        missing = ", ".join(sorted(self.needs - features))
        if missing:
            raise pytest.skip.Exception(
                f"{self.variant} has no {missing}", _use_item_location=True
            )
        timeout = _TIMEOUT * target.slowness
        result = target.run(self.script, timeout)
        passed = result.ok and _PASSED in result.out.splitlines()
        if result.timed_out:
            raise DeviceFailure(f"not finished after {timeout:g} s", result)
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
    target = config.getoption("--target")
    for name in targets.NAMES if target == "all" else [target]:
        if not config.getoption("--task-py"):
            yield name, name
        if name == "unix" or config.getoption("--task-py"):
            yield name, f"{name}-py"


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
