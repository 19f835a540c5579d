"""Makes .venv in the repository's root and keeps it at the versions that pyproject.toml pins."""

import ast
import fcntl
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

from tools import Problem

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
_PYPROJECT = ROOT / "pyproject.toml"
_STAMP = VENV / "pins"  # hash of the pins that were installed


def enter(argv):
    """Run `python -m tools *argv` inside .venv, made first if need be; return if already there."""
    with open(_PYPROJECT, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # two first uses at once: one waits for the other
        pins = _pins(f.read().decode())
        stamp = hashlib.sha256("\n".join(pins).encode()).hexdigest()
        # The interpreter that .venv was made with may be gone since.
        installed = PYTHON.exists() and _STAMP.exists() and _STAMP.read_text()
        if installed != stamp:
            print("Setting up .venv, only when the pins of pyproject.toml change", file=sys.stderr)
            if not installed:
                _create()
            _install(pins)
            _STAMP.write_text(stamp)
    if Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(PYTHON, [str(PYTHON), "-m", "tools", *argv])


def version() -> str:
    """Return the version of asyncio_alt, from pyproject.toml."""
    return re.search(r'^version = "(.*)"', _PYPROJECT.read_text(), re.MULTILINE)[1]


def _create():
    if not importlib.util.find_spec("ensurepip"):
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise Problem(f"this Python has no ensurepip: install the package {package}")
    try:
        venv.create(VENV.resolve(), clear=True, symlinks=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Problem(f"cannot make {VENV}: {error}") from None


def _pins(text):
    # A TOML array of strings is a Python list too, and tomllib came with Python 3.11 only.
    found = re.search(r"^dev = (\[.*?^\])", text, re.DOTALL | re.MULTILINE)
    return ast.literal_eval(found.group(1))


def _install(pins):
    command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", *pins]
    if subprocess.run(command, stdout=sys.stderr).returncode:
        raise Problem("pip could not install what pyproject.toml pins (its own message is above)")
