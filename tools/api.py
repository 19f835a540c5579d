"""Write the API page: every public name with its signature and its docstring.

The page is Markdown, made from the source of asyncio_alt. -o docs/api.md writes docs/api.md.
"""

import ast
import re
import textwrap

from asyncio_alt.pc import arguments
from tools import Problem
from tools.bootstrap import ROOT

_PACKAGE = ROOT / "asyncio_alt"
# Modules that no table has, as they are imported by their own names.
_FURTHER = {
    "asyncio_alt": [("trace", ["start", "stop"])],
    "asyncio_alt.pubsub": [("link.shm", ["SharedLink"])],
}
_HOUSE = {"SingletonGenerator", "run_until_complete", "ioctl", "remove"}  # public by accident


def add_arguments(parser):
    parser.add_argument(
        "-o", metavar="FILE", type=arguments.file, help="where to write it (default: print)"
    )


def main(args):
    text = page()
    if not args.o:
        print(text, end="")
        return 0
    try:
        args.o.write_text(text, "utf-8")
    except OSError as error:
        raise Problem(f"{args.o}: {error.strerror}") from None
    return 0


def page() -> str:
    """Return the page."""
    parts = ["# API\n\n"]
    for package in (_PACKAGE, *sorted(p.parent for p in _PACKAGE.glob("*/__init__.py"))):
        title = ".".join(package.relative_to(ROOT).parts)
        for module, names in _public(package) + _FURTHER.get(title, []):
            path = package.joinpath(*module.split(".")).with_suffix(".py")
            if not path.exists():
                continue  # a package of its own
            tree = ast.parse(path.read_text("utf-8"))
            source = path.read_text("utf-8").splitlines()
            parts.append(f"## {title}.{module}\n\n{_one_paragraph(ast.get_docstring(tree))}\n\n")
            parts += _entries(tree, source, names)
    return "".join(parts)


def _public(package):
    """Return the modules of a package with their public names, as its table has them."""
    table = "lazy.py" if package == _PACKAGE else "__init__.py"
    tree = ast.parse((package / table).read_text("utf-8"))
    modules = []
    if package == _PACKAGE:
        modules.append(("core", []))  # its names are in __init__.py and the table
        init = ast.parse((package / "__init__.py").read_text("utf-8"))
        handed_on = {
            alias.name
            for node in ast.walk(init)
            if isinstance(node, ast.ImportFrom) and node.module == "core"
            for alias in node.names
        }
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "_NAMES":
            lines = ast.literal_eval(node.value).splitlines()
            for module, *names in map(str.split, lines):
                if module == "core":
                    handed_on.update(names)
                    continue
                # stream hands on start_server, as stock's does; server defines it.
                if module == "stream":
                    names.remove("start_server")
                    modules.append(("server", ["start_server"]))
                modules.append((module, names))
    if package == _PACKAGE:
        core = ast.parse((package / "core.py").read_text("utf-8"))
        names = [n.name for n in core.body if isinstance(n, _DEFINES) and n.name in handed_on]
        modules[0] = "core", [name for name in names if name not in _HOUSE]
    return modules


_DEFINES = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef


def _entries(tree, source, names):
    """Yield the entries of a module's public names."""
    made = {}  # by name: the node that makes it, the first if there are several
    for node in ast.walk(tree):
        if isinstance(node, _DEFINES):
            made.setdefault(node.name, node)
        elif isinstance(node, ast.Assign):
            made.setdefault(getattr(node.targets[0], "id", ""), node)
    if len(names) == 1 and names[0] not in made:  # the module itself is the public name
        names = [n.name for n in tree.body if isinstance(n, _DEFINES) and n.name[0] != "_"]
    told = set()
    for name in names:
        node = made[name]
        yield _entry(node, source)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            stands_for = node.value.id
            if stands_for not in told:
                told.add(stands_for)
                yield _entry(made[stands_for], source)


def _entry(node, source, owner=""):
    if isinstance(node, ast.Assign):
        comment = source[node.lineno - 1].partition("#")[2].strip()
        return f"### `{ast.unparse(node)}`\n\n{comment}\n\n".replace("\n\n\n\n", "\n\n")
    doc = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        head = "####" if owner else "###"
        waits = isinstance(node, ast.AsyncFunctionDef) or "# async" in source[node.lineno - 1]
        call = f"{'await ' if waits else ''}{owner}{node.name}({_arguments(node, owner)})"
        return f"{head} `{call}`\n\n{_paragraphs(doc)}"
    made = [n for n in node.body if isinstance(n, _DEFINES) and n.name == "__init__"]
    arguments = _arguments(made[0], "x") if made else ""
    bases = [ast.unparse(base) for base in node.bases if not ast.unparse(base).startswith("_")]
    call = f"{node.name}({arguments})" if not bases or made else f"{node.name}({bases[0]})"
    text = f"### class `{call}`\n\n{_paragraphs(doc)}"
    for method in node.body:
        if isinstance(method, _DEFINES) and method.name[0] != "_" and method.name not in _HOUSE:
            if ast.get_docstring(method) or not node.bases:  # else the base class describes it
                text += _entry(method, source, f"{node.name}.")
    return text


def _arguments(node, owner):
    """Return the arguments of a function as they are written, without self."""
    text = ast.unparse(node.args)
    return re.sub(r"^self(, )?", "", text) if owner else text


def _paragraphs(doc):
    # Docstrings are wrapped for the source.
    text = "\n\n".join(
        p if p.startswith("    ") else _one_paragraph(p) for p in doc.split("\n\n") if p
    )
    return f"{text}\n\n" if text else ""


def _one_paragraph(doc):
    return textwrap.fill((doc or "").split("\n\n")[0].replace("\n", " "), 99)
