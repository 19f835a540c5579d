"""Something fails at each step of the package, one run after the other: a KeyboardInterrupt comes,
a MemoryError, or the heap is full for the moment. The loop works afterwards in all respects.

A copy of the package runs on MicroPython's unix port, with a call of step_ahead() ahead of each
statement and of step() after each call. At the n-th of them it fails. Of a long program a part of
the steps is tried: STEPS_TRIED=1000000 in the environment tries them all.
"""

import ast
import os
import shutil
from pathlib import Path

import pytest

from tests.host.test_link import TLS, TREE
from tools import targets
from tools.bootstrap import ROOT

TRIES = int(os.environ.get("STEPS_TRIED", 0))

MODULES = """address cancel core datagram ending event funcs future group ioqueue lock loop names
polled protocol queue server sockets stream sync timeouts timer tls wake_unix
pubsub/broker pubsub/compat pubsub/publisher pubsub/subscription
pubsub/link/carrier pubsub/link/connection pubsub/link/frame pubsub/link/handshake
pubsub/link/hub pubsub/link/link pubsub/link/mirror pubsub/link/peer pubsub/link/window""".split()

STEPS = """
import micropython

left = 0  # how many steps until one fails; 0: none does
exc = None  # is raised there; None: the heap is full, up to the next step
full = False

def step(value):
    # After a call. No memory: before an effect, not after one.
    if full or left and not isinstance(exc, MemoryError):
        fail()
    return value

def step_ahead(free):
    # Ahead of a statement; free: it allocates nothing.
    if full or left and not (free and isinstance(exc, MemoryError)):
        fail()

def step_over():
    # Ahead of a statement that a locked heap does not allow, as it shrinks a list; or that loses
    # a socket for which MicroPython has no memory.
    global full
    if full:
        full = False
        micropython.heap_unlock()

def fail():
    global left, full
    if full:
        return step_over()
    left -= 1
    if not left:
        if exc:
            raise exc
        full = True
        micropython.heap_lock()
"""

OVER = "socket.socket(", ".accept(", ".clear(", ".pop(", "del "


class Steps(ast.NodeTransformer):
    """Puts the calls of step() in."""

    free = False  # in a function that allocates nothing

    def visit_FunctionDef(self, node):
        # The loop, and its code that runs a task.
        self.free = node.name in ("run_until_complete", "send", "heir", "_end")
        node = self.generic_visit(node)
        self.free = False
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if getattr(node.func, "id", "") == "const":
            return node
        return ast.Call(ast.Name("step"), [node], [])

    def visit_Yield(self, node):
        return node  # no jump comes between the call of what is yielded and the yield

    def _body(self, body):
        docstring = (
            body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        )
        for n, statement in enumerate(body):
            names = isinstance(statement, (ast.Global, ast.Nonlocal))
            if not (names or n == 0 and docstring):
                yield ast.Expr(ast.Call(ast.Name("step_ahead"), [ast.Constant(self.free)], []))
            text = ast.unparse(statement)
            if not hasattr(statement, "body") and any(word in text for word in OVER):
                yield ast.Expr(ast.Call(ast.Name("step_over"), [], []))
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
        head = "from steps import step, step_ahead, step_over\n"
        path.write_text(head + ast.unparse(ast.fix_missing_locations(tree)))
    return folder


TESTS = Path(__file__).resolve().parent.parent
CERTIFICATE = {
    node.targets[0].id: ast.literal_eval(node.value)
    for node in TREE.body
    if isinstance(node, ast.Assign) and node.targets[0].id in ("CERT", "KEY")
}
DRIVER = "\n".join(
    [
        (TESTS / "device" / "harness.py").read_text(),
        (TESTS / "host" / "every_step.py").read_text(),
        (TESTS / "host" / "scenarios.py").read_text(),
        TLS.format(role="SERVER", **CERTIFICATE).replace("CONTEXT", "SERVER_CONTEXT"),
        TLS.format(role="CLIENT", **CERTIFICATE).replace("CONTEXT", "CLIENT_CONTEXT"),
    ]
)


def sweep(copy, call):
    with targets.get("unix", path=[copy]) as unix:
        result = unix.run(f"{DRIVER}\n{call}\n", 600 if TRIES else 120)
    assert result.ok, result.out + result.err
    return int(result.out.split()[-1])


@pytest.mark.parametrize("exception", ["KeyboardInterrupt", "MemoryError"])
@pytest.mark.parametrize("scenario", ["plain", "end", "bell", "streams"])
def test_after_an_exception_at_any_step_the_next_run_works(copy, exception, scenario):
    assert sweep(copy, f"sweep({exception}, {scenario}, 1000000)") > 100


# How many steps are tried of each, as some take long.
SCENARIOS = dict.fromkeys(["tasks", "groups", "echo", "datagrams", "names", "broker"], 200)
SCENARIOS |= {"publisher": 200, "tls": 25, "link": 40}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_after_ctrl_c_at_any_step_of_a_program_the_next_run_works(copy, scenario):
    tries = TRIES or SCENARIOS[scenario] // 4
    assert sweep(copy, f"sweep(KeyboardInterrupt, {scenario}, {tries}, 0.3)") > 100


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_with_a_full_heap_at_any_step_the_loop_goes_on_and_the_fault_is_seen(copy, scenario):
    assert sweep(copy, f"full_heap({scenario}, {TRIES or SCENARIOS[scenario]})") > 100
