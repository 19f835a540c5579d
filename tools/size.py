"""Show how many bytes of flash and heap each module takes, beside stock asyncio.

Flash is the size of the .mpy file: as mip installs it, and with -O3, as firmware is built. Heap is
the memory that stays allocated once the .mpy files are imported, on the unix port; its words have
64 bits, so a microcontroller takes about half. A program of tasks that only sleep loads "base".
The other modules are loaded after it one by one; each row shows how much one adds. "drop-in" is
the sum of the modules that stock asyncio has too, of lazy, which finds them, and of server, which
is a part of its stream.
"""

import json
import re
import tempfile
from pathlib import Path

from rich.table import Table

from asyncio_alt.pc import arguments, screen
from asyncio_alt.pc.mpy import compiled
from tools import Problem
from tools.bootstrap import ROOT
from tools.build.mpy import modules
from tools.build.source import tree
from tools.targets.unix import Unix

_DEVICE = """
import gc, json, sys

def load_base():
    async def tick():
        await package.sleep_ms(1)
    async def main():
        await package.create_task(tick())
    package = __import__(NAME)
    package.run(main())

def measured(load, *args):
    known = set(sys.modules)
    gc.collect()
    before = gc.mem_alloc()
    load(*args)
    gc.collect()
    heap = gc.mem_alloc() - before
    new = [name for name in sys.modules if name not in known]
    return heap, [name for name in new if name.split(".")[0] == NAME]

steps = [measured(load_base)]
for name in NAMES:
    steps.append(measured(__import__, NAME + "." + name))
print(json.dumps((".".join(str(n) for n in sys.implementation.version), steps)))
"""

_NOT_IN_PACKAGE = {"manifest", "uasyncio"}  # files beside stock's modules


def add_arguments(parser):
    parser.add_argument(
        "--json", type=arguments.file, metavar="FILE", help="write the figures there too"
    )
    parser.add_argument(
        "--micropython-src",
        metavar="PATH",
        help="a MicroPython source to take stock asyncio from (default: $MICROPYTHON_SRC, else "
        "Debian's source package)",
    )


def main(args):
    report = measure(ROOT / "asyncio_alt", tree(args.micropython_src))
    screen.console().print(_table(report))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def measure(package: Path, source: Path) -> dict:
    """Measure the package in folder `package`, and the asyncio of a MicroPython source."""
    flash = {"ours": _compiled(package), "stock": _compiled(source / "extmod" / "asyncio")}
    alike = sorted(set(flash["stock"]) - {"__init__", "core", "task"})
    ours = [*alike, *({"server"} & set(flash["ours"]))]
    more = sorted(set(flash["ours"]) - {"__init__", "core", "lazy", "task", *ours})
    steps = {}
    first = ["lazy"] if "lazy" in flash["ours"] else []
    version, steps["ours"] = _imported(package.name, flash["ours"], [*first, *ours, *more])
    version, steps["stock"] = _imported("asyncio", flash["stock"], alike)
    last = {"base": ["base"] * 2, "drop-in": [ours[-1], alike[-1]], "everything": more[-1:]}
    return {
        "micropython": version,
        "stock asyncio": _version(source),
        "modules": {
            side: {m: _sizes(code) for m, code in files.items()} for side, files in flash.items()
        },
        "steps": steps,
        "sets": {
            name: {
                side: _total(flash[side], _up_to(step, steps[side]))
                for side, step in zip(flash, ends)
            }
            for name, ends in last.items()
        },
    }


def _compiled(package):
    """Return {module: (.mpy, .mpy with -O3)} of a folder of sources."""
    if not (package / "__init__.py").exists():
        raise Problem(f"no package in {package}")
    found = {}
    for path in modules(package):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if name not in _NOT_IN_PACKAGE:
            found[name] = tuple(compiled(path, package.parent, *o) for o in ((), ("-O3",)))
    return found


def _imported(package, files, names):
    """Import from .mpy files, on MicroPython; return its version, and each step's modules."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (code, _) in files.items():
            is_package = any(other.startswith(name + ".") for other in files)
            path = Path(folder, package, *name.split("."), *["__init__"] * is_package)
            path = path.with_name(path.name + ".mpy")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(code)
        with Unix(path=[folder]) as unix:
            result = unix.run(f"NAME = {package!r}\nNAMES = {names!r}\n{_DEVICE}")
    if not result.ok:
        raise Problem(f"cannot import {package}: {result.err.strip().splitlines()[-1]}")
    version, steps = json.loads(result.out)
    return version, [
        {
            "step": step,
            "heap": heap,
            # "asyncio_alt.core" is the module core, "asyncio_alt" itself is __init__.
            "modules": sorted(m.partition(".")[2] or "__init__" for m in loaded),
        }
        for step, (heap, loaded) in zip(["base", *names], steps, strict=True)
    ]


def _sizes(code):
    return {"mpy": len(code[0]), "mpy -O3": len(code[1])}


def _up_to(last, steps):
    names = [step["step"] for step in steps]
    return steps[: names.index(last) + 1]


def _total(flash, steps):
    sizes = [_sizes(flash[module]) for step in steps for module in step["modules"]]
    total = {key: sum(size[key] for size in sizes) for key in ("mpy", "mpy -O3")}
    return {**total, "heap": sum(step["heap"] for step in steps)}


def _version(source):
    text = (source / "py" / "mpconfig.h").read_text()
    return ".".join(re.findall(r"#define MICROPY_VERSION_(?:MAJOR|MINOR|MICRO) (\d+)", text))


def _table(report):
    table = Table(
        title=f"asyncio_alt beside stock asyncio {report['stock asyncio']}, bytes",
        caption=f"heap: MicroPython {report['micropython']}, unix port, 64 bit",
    )
    table.add_column("module")
    for column in ("mpy", "mpy -O3", "heap", "stock mpy", "mpy -O3", "heap"):
        table.add_column(column, justify="right")
    stock_heap = {step["step"]: step["heap"] for step in report["steps"]["stock"]}
    steps = {step["step"] for step in report["steps"]["ours"]}
    last = "server" if "server" in steps else report["steps"]["stock"][-1]["step"]
    ends = {"base": "base", last: "drop-in"}
    ends[report["steps"]["ours"][-1]["step"]] = "everything"
    shown = set()
    for step in report["steps"]["ours"]:
        heap = (step["heap"], stock_heap.get(step["step"]))
        for module in step["modules"]:
            table.add_row(*_row(report["modules"], module, *heap))
            heap = ("", "")
            shown.add(module)
        if step["step"] in ends:
            _add_set(table, ends[step["step"]], report["sets"][ends[step["step"]]])
    for module in sorted(set(report["modules"]["ours"]) - shown):
        table.add_row(*_row(report["modules"], module, "not loaded", ""))
    return table


def _row(modules, module, heap, stock_heap):
    stock = modules["stock"].get(module, {})
    cells = [*modules["ours"][module].values(), heap]
    cells += [*stock.values(), stock_heap] if stock else ["", "", ""]
    return [module, *("" if cell is None else str(cell) for cell in cells)]


def _add_set(table, name, sides):
    cells = [str(n) for side in sides.values() for n in side.values()]
    table.add_section()
    table.add_row(f"= {name}", *cells, style="bold")
    if "stock" in sides:
        ratios = [f"{n / sides['stock'][key]:.2f}" for key, n in sides["ours"].items()]
        table.add_row("  ours / stock", *ratios, style="bold")
    table.add_section()
