"""Checks the type stubs against the package.

The stubs are the .pyi files in tools/typings; in the wheel they lie beside the sources.
A stub has what its module has on MicroPython's unix port, all of it but names with an underscore
ahead and what the module imports; of core's names, those that the package has too. Arguments and
their defaults are those of the source.
"""

import ast
import copy
import json
from pathlib import Path

from tools import Problem, targets
from tools.bootstrap import ROOT
from tools.build.mpy import modules

_NAME = "asyncio_alt"
_TYPINGS = ROOT / "tools" / "typings"
# Modules without a stub, as they are not part of the interface.
_PRIVATE = {
    "address",
    "cancel",
    "codec",
    "compat",
    "connection",
    "handshake",
    "i2c_dma",
    "lazy",
    "mirror",
    "named",
    "peer",
    "seal",
    "sockets",
    "spi_dma",
    "task",
    "trace_code",
    "trace_read",
    "wake",
    "wake_unix",
    "window",
}

# Prints the names in modules, and those asked for, each with the name of its type, None if it is
# not there. For a class this is a dict of the same form.
_DEVICE = """
import json
from asyncio_alt.lazy import _NAMES

def has(obj, names):
    found = {}
    for name in names:
        try:
            value = getattr(obj, name)
        except AttributeError:
            found[name] = None
            continue
        found[name] = type(value).__name__
        if name == "Task":  # in C: its objects tell its attributes
            found[name] = {n: "" for n in dir(value(coro(), {}))}
        elif isinstance(value, type):
            found[name] = {n: type(v).__name__ for n, v in value.__dict__.items()}
    return found

def module(name, names):
    module = __import__(name, None, None, ("*",))
    names = set(names) | set(module.__dict__)
    lazy = module.__dict__.get("_NAMES", _NAMES if "." not in name else "")
    for line in lazy.split("\\n"):
        names.update(line.split()[1:])
    return has(module, names)

async def coro():
    pass
"""

# Methods with underscores ahead that are shown, and their names in a stub.
_SPECIAL = {n: n for n in ("__init__", "__call__", "__enter__", "__aenter__", "__exit__")}
_SPECIAL |= {n: n for n in ("__aexit__", "__aiter__", "__anext__", "__await__")}
_SPECIAL["__iter__"] = "__await__"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def check(package: Path = ROOT / _NAME, typings: Path = _TYPINGS) -> list[str]:
    """Return the differences between the stubs and the package, a line each."""
    stubs = typings / package.name
    paths = {}  # name of a module to its source and its stub
    wrong = []
    for path in modules(package):
        stub = stubs / path.relative_to(package).with_suffix(".pyi")
        name = ".".join([package.name, *path.relative_to(package).with_suffix("").parts])
        if stub.exists():
            paths[name.removesuffix(".__init__")] = path, stub
        elif path.stem not in _PRIVATE:
            wrong.append(f"{name} has no stub: {stub.relative_to(typings.parent)} is missing")
    for stub in sorted(stubs.rglob("*.pyi")):
        if not (package / stub.relative_to(stubs)).with_suffix(".py").exists():
            wrong.append(f"{stub.relative_to(typings.parent)} is the stub of no module")
    read = {}
    names = {
        name: (_names(source, read), _names(stub, read)) for name, (source, stub) in paths.items()
    }
    asked = {name: list(stub) for name, (_, stub) in names.items()}
    script = f"print(json.dumps({{n: module(n, names) for n, names in {asked!r}.items()}}))"
    with targets.get("unix", path=[package.parent]) as unix:
        result = unix.run(f"{_DEVICE}\n{script}\n")
    if not result.ok:
        raise Problem(f"the package cannot be imported: {result.err.strip()}")
    found = json.loads(result.out)
    # Core's other names are for the modules of the package.
    core, package = found[f"{_NAME}.core"], found[_NAME]
    found[f"{_NAME}.core"] = {n: core[n] for n in core if core[n] == package.get(n)}
    for name, found in found.items():
        wrong += [f"{name}.{line}" for line in _differences(*names[name], found)]
    return wrong


def _names(path, read):
    """Return the names of a module's source, or of its stub, to the nodes that bind them.

    read: a dict of what was returned, by path. Stubs may import one another.
    """
    if path in read:
        return read[path]
    names = read[path] = {}
    for node in _flat(ast.parse(path.read_text("utf-8")).body):
        if isinstance(node, ast.ImportFrom) and node.module == "pc.here":
            continue  # for CPython
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            origin = path.parent.joinpath(*node.module.split(".")).with_suffix(path.suffix)
            origin = _names(origin, read)
            for alias in node.names:
                name = alias.asname or alias.name
                if alias.name == "*":  # its names are checked in their own module
                    names |= {
                        n: it if path.suffix == ".pyi" or isinstance(it, _IMPORTS) else None
                        for n, it in origin.items()
                        if not n.startswith("_")
                    }
                elif node.module == "task" or path.stem == "__init__":
                    names[name] = origin.get(alias.name)
                elif path.suffix == ".py":
                    names[name] = node
        elif isinstance(node, _IMPORTS):
            if path.suffix == ".py":  # in a stub, imports are not for others
                names |= {alias.asname or alias.name.split(".")[0]: node for alias in node.names}
        else:
            _bind(node, names)
    return names


def _flat(body):
    for node in body:
        if isinstance(node, ast.If):
            yield from _flat(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from _flat(node.body + [n for h in node.handlers for n in h.body] + node.orelse)
        else:
            yield node


def _bind(node, names):
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        names.setdefault(node.name, node)
    elif isinstance(node, ast.AnnAssign):
        names[node.target.id] = node
    elif isinstance(node, ast.Assign):
        value = names.get(node.value.id, node) if isinstance(node.value, ast.Name) else node
        names |= {t.id: value for t in node.targets if isinstance(t, ast.Name)}


def _members(node):
    """Return the names of a class: its own, and those that it sets in its objects."""
    names = {}
    for it in ast.walk(node):
        if isinstance(it, ast.Attribute) and isinstance(it.ctx, ast.Store):
            names[it.attr] = it
    for it in _flat(node.body):
        _bind(it, names)
    return {_SPECIAL.get(name, name): it for name, it in names.items()}


def _differences(source, stub, found):
    """Yield how a stub differs, a line each; all arguments have names of one scope.

    source, stub: names to their nodes
    found: names to their types on the device, as _DEVICE prints them
    """
    for name in sorted({*stub, *found}):
        node, there, kind = stub.get(name), source.get(name), found.get(name)
        if name not in stub:
            hidden = name.startswith("_") and name not in _SPECIAL
            if not (hidden or kind == "module" or isinstance(there, _IMPORTS)):
                yield f"{name} is not in the stub"
        elif kind is None and not isinstance(there, ast.Attribute):
            if not name.startswith("_"):  # the stub's own type
                yield f"{name} is in the stub alone"
        elif isinstance(node, ast.ClassDef):
            if not isinstance(kind, dict):
                yield f"{name} is a class in the stub alone"
            elif isinstance(there, ast.ClassDef):
                members = {_SPECIAL.get(n, n): k for n, k in kind.items()}
                shown = _members(node)
                if name.startswith("_") and "__init__" not in shown:
                    members.pop("__init__", None)  # only the package makes its objects
                own = _members(there)
                for line in _differences(own, shown, members):
                    # The class may get a name from an object that it has.
                    if not ("__getattr__" in own and line.endswith(" is in the stub alone")):
                        yield f"{name}.{line}"
        elif isinstance(node, _FUNCTIONS) and isinstance(there, _FUNCTIONS):
            if kind in ("function", "generator") and name != "__await__":
                if (kind == "generator") != isinstance(node, ast.AsyncFunctionDef):
                    yield f"{name} is a {kind}: `async def` is for generators alone"
            if _signature(there) != _signature(node, there):
                yield f"{name}({_signature(there)}) has ({_signature(node)}) in the stub"


def _signature(node, other=None):
    # The arguments as text, without annotations; for `...` the other side's default is taken.
    arguments = copy.deepcopy(node.args)
    for it in ast.walk(arguments):
        if isinstance(it, ast.arg):
            it.annotation = None
    if other:
        for mine, its in (
            (arguments.defaults, other.args.defaults),
            (arguments.kw_defaults, other.args.kw_defaults),
        ):
            for i, (default, real) in enumerate(zip(mine, its, strict=False)):
                if isinstance(default, ast.Constant) and default.value is ...:
                    mine[i] = real
    return ast.unparse(arguments)
