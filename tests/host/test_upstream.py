"""MicroPython's own asyncio tests pass with this package, on the unix port."""

import warnings

import pytest

from tests import upstream
from tools import source

try:
    CASES = upstream.discover(source.tree())
except source.SourceUnavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)


@pytest.fixture(scope="module")
def setting(request):
    """The arguments of run_case that follow the case: a started target and how to use it."""
    mode, _, task_py = request.param.partition("-")
    with upstream.started("unix", mode, bool(task_py)) as target:
        yield target, mode, bool(task_py)


@pytest.mark.parametrize(
    "setting, case",
    [
        pytest.param(setting, case, id=f"{upstream.case_id(case)}-{setting}")
        for setting in ("alias", "install", "alias-py")
        for case in CASES
        if setting == "alias" or case.parent.name == "extmod"
    ],
    indirect=["setting"],
)
def test_upstream(setting, case):
    status, why = upstream.run_case(case, *setting)
    if status == "skip":
        pytest.skip(why)
    if status == "fail":
        pytest.fail(why, pytrace=False)
    if why:
        warnings.warn(f"{upstream.case_id(case)} passed {why}", stacklevel=1)
