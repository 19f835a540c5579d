"""Build MicroPython firmware with asyncio_alt frozen in, beside stock asyncio or in its place.

Builds are kept in a cache of the user's, and brought up to date in seconds when only Python files
have changed; the MicroPython source is not written to. The READMEs in ports/ describe the builds,
and how to build by hand for a board of your own.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from asyncio_alt.pc import arguments
from tools import Problem, Unavailable, WrongArgument
from tools.bootstrap import ROOT
from tools.build import source

# Debian's packages of MicroPython's submodules, for a source without these.
_PICO_SDK = ("pico-sdk-source", "2.1.1-1")
_TINYUSB = ("tinyusb-source", "0.18.0+dfsg-1")

# The programs that builds take, and the Debian packages to install if they are missing.
_MAKE = {"make": "make", "gcc": "gcc"}
_ARM = {**_MAKE, "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi"}
_RISCV = {
    **_MAKE,
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
}
_PICO = {
    **_ARM,
    "g++": "g++",
    "cmake": "cmake",
    "arm-none-eabi-g++": "libstdc++-arm-none-eabi-newlib",
}


class _Kind(NamedTuple):
    port: str  # its folder in ports/, here and in MicroPython
    programs: dict
    file: str  # what is built
    board: str = ""
    family: str = ""  # of chips, in a .uf2 file


KINDS = {
    "unix": _Kind("unix", _MAKE, "micropython"),
    "qemu": _Kind("qemu", _ARM, "firmware.elf", "MPS2_AN385"),
    "qemu-m4": _Kind("qemu", _ARM, "firmware.elf", "MPS2_AN386"),
    "qemu-m0": _Kind("qemu", _ARM, "firmware.elf", "MICROBIT"),
    "qemu-rv32": _Kind("qemu", _RISCV, "firmware.elf", "VIRT_RV32"),
    "rp2": _Kind("rp2", _PICO, "firmware.bin", "RPI_PICO", "0xe48bff56"),
    "rp2350": _Kind("rp2", _PICO, "firmware.bin", "RPI_PICO2", "0xe48bff59"),
}


def add_arguments(parser):
    parser.add_argument(
        "kind",
        choices=KINDS,
        metavar="KIND",
        help="what to build for: " + ", ".join(KINDS) + " (rp2 is the Pico, rp2350 the Pico 2)",
    )
    parser.add_argument(
        "--micropython-src",
        metavar="PATH",
        help="a MicroPython source to build (default: $MICROPYTHON_SRC, else Debian's source "
        f"package {source.MICROPYTHON_VERSION})",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--as-asyncio", action="store_true", help="asyncio_alt in the place of asyncio"
    )
    kind.add_argument("--stock", action="store_true", help="stock asyncio only")
    parser.add_argument("--no-c-tasks", action="store_true", help="without the module _asyncio")
    parser.add_argument(
        "--heap",
        type=arguments.count(16384, 0x400000),
        metavar="BYTES",
        help="the heap's size (qemu only)",
    )
    parser.add_argument(
        "-o",
        dest="output",
        type=arguments.file,
        metavar="FILE",
        help="copy the firmware there (rp2: the end of FILE tells the format: .uf2, .bin or .elf)",
    )


def main(args):
    port = KINDS[args.kind].port
    if args.heap and port != "qemu":
        raise WrongArgument("argument --heap: only qemu has a heap of a size to choose")
    ending = args.output and args.output.suffix
    if ending is not None and port == "rp2" and ending not in (".uf2", ".bin", ".elf"):
        raise WrongArgument(f"argument -o: {args.output}: {args.kind} has .uf2, .bin, .elf files")
    begin = time.monotonic()
    firmware = build(
        args.kind,
        micropython_src=args.micropython_src,
        as_asyncio=args.as_asyncio,
        stock=args.stock,
        c_tasks=not args.no_c_tasks,
        heap=args.heap,
    )
    if args.output:
        if port == "rp2":
            firmware = firmware.with_suffix(ending)
        firmware = shutil.copy(firmware, args.output)
    print(f"{firmware} ({time.monotonic() - begin:.1f} s)")
    return 0


def build(
    kind: str,
    *,
    micropython_src: str | None = None,
    as_asyncio: bool = False,
    stock: bool = False,
    c_tasks: bool = True,
    heap: int | None = None,
) -> Path:
    """Return the path of up-to-date firmware.

    kind: "unix", "qemu" and its other chips, "rp2" (the Pico) or "rp2350" (the Pico 2)
    micropython_src: as for tools.source.tree
    as_asyncio, stock: freeze asyncio_alt in the place of asyncio; freeze stock asyncio only
    c_tasks: have the C module _asyncio
    heap: size of the heap in bytes (qemu only)
    Raises Unavailable if the source or a tool cannot be had, Problem if the build fails.
    """
    port, programs, file, *board = KINDS[kind]
    tree = source.tree(micropython_src)
    for program, packages in programs.items():
        if not shutil.which(program):
            raise Unavailable(f"there is no {program} here; Debian has it in {packages}")

    variant = ["as-asyncio"] * as_asyncio + ["stock"] * stock + ["no-c-tasks"] * (not c_tasks)
    variant += [f"heap-{heap}"] if heap else []
    # Its name has the source and the checkout: make would rebuild all for another path of them.
    folder = _folder(kind, *variant, _hash(f"{tree} {__file__}".encode())[:8])
    with _locked(folder):
        mpy_cross = _mpy_cross(tree)
        manifest = folder / "manifest.py"
        manifest.write_text(
            f'include("{ROOT}/ports/{port}/manifest.py", as_asyncio={as_asyncio}, '
            f"stock={stock}, task_py={not c_tasks})\n"
        )
        commands = _COMMANDS[port](tree, folder / "build", manifest, c_tasks, heap, *board)
        # Make looks at times only: it would not notice other options or a file that is gone.
        flags = repr(commands).encode() + (tree / "py" / "mpconfig.h").read_bytes()
        if _changed(folder / "flags", flags + _contents(ROOT / "ports" / port, "*/*")):
            shutil.rmtree(folder / "build", ignore_errors=True)
        frozen = manifest.read_bytes() + (ROOT / "manifest.py").read_bytes()
        frozen += _contents(ROOT / "ports", "*.py") + _contents(ROOT / "asyncio_alt", "*.py")
        if _changed(folder / "frozen", frozen):
            (folder / "build" / "frozen_content.c").unlink(missing_ok=True)
            shutil.rmtree(folder / "build" / "frozen_mpy", ignore_errors=True)
        _run(" ".join([kind, *variant]), folder, commands, MICROPY_MPYCROSS=str(mpy_cross))
    return folder / "build" / file


def _unix(tree, folder, manifest, c_tasks, heap, board, family):
    command = ["make", *_JOBS, "-C", tree / "ports" / "unix", f"BUILD={folder}"]
    # Without parts that take a library that Debian's source lacks, or the machine may lack.
    command += ["VARIANT=standard", "MICROPY_PY_SSL=0", "MICROPY_PY_BTREE=0", "MICROPY_PY_FFI=0"]
    command += [] if c_tasks else ["CFLAGS_EXTRA=-DMICROPY_PY_ASYNCIO=0"]
    return [[*command, f"FROZEN_MANIFEST={manifest}"]]


def _qemu(tree, folder, manifest, c_tasks, heap, board, family):
    command = ["make", *_JOBS, "-C", tree / "ports" / "qemu", f"BUILD={folder}"]
    own = ROOT / "ports" / "qemu" / "boards" / board
    command += [f"BOARD={board}", *([f"BOARD_DIR={own}"] if own.exists() else [])]
    command += [f"USER_C_MODULES={ROOT}/ports/qemu"]
    command += [] if c_tasks else ["CFLAGS_EXTRA=-DHWIRQ_C_TASKS=0"]
    command += [f"MICROPY_HEAP_SIZE={heap}"] if heap else []
    return [[*command, f"FROZEN_MANIFEST={manifest}"]]


def _rp2(tree, folder, manifest, c_tasks, heap, board, family):
    options = {
        "MICROPY_BOARD": board,
        "MICROPY_BOARD_DIR": ROOT / "ports" / "rp2" / "board",
        "MICROPY_FROZEN_MANIFEST": manifest,
        "PICO_NO_PICOTOOL": 1,
    }
    if not (tree / "lib" / "pico-sdk" / "pico_sdk_init.cmake").exists():
        options["PICO_SDK_PATH_OVERRIDE"] = source.package(*_PICO_SDK) / "usr/src/pico-sdk"
    if not (tree / "lib" / "tinyusb" / "src").exists():
        options["TINYUSB_PATH_OVERRIDE"] = source.package(*_TINYUSB) / "usr/src/tinyusb"
    if not c_tasks:
        options["BOARD_WITHOUT_C_TASKS"] = 1
    configure = ["cmake", "-S", tree / "ports" / "rp2", "-B", folder]
    uf2 = [sys.executable, tree / "tools" / "uf2conv.py", "--convert"]
    uf2 += ["--family", family, "--base", "0x10000000"]  # where the flash is
    return [
        [*configure, *(f"-D{name}={value}" for name, value in options.items())],
        ["make", *_JOBS, "-C", folder],
        [*uf2, "--output", folder / "firmware.uf2", folder / "firmware.bin"],
    ]


_COMMANDS = {"unix": _unix, "qemu": _qemu, "rp2": _rp2}
_JOBS = [f"-j{os.cpu_count()}"]


def _mpy_cross(tree):
    folder = _folder("mpy-cross", _hash(str(tree).encode())[:8])
    with _locked(folder):
        make = ["make", *_JOBS, "-C", tree / "mpy-cross", f"BUILD={folder}/build"]
        _run("mpy-cross", folder, [make])
    return folder / "build" / "mpy-cross"


def _run(name, folder, commands, **variables):
    """Run the commands of a build one after the other; print its name and how long it took."""
    begin = time.monotonic()
    # Python would leave __pycache__ in the source.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    print(f"Building {name} ...", end=" ", file=sys.stderr, flush=True)
    log = folder / "log"
    with open(log, "w") as out:
        for command in commands:
            done = subprocess.run(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
            if done.returncode:
                print("failed", file=sys.stderr)
                last = log.read_text(errors="replace").splitlines()[-20:]
                raise Problem("\n".join([f"the last lines of {log} are", *last]))
    print(f"{time.monotonic() - begin:.1f} s", file=sys.stderr)


def _folder(*name):
    folder = source.cache() / "firmware" / "-".join(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _locked(folder):
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _contents(folder, pattern):
    """Return the names and the contents of a folder's files as one string of bytes."""
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    return b"".join(b"%a %b" % (str(path), path.read_bytes()) for path in files)


def _changed(stamp, contents):
    """Tell whether the contents have changed since the last call with this stamp file."""
    new = _hash(contents)
    if stamp.exists() and stamp.read_text() == new:
        return False
    stamp.write_text(new)
    return True


def _hash(contents):
    return hashlib.sha256(contents).hexdigest()
