"""Get MicroPython's source, and the packages that building firmware needs, from Debian's archive;
and the packages that tests need from PyPI and npm beside .venv.

A path given by the user or in $MICROPYTHON_SRC always wins. Otherwise apt fetches a pinned version
once, through the machine's own entries for Debian's archive, into a cache of the user's. The
machine's package lists stay as they are, and you need not be root.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools import Problem, Unavailable, WrongArgument

MICROPYTHON_VERSION = "1.25.0+ds-1"
SUITE = "trixie"  # the Debian release that holds the pinned versions


def cache() -> Path:
    """Return the folder in the user's cache for downloads and builds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asyncio_alt"


def tree(path: str | None = None) -> Path:
    """Return the root of an unpacked MicroPython source.

    path: a checkout to use; None takes $MICROPYTHON_SRC, else the cached copy, else a fetched one.
    Raises Problem if the path is not a MicroPython source, Unavailable if there is no source.
    """
    given = path or os.environ.get("MICROPYTHON_SRC")
    if given:
        root = Path(given).expanduser().resolve()
        if not (root / "py" / "mpconfig.h").is_file():
            wrong = f"{root} is not a MicroPython source"
            if path:
                raise WrongArgument(f"argument --micropython-src: {wrong}")
            raise Problem(f"$MICROPYTHON_SRC: {wrong}")
        return root
    try:
        root = debian_source("micropython", MICROPYTHON_VERSION)
    except Unavailable as e:
        raise Unavailable(f"{e}; set $MICROPYTHON_SRC to a MicroPython checkout") from None
    # Debian leaves the submodules out; for this one the makefiles only check that a file exists.
    readme = root / "lib" / "micropython-lib" / "README.md"
    readme.parent.mkdir(exist_ok=True)
    readme.touch()
    return root


def debian_source(name: str, version: str) -> Path:
    """Return the folder with the source of a Debian package, without Debian's patches."""

    def unpack(fetched, target):
        (archive,) = fetched.glob("*.orig.tar.*")
        _untar(archive, target)
        (top,) = target.iterdir()
        return top

    return _cached(name, version, "deb-src", ["source", "--download-only"], unpack)


def package(name: str, version: str) -> Path:
    """Return the folder with the files of a Debian binary package; nothing is installed."""

    def unpack(fetched, target):
        (archive,) = fetched.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive, target], check=True)
        return target

    return _cached(name, version, "deb", ["download"], unpack)


def from_pypi(name: str, version: str) -> Path:
    """Return the folder with a package of PyPI, without the packages that it requires."""
    pip = [sys.executable, "-m", "pip", "install", "--target=.", "--no-deps"]
    return fetched(name, version, [*pip, f"{name}=={version}"])


def sources_from_pypi(name: str, version: str) -> Path:
    """Return the folder with the source distribution of a package of PyPI, with its tests."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary=:all:"]
    folder = fetched(f"{name}-source", version, [*pip, f"{name}=={version}"], unpack=True)
    return folder / f"{name}-{version}"


def fetched(name: str, version: str, command: list[str], unpack: bool = False) -> Path:
    """Return the cached folder into which a package client has installed a package.

    command: installs it, run in that folder; unpack: it leaves an archive there, to be unpacked
    Raises Unavailable if it fails.
    """
    folder = cache() / f"{name}-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            target = Path(scratch, "target")
            target.mkdir()
            done = subprocess.run(command, cwd=target, capture_output=True, text=True)
            if done.returncode:
                raise Unavailable(f"cannot install {name}: {done.stderr.strip()}")
            if unpack:
                (archive,) = target.iterdir()
                _untar(archive, target)
            try:
                target.rename(folder)
            except OSError:
                if not folder.exists():  # else another process was faster
                    raise
    return folder


def _untar(archive, target):
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(target)


def _cached(name, version, kind, verb, unpack):
    """Return the cached folder of one package; fetch and unpack it first if it is not there."""
    folder = cache() / f"{name}-{version}"
    if folder.is_dir():
        return folder
    entries = _archive_entries(kind)
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".fetch-") as scratch:
        fetched, target = Path(scratch, "fetched"), Path(scratch, "unpacked")
        fetched.mkdir()
        target.mkdir()
        _apt_download(f"{name}={version}", verb, entries, Path(scratch), fetched)
        try:
            os.rename(unpack(fetched, target), folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
    return folder


def _apt_download(what, verb, entries, scratch, fetched):
    """Let apt-get fetch and verify one package into a folder, with lists of its own."""
    lists = scratch / "lists"
    (lists / "partial").mkdir(parents=True)
    (scratch / "archive.sources").write_text(entries)
    (scratch / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{scratch}/archive.sources";\n'
        'Dir::Etc::SourceParts "/nonexistent";\n'
        f'Dir::State::Lists "{lists}";\n'
        f'Dir::Cache "{scratch}";\n'
        'APT::Sandbox::User "root";\n'
        "#clear APT::Update;\n"  # hooks that belong to the machine's own lists
        'APT::Update::Error-Mode "any";\n'
    )
    apt = ["apt-get", "-c", scratch / "apt.conf", "-q"]
    # An entry out of reach fails the update, but another one may serve: the download decides.
    failed_update = _complaint([*apt, "update"])
    failed = _complaint([*apt, *verb, what], cwd=fetched)
    if failed:
        raise Unavailable(f"apt-get cannot fetch {what}: {failed_update or failed}")


def _archive_entries(kind):
    """Return the machine's entries for Debian's main archive, changed to SUITE and one kind."""
    if not shutil.which("apt-get"):
        raise Unavailable("there is no apt-get here to fetch it with")
    found = {}
    apt = Path("/etc/apt")
    for file in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if file.suffix in (".list", ".sources") and os.access(file, os.R_OK):
            parse = _deb822_entries if file.suffix == ".sources" else _one_line_entries
            for uri, components, signed_by in parse(file.read_text()):
                if "main" in components and "debian" in re.split("[:/]", uri):
                    found[uri] = signed_by
    if not found:
        raise Unavailable("apt here has no entry for Debian's main archive")
    targets = "Sources" if kind == "deb-src" else "Packages"
    return "\n".join(
        f"Types: {kind}\nURIs: {uri}\nSuites: {SUITE}\nComponents: main\nTargets: {targets}\n"
        + (f"Signed-By: {signed_by}\n" if signed_by else "")
        for uri, signed_by in found.items()
    )


def _deb822_entries(text):
    """Yield (uri, components, signed_by) of every enabled entry in a .sources file."""
    text = re.sub(r"(?m)^#.*\n?", "", text)
    for paragraph in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"(?m)^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph))
        fields = {key.lower(): value for key, value in fields.items()}
        if fields.get("enabled", "yes") == "yes":
            for uri in fields.get("uris", "").split():
                yield uri, fields.get("components", "").split(), fields.get("signed-by")


def _one_line_entries(text):
    """Yield (uri, components, signed_by) of every entry in a .list file."""
    for options, uri, _suite, components in re.findall(
        r"(?m)^deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+([^#\n]+)", text
    ):
        signed_by = re.search(r"signed-by=(\S+)", options)
        yield uri, components.split(), signed_by and signed_by[1].replace(",", " ")


def _complaint(command, cwd=None):
    """Run an apt-get command quietly; return its error message, None if it succeeded."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if not done.returncode:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line[3:] for line in lines if line.startswith("E: ")), lines[-1])
