"""The package reaches a board by mip and by mpremote, whole, and works there."""

import contextlib
import functools
import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading

import pytest

from tests.host.conftest import started
from tools import targets
from tools.bootstrap import ROOT
from tools.build import mip_index
from tools.build.mpy import modules
from tools.targets.unix import micropython

PACKAGE = json.loads((ROOT / "package.json").read_text())
PARTS = [
    "datagram",
    "devices",
    "full",
    "future",
    "group",
    "hub",
    "idle",
    "irq",
    "link",
    "mqtt",
    "names",
    "polled",
    "protocol",
    "pubsub",
    "queues",
    "runner",
    "streams",
    "sync",
    "threads",
    "timeouts",
    "trace",
    "unix",
]

# Run where the package has been installed; prints where that is.
USE = """
import asyncio_alt
from asyncio_alt import core
from asyncio_alt.lazy import _NAMES

for line in _NAMES.split("\\n"):
    names = line.split()
    if names[0] in MISSING:
        continue
    for name in names[1:]:
        getattr(asyncio_alt, name)

if not MISSING:
    for line in asyncio_alt.pubsub._NAMES.split("\\n"):
        for name in line.split():
            getattr(asyncio_alt.pubsub, name)

order = []

async def wait(flag, priority):
    await flag.wait(priority)
    order.append("flag")

async def work():
    order.append("work")

async def main(priority):
    flag = asyncio_alt.ThreadSafeFlag()
    waiting = asyncio_alt.create_task(wait(flag, priority))
    await asyncio_alt.sleep_ms(0)
    working = asyncio_alt.create_task(work())
    flag.set()
    await asyncio_alt.gather(waiting, working)

asyncio_alt.run(main(False))
asyncio_alt.run(main(True))
assert order == ["work", "flag", "flag", "work"], order
print(core.__file__)
"""
BASE = f"MISSING = {PARTS}\n{USE}"
ALL = f"MISSING = []\n{USE}"


# The package's list


def packages():
    parts = sorted((ROOT / "asyncio_alt").glob("*.json"))
    assert [path.stem for path in parts] == PARTS
    files = [ROOT / "package.json", *parts]
    return [(path.parent, json.loads(path.read_text())) for path in files]


def test_every_module_is_in_a_package_and_nothing_else():
    names = sorted(str(path.relative_to(ROOT)) for path in modules(ROOT / "asyncio_alt"))
    listed = [
        (target, str((folder / url).relative_to(ROOT)))
        for folder, package in packages()
        for target, url in package["urls"]
    ]
    assert sorted(set(listed)) == [(name, name) for name in names]


def test_version_is_the_same_everywhere():
    assert {package["version"] for _, package in packages()} == {PACKAGE["version"]}
    pyproject = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGES.md").read_text(), re.M)
    assert PACKAGE["version"] == pyproject[1] == changes[1]


# On the unix port


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def served(folder):
    """Serve a folder by HTTP; yield its URL."""
    handler = functools.partial(Files, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def repository():
    """Return the URL of this repository."""
    with served(ROOT) as url:
        yield url


@pytest.fixture
def index(tmp_path):
    """Return the URL of an index that the tool mip-index has written."""
    folder = tmp_path / "index"
    command = [sys.executable, "-m", "tools", "mip-index", folder]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with served(folder) as url:
        yield url


@pytest.fixture
def install(tmp_path):
    """Return a function that lets mip install on the unix port and returns what USE prints."""
    lib = tmp_path / "lib"

    def install(*args, use=BASE):
        mip = [micropython(), "-m", "mip", "install", "--target", lib, *args]
        done = subprocess.run(mip, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert "Done" in done.stdout, done.stdout + done.stderr
        result = unix.run(use)
        assert result.ok, result.err
        return result.out.removeprefix(f"{lib}/")

    with targets.get("unix", path=[lib]) as unix:
        if not unix.run("import mip").ok:
            pytest.skip(f"{unix.binary} has no module mip")
        yield install


def test_mip_installs_the_sources(install, repository):
    assert install(f"{repository}/package.json") == "asyncio_alt/core.py\n"
    for part in PARTS[:-1]:
        install(f"{repository}/asyncio_alt/{part}.json")
    install(f"{repository}/asyncio_alt/{PARTS[-1]}.json", use=ALL)


def test_mip_installs_mpy_files_from_an_index(install, index):
    assert install("--index", index, "asyncio_alt") == "asyncio_alt/core.mpy\n"


def test_mip_installs_a_part_with_what_it_needs(install, index):
    for part in ("full", "idle", "irq", "mqtt"):
        install("--index", index, f"asyncio_alt-{part}")
    assert install("--index", index, "asyncio_alt-hub", use=ALL) == "asyncio_alt/core.mpy\n"


def test_mip_installs_a_version_from_an_index(install, index):
    name = f"asyncio_alt@{PACKAGE['version']}"
    assert install("--index", index, name) == "asyncio_alt/core.mpy\n"


def test_mip_installs_the_sources_from_an_index(install, index):
    assert install("--index", index, "--no-mpy", "asyncio_alt") == "asyncio_alt/core.py\n"


# On a Pico


@pytest.fixture(scope="module")
def pico():
    """Return a Pico whose flash has no package."""
    yield from started("rp2", stock=True)


@pytest.fixture
def mpremote(pico):
    """Return a function that runs mpremote on a board."""
    with pico.board() as board:

        def mpremote(*args):
            command = [sys.executable, "-m", "mpremote", "connect", board, *args]
            for _ in range(3):
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    env={**os.environ, "no_proxy": "127.0.0.1"},  # else a proxy is asked for it
                    timeout=300,
                )
                # mpremote gives the board a second to answer, which on a busy PC is too little.
                if "could not enter raw repl" not in done.stderr:
                    break
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        yield mpremote


def test_mpremote_installs_the_sources(mpremote, repository):
    mpremote("mip", "install", f"{repository}/package.json")
    assert mpremote("exec", BASE) == "/lib/asyncio_alt/core.py\n"


def test_mpremote_installs_mpy_files_from_an_index(mpremote, index):
    mpremote("mip", "install", "--index", index, "asyncio_alt")
    assert mpremote("exec", BASE) == "/lib/asyncio_alt/core.mpy\n"


# The index


def test_index_keeps_the_versions_that_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(mip_index, "ROOT", tmp_path)
    (tmp_path / "asyncio_alt").mkdir()
    sources = {"1.0": b"print(1)", "1.1": b"print(2)"}
    for version, source in sources.items():
        package = {"version": version, "urls": [["asyncio_alt/core.py"] * 2]}
        (tmp_path / "package.json").write_text(json.dumps(package))
        (tmp_path / "asyncio_alt" / "core.py").write_bytes(source)
        assert mip_index.write(tmp_path / "index") == (version, ["6", "py"])

    def installed(form, name):
        path = tmp_path / "index" / "package" / form / "asyncio_alt" / f"{name}.json"
        ((target, short),) = json.loads(path.read_text())["hashes"]
        content = (tmp_path / "index" / "file" / short[:2] / short).read_bytes()
        assert hashlib.sha256(content).hexdigest().startswith(short)
        return target, content

    for version, source in sources.items():
        assert installed("py", version) == ("asyncio_alt/core.py", source)
    for form in ("py", "6"):
        assert installed(form, "latest") == installed(form, "1.1") != installed(form, "1.0")
