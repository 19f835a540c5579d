"""The package on CPython: what pip installs, and what it says of names that only boards have."""

import ast
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asyncio_alt.pc import parts
from tests.host.test_readme import EXAMPLES
from tools import Unavailable, targets
from tools.bootstrap import ROOT
from tools.build import source, wheel
from tools.targets.child import free_port
from tools.targets.unix import micropython

PYRIGHT = "pyright", "1.1.414"  # of npm
LINKS = (ROOT / "docs" / "link.md").read_text("utf-8")


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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the wheel."""
    return wheel.build(tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Return the folder of an environment with the wheel and nothing else."""
    return environment(tmp_path_factory.mktemp("only") / "venv", built)


def environment(folder, built, python=sys.executable):
    """Make a virtual environment with the wheel and nothing else; return its folder."""
    subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install"]
    subprocess.run([*pip, "--quiet", "--no-index", "--no-cache-dir", built], check=True)
    return folder


def test_wheel_is_small_and_has_its_types(built):
    assert built.stat().st_size < 258_000
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
    for name in ("py.typed", "core.py", "core.pyi", "pubsub/link/link.pyi", "package.json"):
        assert f"asyncio_alt/{name}" in names
    assert {"asyncio_alt/pc/scripts/passes.py", "asyncio_alt/pc/page.html"} <= names
    assert {name.split("/")[0] for name in names} <= {
        "asyncio_alt",
        built.name.rpartition("-py3")[0] + ".dist-info",
    }


def test_sdist_makes_the_same_wheel(built, tmp_path):
    with tarfile.open(built.with_name(built.name.replace("-py3-none-any.whl", ".tar.gz"))) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(tmp_path)
    (source_tree,) = tmp_path.iterdir()
    again, _ = wheel.build(tmp_path, source_tree)
    with zipfile.ZipFile(built) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()


def test_command_says_what_it_needs_beside_the_wheel(installed, tmp_path):
    own = installed / "bin" / "asyncio-alt"

    def run(*args):
        return subprocess.run([own, *args], cwd=tmp_path, capture_output=True, text=True)

    assert run().returncode == 2 and "topics" in run().stdout
    assert run("--help").returncode == 0
    for args in ("topics", "h:1"), ("install",), ("doctor",), ("bench",), ("trace",), ("top", "x"):
        done = run(*args)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert "pip install 'asyncio_alt[command]' brings it" in done.stderr


def test_board_gets_the_files_of_the_wheel(installed, tmp_path):
    # What the command needs beside the wheel comes from the environment of the tests.
    packages = {"PYTHONPATH": sysconfig.get_path("purelib"), "MICROPYTHON": micropython()}
    done = subprocess.run(
        [installed / "bin" / "asyncio-alt", "install", tmp_path, "--parts", "full,link"],
        cwd=tmp_path,
        env={**os.environ, **packages},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "The check passed" in done.stdout, done.stderr
    there = {path.relative_to(tmp_path).with_suffix(".py") for path in tmp_path.rglob("*.mpy")}
    assert there == {Path(target) for target in parts.files(["full", "link"])}


PYTHONS = [f"3.{minor}" for minor in range(10, 15)]


@pytest.mark.parametrize("version", PYTHONS)
def test_wheel_works_on_each_python(version, built, tmp_path):
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if version == own else installed_python(version)
    if not python:
        pytest.skip(f"there is no Python {version} here")
    own = environment(tmp_path / "venv", built, python) / "bin" / "python"
    script = tmp_path / "example.py"
    script.write_text("import asyncio_alt.pubsub\n" + EXAMPLE)
    done = subprocess.run([own, "-W", "error", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("('sensor/hall', {'temperature': 21.5})\n", "")


def installed_python(version):
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = str(found[-1]) if found else shutil.which(f"python{version}")
    if python and subprocess.run([python, "-c", ""], capture_output=True).returncode:
        return None  # pyenv has a command for each version, even if that is off
    return python


# The example of docs/link.md, and its two ends as programs of their own.
EXAMPLE = re.search(r"^```python\n(.*?)^```", LINKS, re.DOTALL | re.MULTILINE)[1]


def one_end(name, *edits):
    """Return the example without the other end's link; edits: pairs of texts."""
    other = {"out": "back", "back": "out"}[name]
    lines = EXAMPLE.splitlines(keepends=True)
    (link,) = (
        node
        for node in ast.walk(ast.parse(EXAMPLE))
        if isinstance(node, ast.Assign) and node.targets[0].id == other
    )
    text = "".join(lines[: link.lineno - 1] + lines[link.end_lineno :])
    for old, new in (("async with out, back:", f"async with {name}:"), *edits):
        assert old in text, text
        text = text.replace(old, new)
    return text


def test_example_of_the_docs_runs_on_a_pc_and_on_micropython(installed):
    port = str(free_port())
    at_board = one_end(
        "out",
        ('async with pc.subscribe("sensor/+") as sub:', "if True:"),
        ("21.5}", "21.5}, retain=True"),
        ("print(await sub.get())", "await asyncio.sleep(1)"),
    )
    pc = one_end(
        "back", ("out.wait_connected", "back.wait_connected"), ("board.publish", "# board.publish")
    )
    with ThreadPoolExecutor(1) as pool, targets.get("unix") as unix:
        board = pool.submit(unix.run, at_board.replace("8767", port), 30)
        done = subprocess.run(
            [installed / "bin" / "python", "-c", pc.replace("8767", port)],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert board.result().ok, board.result().err
    assert (done.stdout, done.stderr) == ("('sensor/hall', {'temperature': 21.5})\n", "")


def test_import_of_pubsub_takes_a_small_part_of_that_of_asyncio(installed):
    # 5 ms where asyncio takes 40. The first run compiles.
    code = """
import time
times = [time.process_time()]
import asyncio
times.append(time.process_time())
import asyncio_alt.pubsub as p
p.Broker, p.Link, p.Tcp
times.append(time.process_time())
print((times[2] - times[1]) / (times[1] - times[0]))
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [installed / "bin" / "python", "-c", code]
    runs = [float(subprocess.check_output(command, env=environment)) for _ in range(6)]
    assert statistics.median(runs) < 0.35, runs


# What the examples need of MicroPython's own modules, the wheel does not have.
FOREIGN = '"machine"|"sleep_ms"'


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_find_the_wheel_and_no_fault_in_the_examples(checker, installed, tmp_path):
    for i, example in enumerate(EXAMPLES):
        (tmp_path / f"example{i}.py").write_text(example)
    python = installed / "bin" / "python"
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--config-file=", "--python-executable", python]
        command += ["--check-untyped-defs", "--cache-dir", tmp_path / "cache"]
        command += ["--disable-error-code=var-annotated"]
    else:
        if not shutil.which("npm"):
            pytest.skip("there is no npm here; Debian has it in nodejs and npm")
        npm = ["npm", "install", "--no-audit", "--no-fund", "@".join(PYRIGHT)]
        try:
            folder = source.fetched(*PYRIGHT, npm)
        except Unavailable as reason:
            pytest.skip(str(reason))
        index = folder / "node_modules" / "pyright" / "index.js"
        command = ["node", index, "--pythonpath", python]
    done = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if re.search(r"\berror: ", line)]
    assert done.returncode in (0, 1) and [e for e in errors if not re.search(FOREIGN, e)] == []
    (tmp_path / "wrong.py").write_text("import asyncio_alt\nasyncio_alt.ThreadSafeFlag().nothing")
    done = subprocess.run([*command, "wrong.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "nothing" in done.stdout, done.stdout
