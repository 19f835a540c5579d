"""MicroPython's own asyncio tests pass with this package, on the targets of --target."""

import ast
import contextlib
import functools
import shutil
import warnings

import pytest

from tests import upstream
from tools import Unavailable
from tools.build import source

try:
    CASES = upstream.discover(source.tree())
except Unavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)

# Target, mode and "-py" where tasks are in Python.
SETTINGS = ("unix-alias", "unix-install", "unix-alias-py", "qemu-none", "qemu-none-py", "rp2-none")


def pytest_generate_tests(metafunc):
    if "setting" not in metafunc.fixturenames:
        return
    wanted = metafunc.config.getoption("--target")
    params = [
        pytest.param(setting, case, id=f"{upstream.case_id(case)}-{setting}")
        for setting in SETTINGS
        if wanted in (setting.partition("-")[0], "all")
        for case in CASES
        if setting == "unix-alias" or case.parent.name == "extmod"
    ]
    metafunc.parametrize("setting, case", params)


@pytest.fixture(scope="module")
def started():
    """Return a function that starts the target of a setting, once, and returns the arguments of
    run_case that follow the case."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(setting):
            name, mode, *task_py = setting.split("-")
            try:
                target = stack.enter_context(upstream.started(name, mode, bool(task_py)))
            except Unavailable as reason:
                pytest.skip(str(reason))
            return target, mode, bool(task_py)

        yield started


def test_upstream(started, setting, case):
    status, why = upstream.run_case(case, *started(setting))
    if status == "skip":
        pytest.skip(why)
    if status == "fail":
        pytest.fail(why, pytrace=False)
    if why:
        warnings.warn(f"{upstream.case_id(case)} passed {why}", stacklevel=1)


def test_newer_option_of_upstreams_runner(tmp_path):
    # The option -t of newer trees is -i in this one.
    tests = tmp_path / "tests"
    shutil.copytree(source.tree() / "tests" / "multi_net", tests / "multi_net")
    (tmp_path / "tools").symlink_to(source.tree() / "tools")
    text = (source.tree() / "tests" / "run-multitests.py").read_text()
    text = text.replace('"-t", "--trace-output"', '"-T", "--trace-output"')
    text = text.replace('"-i", "--instance"', '"-t", "--test-instance", dest="instance"')
    (tests / "run-multitests.py").write_text(text)
    case = tests / "multi_net" / "asyncio_tcp_readall.py"
    with upstream.started("unix", "alias") as target:
        status, why = upstream.run_case(case, target, "alias")
    assert status in ("pass", "skip"), why
    assert status == "pass" or "port" in why


# Names of stock's modules that ours do not have, each with the reason.
_LEFT_OUT = {
    "stream.Server._serve": "a server has no task here: the loop calls it when a client comes",
    "core._stop_task": "it is a variable of loop here, and no copy of it could follow",
    "core._stopper": "private",
    "core.IOQueue._enqueue": "private; here it is enqueue, with other arguments",
    "funcs._run": "private",
    "funcs._Remove": "private",
    "funcs._Remove.remove": "private",
    "stream.Server.state": "private; a server that closes is `closed` here",
}
_NOT_COMPARED = (
    "__init__",
    "manifest",
    "task",
    "uasyncio",
)  # of the last three there is no module
_LOOK = """
import io, sys
class Memory(io.IOBase):
    def ioctl(self, req, arg):
        return 0
def made(module, name):
    if name == "IOQueue":
        return sys.modules["asyncio.core"]._io_queue
    value = getattr(sys.modules["asyncio." + module], name)
    try:
        return value(Memory()) if name == "Stream" else value()
    except TypeError:
        return value
import asyncio
for path in NAMES:
    module, *names = path.split(".")
    __import__("asyncio." + module)
    found = hasattr(sys.modules["asyncio." + module], names[0])
    if found and len(names) == 2:
        value = getattr(sys.modules["asyncio." + module], names[0])
        found = hasattr(value, names[1]) or hasattr(made(module, names[0]), names[1])
    if not found:
        print(path)
"""


def _names(path):
    """Return the names in a module of stock's: "core.run", "lock.Lock.state"."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(a.asname or a.name for a in node.names)
        for cls in ast.walk(node):
            if isinstance(cls, ast.ClassDef):
                names.add(cls.name)
                names.update(f"{cls.name}.{name}" for name in _members(cls))
    return {f"{path.stem}.{name}" for name in names if "__" not in name}


def _members(cls):
    for node in ast.walk(cls):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr


@pytest.mark.parametrize("mode", ["alias", "install"])
def test_names_of_upstreams_modules_are_there(mode):
    names = set()
    for path in (source.tree() / "extmod" / "asyncio").glob("*.py"):
        if path.stem not in _NOT_COMPARED:
            names |= _names(path)
    assert len(names) > 80
    script = f"NAMES = {sorted(names)!r}\n{_LOOK}"
    with upstream.started("unix", mode) as target:
        result = target.run(upstream._preamble(mode, False) + script)
    assert result.ok, result.err
    missing = set(result.out.split())
    assert missing <= set(_LEFT_OUT), missing - set(_LEFT_OUT)
