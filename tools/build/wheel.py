"""Builds the wheel and the sdist of the package."""

import os
import subprocess
import sys
from pathlib import Path

from tools import Problem
from tools.bootstrap import ROOT, version
from tools.build import source

# The backend that pyproject.toml names, and what it needs beside the packages in .venv.
_BACKEND = ("hatchling", "1.27.0"), ("trove-classifiers", "2025.9.11.17")


def build(folder: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """Write both into a folder, and return their paths; the same sources make the same bytes.

    root: the repository, or an unpacked sdist
    """
    found = [str(source.from_pypi(*package)) for package in _BACKEND]
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder.absolute()],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(found)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Problem(f"hatchling: {done.stderr.strip()}")
    stem = f"asyncio_alt-{version()}"
    return folder / f"{stem}-py3-none-any.whl", folder / f"{stem}.tar.gz"
