"""Check that all files that describe the package agree, and build the files of a release.

Into DIR go the index for mip (mip/), the wheel and the sdist, firmware for the Pico and the Pico 2
(built, not run) with asyncio_alt beside asyncio and in its place, and SHA256SUMS, for
`sha256sum --check SHA256SUMS`.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from asyncio_alt.pc import arguments
from tools import Problem, WrongArgument
from tools.bootstrap import ROOT, version
from tools.build import firmware, mip_index, stubs, wheel
from tools.build.mpy import modules

_NAME = "asyncio_alt"
_SUMS = "SHA256SUMS"
_BOARDS = {"RPI_PICO": "rp2", "RPI_PICO2-not-run": "rp2350"}  # no emulator has an RP2350
_HEADING = re.compile(r"^## (\S+)(.*)", re.MULTILINE)


def add_arguments(parser):
    parser.add_argument(
        "-o",
        dest="folder",
        type=arguments.folder,
        default=ROOT / "dist",
        metavar="DIR",
        help="where to build; files of an earlier release there are deleted (default: dist)",
    )
    parser.add_argument("--tag", help="the tag of the release: v and the version")
    parser.add_argument("--no-firmware", action="store_true", help="build no firmware")


def main(args):
    if args.tag not in (None, f"v{version()}"):
        raise WrongArgument(f"argument --tag: {check_tag(args.tag)[0]}")
    wrong = check() + check_tag(args.tag)
    if wrong:
        raise Problem("\n".join(["not released", *wrong]))
    build(args.folder, with_firmware=not args.no_firmware)
    for line in (args.folder / _SUMS).read_text().splitlines():
        if "  mip/" not in line:
            print(line)
    print(f"{_NAME} {version()} in {args.folder}")
    return 0


# The checks: each returns a line for each error, which names both places.


def check(root: Path = ROOT) -> list[str]:
    """Compare the versions, the lists of modules and the type stubs in a tree of this project."""
    packages = [root / "package.json", *sorted((root / _NAME).rglob("*.json"))]
    return [
        *_versions(root, packages),
        *_listed(root, packages),
        *_frozen(root),
        *stubs.check(root / _NAME, root / "tools" / "typings"),
    ]


def check_tag(tag: str | None, root: Path = ROOT) -> list[str]:
    """Compare a release's tag, if there is one, with pyproject.toml and CHANGES.md."""
    if tag is None:
        return []
    own = _version(root)
    wrong = [] if tag == f"v{own}" else [f"the tag is {tag}, pyproject.toml says {own}"]
    rest = _HEADING.search((root / "CHANGES.md").read_text("utf-8"))[2]
    if "unreleased" in rest:
        wrong.append(f"the tag is {tag}, CHANGES.md says{rest}")
    return wrong


def _version(root):
    return re.search(r'^version = "(.*)"', (root / "pyproject.toml").read_text(), re.MULTILINE)[1]


def _versions(root, packages):
    own = _version(root)
    said = {path: json.loads(path.read_text())["version"] for path in packages}
    changes = root / "CHANGES.md"
    said[changes] = _HEADING.search(changes.read_text("utf-8"))[1]
    for path, other in said.items():
        if other != own:
            yield f"{path.relative_to(root)} says {other}, pyproject.toml says {own}"


def _modules(root):
    return {str(path.relative_to(root)) for path in modules(root / _NAME)}


def _listed(root, packages):
    listed = {}  # each module to the package that installs it
    for package in packages:
        name = package.relative_to(root)
        for target, url in json.loads(package.read_text())["urls"]:
            module = os.path.normpath((package.parent / url).relative_to(root))
            if target != module:
                yield f"{name} installs {module} as {target}"
            # Parts may share modules; those of the package itself are in no part.
            if str(listed.get(module)) == "package.json":
                yield f"{module} is in both {listed[module]} and {name}"
            listed.setdefault(module, name)
    for module in sorted(set(listed) - _modules(root)):
        yield f"{listed[module]} lists {module}, which is not there"
    for module in sorted(_modules(root) - set(listed)):
        yield f"{module} is there, but in no package: neither package.json nor {_NAME}/*.json"


def _frozen(root):
    for task_py, as_asyncio in ((False, False), (True, False), (True, True)):
        expected = {module for module in _modules(root) if task_py or not _is_task(module)}
        if as_asyncio:
            expected = {module.replace(_NAME, "asyncio", 1) for module in expected}
            expected.add("uasyncio.py")
        frozen = _evaluated(root, task_py=task_py, as_asyncio=as_asyncio)
        how = f"manifest.py with task_py={task_py}, as_asyncio={as_asyncio}"
        for module in sorted(frozen - expected):
            yield f"{how} freezes {module}, which {_NAME}/ does not have"
        for module in sorted(expected - frozen):
            yield f"{how} does not freeze {module}, which {_NAME}/ has"


def _is_task(module):
    return module == f"{_NAME}/task.py"


class _Options:
    """The object `options` in a manifest."""

    def __init__(self, given):
        self.given = given

    def defaults(self, **values):
        self.__dict__.update({**values, **self.given})


def _evaluated(root, **options):
    # The files that manifest.py freezes. MicroPython's makemanifest.py does the same, but needs
    # its source.
    frozen = set()
    here = os.getcwd()
    os.chdir(root)
    try:
        exec(
            (root / "manifest.py").read_text(),
            {
                "metadata": lambda **values: None,
                "options": _Options(options),
                "package": lambda name, files, **how: frozen.update(f"{name}/{f}" for f in files),
                "module": lambda name, **how: frozen.add(name),
            },
        )
    finally:
        os.chdir(here)
    return frozen


# The build


def build(folder: Path, with_firmware: bool = True):
    """Build the release's files in a folder, which must be empty or hold an earlier release."""
    if (folder / _SUMS).exists():
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise Problem(f"{folder} has files that are of no release: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    mip_index.write(folder / "mip")
    wheel.build(folder)
    for board, chip in _BOARDS.items() if with_firmware else ():
        for kind, options in (("", {}), ("-as-asyncio", {"as_asyncio": True})):
            built = firmware.build(chip, **options).with_suffix(".uf2")
            shutil.copy(built, folder / f"{_NAME}-{version()}-{board}{kind}.uf2")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
        for path in files
    ]
    (folder / _SUMS).write_text("".join(sums))
