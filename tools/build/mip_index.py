"""Write a package index for mip: asyncio_alt compiled to .mpy files, and as source.

Any web server that serves plain files can serve DIR. If URL is its address,

    mpremote mip install --index URL asyncio_alt        installs from a PC,
    mip.install("asyncio_alt", index="URL")             on a board with a network,
    micropython -m mip install --index URL asyncio_alt  for the unix port.

The optional parts are packages of their own, such as asyncio_alt-idle, which install asyncio_alt
too. An index of an earlier version may be in DIR already: then both versions can be installed, and
mip takes the new one if no version is given.
"""

import hashlib
import json
from collections import defaultdict
from pathlib import Path

from asyncio_alt.pc import arguments
from asyncio_alt.pc.mpy import compiled
from asyncio_alt.pc.parts import NEEDS
from tools import Problem
from tools.bootstrap import ROOT

_NAME = "asyncio_alt"


def add_arguments(parser):
    parser.add_argument("folder", metavar="DIR", type=arguments.folder, help="where to write it")


def main(args):
    try:
        version, formats = write(args.folder)
    except OSError as error:
        raise Problem(f"{error.filename}: {error.strerror}") from None
    print(f"{_NAME} {version} in {args.folder}, formats: {', '.join(formats)}")
    return 0


def write(folder: Path) -> tuple[str, list[str]]:
    """Write the index; return the package's version and the formats that mip can ask for.

    A format is "py", or the number of the .mpy format that boards tell as
    sys.implementation._mpy & 0xFF.
    """
    for part in sorted((ROOT / _NAME).glob("*.json")):
        needs = [f"{_NAME}-{name}" for name in NEEDS.get(part.stem, ())]
        deps = [[name, "latest"] for name in (_NAME, *needs)]
        _write_package(folder, f"{_NAME}-{part.stem}", part, deps)
    return _write_package(folder, _NAME, ROOT / "package.json", [])


def _write_package(folder, package_name, description, deps):
    package = json.loads(description.read_text())
    hashes = defaultdict(list)  # by format: [path on the board, name in the index] of each file
    for target, url in package["urls"]:
        source = description.parent / url
        code = compiled(source, ROOT)
        for form, path, content in (
            (str(code[1]), str(Path(target).with_suffix(".mpy")), code),
            ("py", target, source.read_bytes()),
        ):
            hashes[form].append([path, _add_file(folder, content)])
    for form, files in hashes.items():
        description = json.dumps(
            {"v": 1, "version": package["version"], "hashes": files, "deps": deps}
        )
        for name in (package["version"], "latest"):
            _write(folder / "package" / form / package_name / f"{name}.json", description.encode())
    return package["version"], list(hashes)


def _add_file(folder, content):
    """Add a file under the first 8 hex digits of its hash, as mip looks for it; return them."""
    name = hashlib.sha256(content).hexdigest()[:8]
    _write(folder / "file" / name[:2] / name, content)
    return name


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
