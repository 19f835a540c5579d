"""MicroPython's own asyncio tests pass with this package, on what --target names."""

import contextlib
import functools
import warnings

import pytest

from tests import upstream
from tools import Unavailable, source

try:
    CASES = upstream.discover(source.tree())
except Unavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)

# Target, mode and "-py" where tasks are in Python.
SETTINGS = ("unix-alias", "unix-install", "unix-alias-py", "qemu-none", "qemu-none-py", "rp2-none")


def pytest_generate_tests(metafunc):
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
