"""Put asyncio_alt on a board, compiled; check it there, and say how much flash and heap it took.

PORT is a board's port, as mpremote takes it; or unix, for ~/.micropython/lib of MicroPython's unix
port; or a folder, which the unix port is to find in $MICROPYPATH. Without PORT it is the board
that is connected by USB.

Parts that the board has already are brought up to date. If it is broken off, run it again.
"""

import argparse
import contextlib
import hashlib
from pathlib import Path, PurePosixPath

from rich.progress import Progress

from asyncio_alt.pc import Problem, mpy, parts, targets
from asyncio_alt.pc.ask import ask, name
from asyncio_alt.pc.screen import console

_NAME = "asyncio_alt"
_LEAST = (1, 25)  # of MicroPython

# What it has to know of a board. A package of the firmware comes before one in lib, and so does
# one in the folder that it starts in.
_LOOK = f"""
import os, sys

def can_import(name, *names):
    try:
        module = __import__(name)
    except ImportError:
        return False
    return all(hasattr(module, n) for n in names)

def isdir(path):
    try:
        return bool(os.stat(path)[0] & 0x4000)
    except OSError:
        return False

lib = [p for p in sys.path if p == "lib" or p.endswith("/lib")][:1]
before = [p for p in sys.path[: sys.path.index(lib[0])] if p != ".frozen"] if lib else []
before = [(p or os.getcwd()).rstrip("/") + "/{_NAME}" for p in before]
stat = os.statvfs(lib[0].rpartition("/")[0] or "/") if lib and hasattr(os, "statvfs") else None
answer = {{
    "version": [str(n) for n in sys.implementation.version[:2]],
    "machine": sys.implementation._machine,
    "mpy": getattr(sys.implementation, "_mpy", 0) & 0xFF,
    "lib": lib,
    "before": [p for p in before if isdir(p)],
    "free": stat[0] * stat[3] if stat else 0,
    "limited": stat is not None,
}}
sys.path[:] = [".frozen"]
for used in ("{_NAME}", "asyncio"):  # by boot.py
    sys.modules.pop(used, None)
answer["frozen"] = can_import("{_NAME}") and hasattr(sys.modules["{_NAME}"], "run")
answer["in place"] = can_import("asyncio", "roundrobin", "priority_window")
"""
_LOOKED = {
    "version": list,
    "machine": str,
    "mpy": int,
    "lib": list,
    "before": list,
    "free": int,
    "limited": bool,
    "frozen": bool,
    "in place": bool,
}

# The hashes of files that are there, by their paths.
_HASHES = """
import hashlib, os
answer = {"paths": [], "hashes": []}
block = bytearray(512)

def hashed(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while n := f.readinto(block):
            h.update(memoryview(block)[:n])
    return "".join("%02x" % b for b in h.digest())

def walk(folder):
    for name, kind, *_ in os.ilistdir(folder):
        path = folder + "/" + name
        if kind == 0x4000:
            walk(path)
        else:
            answer["paths"].append(path)
            answer["hashes"].append(hashed(path))

try:
    walk(FOLDER)
except OSError:
    pass
"""

# Proves that it works: a flag that is set resumes a task ahead of the one that is ready.
_CHECK = f"""
import gc
gc.collect()
before = gc.mem_alloc()
import {_NAME} as asyncio
order = []
async def urgent(flag):
    await flag.wait(priority=True)
    order.append("urgent")
async def ready():
    order.append("ready")
async def main():
    flag = asyncio.ThreadSafeFlag()
    tasks = [asyncio.create_task(urgent(flag))]
    await asyncio.sleep_ms(0)
    tasks.append(asyncio.create_task(ready()))
    flag.set()
    await asyncio.gather(*tasks)
asyncio.run(main())
gc.collect()
answer = {{"order": order, "file": asyncio.core.__file__, "heap": gc.mem_alloc() - before}}
answer["size"] = gc.mem_alloc() + gc.mem_free()
for module in MODULES:
    __import__(module)
"""


def add_arguments(parser):
    parser.add_argument("port", metavar="PORT", nargs="?", type=targets.port, help="see above")
    parser.add_argument(
        "--parts",
        metavar="PART,...",
        type=_parts,
        default=(),
        help=f"with these parts: {', '.join(parts.names())}",
    )
    parser.add_argument(
        "--frozen-check",
        action="store_true",
        help="install nothing; tell whether the board's firmware has it (exit code 0) or not (1)",
    )


def _parts(text):
    found = [part.strip() for part in text.split(",") if part.strip()]
    for part in found:
        if part not in parts.names():
            raise argparse.ArgumentTypeError(
                f"invalid value {part!r}: the parts are {', '.join(parts.names())}"
            )
    return found


def main(args):
    screen = console()
    with _place(args.port) as place:
        board = ask(place.target, _LOOK, **_LOOKED)
        if args.frozen_check:
            return _tell_frozen(screen, place, board)
        lib = _checked(place, board)
        there = place.there(f"{lib}/{_NAME}")
        contents = _contents(args.parts, lib, there, ".mpy" if board["mpy"] else ".py")
        written = _write(screen, place, board, there, contents)
        _tell(screen, place, board, lib, contents, written)
    return 0


def _tell_frozen(screen, place, board):
    where = name(place.target)
    if board["in place"]:
        screen.print(f"{where} has {_NAME} in its firmware, in the place of asyncio")
    elif board["frozen"]:
        screen.print(f"{where} has {_NAME} in its firmware")
    else:
        screen.print(f"{where} has no {_NAME} in its firmware")
    for folder in board["before"]:
        screen.print(f"{folder} comes before it")
    return 0 if board["frozen"] or board["in place"] else 1


def _checked(place, board):
    """Return the folder to install to; raise Problem if it would be of no use there."""
    where = name(place.target)
    if not all(number.isdecimal() for number in board["version"]):
        raise Problem(f"{where}: it gives an invalid version")
    if tuple(map(int, board["version"])) < _LEAST:
        raise Problem(
            f"{where} has MicroPython {'.'.join(board['version'])}; {_NAME} needs "
            f"{'.'.join(map(str, _LEAST))} or newer"
        )
    if board["in place"] or board["frozen"]:
        raise Problem(
            f"{where} has {_NAME} in its firmware, which comes before installed files: build "
            "newer firmware instead"
        )
    if board["before"]:
        raise Problem(f"{where} has {board['before'][0]}, which comes before lib: remove it first")
    if not (lib := [place.lib] if place.lib else board["lib"]):
        raise Problem(f"{where} has no folder lib in its sys.path")
    if board["mpy"]:
        mpy.check_version(board["mpy"])
    return lib[0]


def _contents(wanted, lib, there, suffix):
    """Return the contents of the files of the parts that are wanted or on the board, by path."""
    base = set(parts.files(()))
    on_board = {f"{_stem(path.removeprefix(f'{lib}/'))}.py" for path in there}
    own = {part: set(parts.files([part])) - base for part in parts.names()}
    found = [part for part in own if own[part] <= on_board]
    return {
        f"{lib}/{_stem(target)}{suffix}": mpy.compiled(source, parts.PACKAGE.parent)
        if suffix == ".mpy"
        else source.read_bytes()
        for target, source in parts.files([*wanted, *found]).items()
    }


def _stem(path):
    return str(PurePosixPath(path).with_suffix(""))


def _write(screen, place, board, there, contents):
    """Write the files that differ, remove those that would hide them; return those written."""
    new = {
        path: content
        for path, content in contents.items()
        if there.get(path) != hashlib.sha256(content).hexdigest()
    }
    stems = {_stem(path) for path in contents}
    hiding = [path for path in there if path not in contents and _stem(path) in stems]
    needed = sum(len(content) for path, content in new.items() if path not in there)
    if board["limited"] and needed > board["free"]:
        raise Problem(
            f"{name(place.target)} has {board['free']:,} bytes of flash free, the files take "
            f"{needed:,}"
        )
    if new or hiding:
        # While it is not whole it has no __init__, so that nobody takes it for one that works.
        last = next(path for path in contents if _stem(path).endswith(f"/{_NAME}/__init__"))
        new[last] = new.pop(last, contents[last])
        with place.writing() as writing:
            writing.remove([last] if last in there else [])
            writing.remove(hiding)
            _write_all(screen, writing, new)
    return new


def _write_all(screen, writing, new):
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=sum(map(len, new.values())))
        for path, content in new.items():
            bar.update(task, description=PurePosixPath(path).name)
            writing.write(path, content)
            bar.update(task, advance=len(content))


def _tell(screen, place, board, lib, contents, written):
    base = {_stem(target) for target in parts.files(())}
    stems = [_stem(path).removeprefix(f"{lib}/") for path in contents]
    more = [stem.removesuffix("/__init__").replace("/", ".") for stem in stems if stem not in base]
    check = _CHECK.replace("MODULES", repr(more))
    said = ask(place.target, check, order=list, file=str, heap=int, size=int)
    if said["order"] != ["urgent", "ready"] or _stem(said["file"]) != f"{lib}/{_NAME}/core":
        raise Problem(f"{name(place.target)}: the check failed: {said['file']}, {said['order']}")
    flash = sum(map(len, contents.values()))
    screen.print(
        f"{_NAME} {parts.version()} is on {board['machine']}, "
        f"MicroPython {'.'.join(board['version'])}"
    )
    screen.print(f"files: {len(written)} written, {len(contents) - len(written)} were there")
    screen.print(f"flash: {flash:,} bytes, in {lib}/{_NAME}")
    screen.print(f"heap:  {said['heap']:,} of {said['size']:,} bytes, without the parts")
    screen.print("The check passed: a task that waited for a flag was resumed first.")


# Where it is installed


@contextlib.contextmanager
def _place(port):
    if port == "unix":
        port = Path.home() / ".micropython" / "lib"
        port.mkdir(parents=True, exist_ok=True)
    if port and Path(port).is_dir():
        from asyncio_alt.pc.unix import Unix

        folder = Path(port).resolve()
        with Unix(path=[folder]) as target:
            yield _Folder(target, folder)
        return
    with targets.get(port, bare=True) as target:
        yield _Board(target)


class _Board:
    """The file system of a board."""

    lib = None  # as its sys.path says

    def __init__(self, target):
        self.target = target

    def there(self, folder):
        """Return the files in a folder, by path, each with its hash."""
        script = _HASHES.replace("FOLDER", repr(folder))
        said = ask(self.target, script, paths=list, hashes=list)
        found = zip(said["paths"], said["hashes"], strict=False)
        return {path: digest for path, digest in found if path.startswith(f"{folder}/")}

    @contextlib.contextmanager
    def writing(self):
        """Yield an object that removes and writes files."""
        with self.target.files() as self._files:
            self._made = {"/", "."}
            yield self

    def remove(self, paths):
        for path in paths:
            self._files.fs_rmfile(path)

    def write(self, path, content):
        for folder in reversed([str(folder) for folder in PurePosixPath(path).parents]):
            if folder not in self._made and not self._files.fs_isdir(folder):
                self._files.fs_mkdir(folder)
            self._made.add(folder)
        self._files.fs_writefile(path, content, chunk_size=1024)


class _Folder:
    """A folder of this PC, where MicroPython's unix port looks for modules."""

    def __init__(self, target, folder):
        self.target = target
        self.lib = folder.as_posix()

    def there(self, folder):
        found = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    @contextlib.contextmanager
    def writing(self):
        yield self

    def remove(self, paths):
        for path in paths:
            Path(path).unlink()

    def write(self, path, content):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
