"""The package on CPython: what pip installs, and what it says of names that only boards have."""

import subprocess
import sys
import venv
import zipfile

import pytest

from tools.bootstrap import ROOT
from tools.build import wheel


def python(code, *options):
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    "statement",
    [
        "from asyncio_alt import ThreadSafeFlag",
        "from asyncio_alt import sleep_ms",
        "import asyncio_alt.core",
        "import asyncio_alt.event as event",
    ],
)
def test_what_only_boards_have_says_where_it_runs(statement):
    said = python(statement).stderr.splitlines()[-1]
    assert said.startswith("ImportError: asyncio_alt.") and "runs on MicroPython only" in said


def test_a_name_that_nothing_has_is_no_name():
    assert "cannot import name 'nothing'" in python("from asyncio_alt import nothing").stderr


def test_import_warns_of_nothing_and_leaves_asyncio_as_it_is():
    code = "import asyncio, asyncio_alt as a; a.pubsub.Link; print(a.run is asyncio.run)"
    done = python(code, "-W", "error")
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_wheel_is_small_has_its_types_and_its_command_runs(tmp_path):
    built, _ = wheel.build(tmp_path)
    assert built.stat().st_size < 250_000
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    for name in ("py.typed", "core.py", "core.pyi", "pubsub/link/link.pyi", "package.json"):
        assert f"asyncio_alt/{name}" in names
    assert {name.split("/")[0] for name in names} <= {
        "asyncio_alt",
        built.name.rpartition("-py3")[0] + ".dist-info",
    }
    venv.create(tmp_path / "venv", symlinks=True)
    own = tmp_path / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", own / "python", "install", "--no-index"]
    subprocess.run([*pip, "--quiet", "--no-cache-dir", built], check=True)
    done = subprocess.run([own / "asyncio-alt"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "topics" in done.stdout, done.stderr
    done = subprocess.run(
        [own / "asyncio-alt", "topics", "h:1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and "pip install 'asyncio_alt[command]'" in done.stderr
