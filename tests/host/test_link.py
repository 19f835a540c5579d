"""Link on CPython, what tests/device/test_link.py proves on MicroPython; and between the two."""

import ast

import pytest

from tools.bootstrap import ROOT

DEVICE = ROOT / "tests" / "device"
FILE = DEVICE / "test_link.py"
TREE = ast.parse(FILE.read_text())
NAMES = [n.name for n in TREE.body if getattr(n, "name", "").startswith("test_")]


@pytest.mark.parametrize("name", NAMES)
def test_on_cpython(name):
    scope = {}
    for file in (DEVICE / "harness.py", FILE):
        exec(compile(file.read_text(), file, "exec"), scope)
    scope["_run"](scope[name])
