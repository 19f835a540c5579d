"""The files of a package that are for MicroPython."""

from pathlib import Path

CPYTHON = "shm.py", "pc"  # a module and a package for CPython alone: no board gets them


def modules(package: Path) -> list[Path]:
    """Return the sources of the package in a folder, without what is for CPython alone."""
    return sorted(
        path
        for path in package.rglob("*.py")
        if not any(part in CPYTHON for part in path.relative_to(package).parts)
    )
