"""A KeyboardInterrupt or a MemoryError at each step of the package, one run after the other: the
next run() works in all respects.

A copy of the package runs on MicroPython's unix port, with a call of step() ahead of each
statement and after each call. That call raises when it is the n-th one."""

import ast
import shutil
from pathlib import Path

import pytest

from tools import targets
from tools.bootstrap import ROOT

MODULES = "core ending event funcs ioqueue lock loop queue stream wake_unix".split()

STEPS = """
left = 0  # how many steps until one raises; 0: none does
exc = None

def step(*value):
    global left
    # No memory: before an effect, not after one.
    if left and not (value and isinstance(exc, MemoryError)):
        left -= 1
        if not left:
            raise exc
    return value[0] if value else None
"""


class Steps(ast.NodeTransformer):
    """Puts the calls of step() in."""

    arguments = []  # of the calls ahead of statements

    def visit_FunctionDef(self, node):
        # The loop, and its code that runs a task, allocate nothing.
        free = node.name in ("run_until_complete", "send", "_heir", "_end")
        self.arguments = [ast.Constant(0)] if free else []
        node = self.generic_visit(node)
        self.arguments = []
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if getattr(node.func, "id", "") == "const":
            return node
        return ast.Call(ast.Name("step"), [node], [])

    def _body(self, body):
        docstring = (
            body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        )
        for n, statement in enumerate(body):
            names = isinstance(statement, (ast.Global, ast.Nonlocal))
            if not (names or n == 0 and docstring):
                yield ast.Expr(ast.Call(ast.Name("step"), self.arguments, []))
            yield statement

    def generic_visit(self, node):
        super().generic_visit(node)
        if not isinstance(node, (ast.Module, ast.ClassDef)):
            for field in ("body", "orelse", "finalbody"):
                body = getattr(node, field, None)
                if isinstance(body, list) and body:
                    setattr(node, field, list(self._body(body)))
        return node

    visit_Lambda = visit_IfExp = ast.NodeTransformer.generic_visit


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return the folder with the copy, and the module of step()."""
    folder = tmp_path_factory.mktemp("steps")
    shutil.copytree(ROOT / "asyncio_alt", folder / "asyncio_alt")
    (folder / "steps.py").write_text(STEPS)
    for name in MODULES:
        path = folder / "asyncio_alt" / f"{name}.py"
        tree = Steps().visit(ast.parse(path.read_text()))
        head = "from steps import step\n"
        path.write_text(head + ast.unparse(ast.fix_missing_locations(tree)))
    return folder


TESTS = Path(__file__).resolve().parent.parent
DRIVER = (TESTS / "device" / "harness.py").read_text()
DRIVER += (TESTS / "host" / "every_step.py").read_text()


@pytest.mark.parametrize("exception", ["KeyboardInterrupt", "MemoryError"])
@pytest.mark.parametrize("scenario", ["plain", "end", "bell", "streams"])
def test_after_an_exception_at_any_step_the_next_run_works(copy, exception, scenario):
    with targets.get("unix", path=[copy]) as unix:
        result = unix.run(f"{DRIVER}\nsweep({exception}, {scenario})\n", 120)
    assert result.ok, result.out + result.err
    steps = int(result.out.split()[-1])
    assert steps > 100, result.out
