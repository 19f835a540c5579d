"""The pubsub layer on CPython: what tests/device proves on MicroPython, and its threads."""

import ast
import signal

import pytest

from tools.bootstrap import ROOT

DEVICE = ROOT / "tests" / "device"
TESTS = [
    (file, node.name)
    for file in ("test_pubsub.py", "test_pool.py")
    for node in ast.parse((DEVICE / file).read_text()).body
    if getattr(node, "name", "").startswith("test_")
]


@pytest.fixture(autouse=True)
def in_time():
    """Have a test that hangs fail, like one on a device."""

    def stop(*_):
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("file, name", TESTS)
def test_on_cpython(file, name):
    scope = {}
    for path in (DEVICE / "harness.py", DEVICE / file):
        exec(compile(path.read_text(), path, "exec"), scope)
    scope["_run"](scope[name])
