"""The house is as it is drawn: a module imports only modules below it."""

import ast
import re
from pathlib import Path

import pytest

from tools.bootstrap import ROOT

PACKAGE = ROOT / "asyncio_alt"

# The floors, from the top. A module imports from the floors below its own; devices, pubsub and pc,
# which is for CPython, also from their own. A new module gets its place here.
FLOORS = (
    "pc",
    "devices pubsub",
    "trace_read",
    "trace",
    "protocol unix",
    "datagram server threads",
    "future group irq polled queues runner sockets stream sync timeouts",
    "names streams",
    "event funcs idle ioqueue lock loop queue tls",
    "address cancel claim ending task timer trace_code",
    "core",
    "lazy wake wake_unix",
)

# Imports that go up all the same: inside a function, which is called when the lower one runs; or
# in place of a C module that is missing.
IN_FUNCTIONS = {
    "core": {"claim", "ending", "ioqueue"},
    "loop": {"datagram", "future", "names", "polled", "protocol", "sockets"},
    "stream": {"server"},
}
IF_MISSING = {"core": {"task"}}

FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names.split()}

# The modules of the names that the package has; of those it does not list, core.
MODULES = {
    name: module
    for node in ast.parse((PACKAGE / "lazy.py").read_text()).body
    if isinstance(node, ast.Assign) and node.targets[0].id == "_NAMES"
    for module, *names in map(str.split, ast.literal_eval(node.value).splitlines())
    for name in names
}


def imports(source, package=()):
    """Yield (module, where) of each import of one of ours: "top", "function" or "except".

    package: of the source, as ("pubsub",)
    """

    def walk(node, where):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            where = "function"
        elif isinstance(node, ast.ExceptHandler) and where == "top":
            where = "except"
        if isinstance(node, ast.Import):
            for name in [alias.name for alias in node.names]:
                if name.split(".")[0] == PACKAGE.name:
                    yield name.partition(".")[2] or "__init__", where
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = list(package[: len(package) + 1 - node.level])
                base += node.module.split(".") if node.module else []
            elif node.module.split(".")[0] == PACKAGE.name:
                base = node.module.split(".")[1:]
            else:
                return
            if base:
                yield ".".join(base), where
            else:
                for name in [alias.name for alias in node.names]:
                    yield name if name in FLOOR else MODULES.get(name, "core"), where
        for child in ast.iter_child_nodes(node):
            yield from walk(child, where)

    return walk(ast.parse(source), "top")


def against(name, source, package=()):
    """Return the imports of the module `name` that go against the arrows."""
    house = name.split(".")[0]
    return [
        f"{name} imports {other} ({where})"
        for other, where in imports(source, package)
        if not (
            FLOOR[other.split(".")[0]] > FLOOR[house]
            or other.split(".")[0] == house in ("devices", "pubsub", "pc")
            or (where == "function" and other in IN_FUNCTIONS.get(name, ()))
            or (where == "except" and other in IF_MISSING.get(name, ()))
        )
    ]


def modules():
    paths = sorted(PACKAGE.rglob("*.py"))
    return [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in paths]


@pytest.mark.parametrize("path", modules())
def test_imports_go_down(path: Path):
    *package, stem = path.relative_to(PACKAGE).with_suffix("").parts
    if not package and stem == "__init__":
        assert set(imports(path.read_text())) == {
            ("core", "top"),
            ("pc.here", "top"),
            ("lazy", "function"),
        }
        return
    name = ".".join([*package, stem]).removesuffix(".__init__")
    assert name.split(".")[0] in FLOOR, f"{name} has no place in FLOORS"
    assert against(name, path.read_text(), tuple(package)) == []


@pytest.mark.parametrize(
    "name, source, package",
    [
        ("core", "from . import loop", ()),
        ("core", "from .stream import StreamReader", ()),
        ("core", "def f():\n  from . import stream", ()),
        ("core", "from .task import Task", ()),
        ("wake", "from . import core", ()),
        ("queue", "import asyncio_alt.stream", ()),
        ("stream", "from asyncio_alt.protocol import Protocol", ()),
        ("lock", "try:\n  import x\nexcept ImportError:\n  from . import queue", ()),
        ("protocol", "def f():\n  from .pubsub.link.frame import Frame", ()),
    ],
)
def test_imports_that_go_up_are_found(name, source, package):
    assert len(against(name, source, package)) == 1


# What begins with `_` is core's own, but for names that stock's core has too.
STOCKS = {"_io_queue", "_promote_to_task", "_task_queue"}


def uses_of_core():
    """Return two dicts of sets: which modules write each of core's globals, and which read it."""
    writes, reads = {}, {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        inside = module == "core"
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef if inside else ast.Module):
                continue
            nodes = list(ast.walk(function))
            shared = {name for n in nodes if isinstance(n, ast.Global) for name in n.names}
            own = {
                n.id for n in nodes if inside and isinstance(n, ast.Name) and is_set(n)
            } - shared
            for node in nodes:
                if inside and isinstance(node, ast.Name) and node.id not in own:
                    name = node.id
                elif not inside and isinstance(node, ast.Attribute) and is_core(node.value):
                    name = node.attr
                else:
                    continue
                (writes if is_set(node) else reads).setdefault(name, set()).add(module)
    return writes, reads


def is_set(node):
    return not isinstance(node.ctx, ast.Load)


def is_core(node):
    return isinstance(node, ast.Name) and node.id == "core"


def test_names_of_core_that_are_its_own_are_used_by_no_other_module():
    writes, reads = uses_of_core()
    for name in {*writes, *reads} - STOCKS:
        if name[0] == "_" and not name.endswith("__"):
            assert writes.get(name, set()) | reads.get(name, set()) == {"core"}, name


def test_core_says_who_writes_its_globals():
    writes, reads = uses_of_core()
    table = ast.get_docstring(ast.parse((PACKAGE / "core.py").read_text()))
    rows = re.findall(r"^    (\w+) +(\w.*?)  +(\w.*)$", table, re.MULTILINE)[1:]
    found = [
        (name, " ".join(sorted(writes[name])), " ".join(sorted(reads[name])))
        for name in sorted(writes)
        if name[0] != "_" or name in STOCKS
    ]
    found = [
        (name, who, who_reads if len(who_reads) < 40 else "many") for name, who, who_reads in found
    ]
    assert rows == found


def test_imports_inside_pubsub():
    assert list(imports("from . import core", ("pubsub",))) == [("pubsub", "top")]
    assert list(imports("from .. import core", ("pubsub",))) == [("core", "top")]
    assert list(imports("from ..stream import x", ("pubsub",))) == [("stream", "top")]
    assert (
        against(
            "pubsub.link.link", "from .frame import F\nfrom ... import core", ("pubsub", "link")
        )
        == []
    )
