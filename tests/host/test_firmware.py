"""Firmware: the frozen modules, that it builds, and that it boots with asyncio_alt in it."""

import argparse
import importlib.util
import re
import shutil
from pathlib import Path

import pytest

from tools import Unavailable, targets
from tools.bootstrap import ROOT
from tools.build import firmware, mpy, ports, source
from tools.targets.unix import Unix

PORTS = ("unix", "qemu", "rp2", "stm32", "esp32")
TASK = "task.py"  # not frozen where tasks are in C

# The ports' manifests take these from micropython-lib, which Debian's source lacks.
LIBRARIES = """aioespnow bundle-networking dht ds18x20 mip-cmdline neopixel onewire ssl
umqtt.robust umqtt.simple upysh""".split()

SLEEP = """
async def main():
    await {0}.sleep_ms(1)
    print({0}.current_task() is not None)

import {0}
{0}.run(main())
"""


@pytest.fixture(scope="module")
def micropython():
    try:
        return source.tree()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def frozen(micropython, tmp_path):
    """Return a function that lists a manifest's frozen modules, as pairs of module and file."""
    tool = micropython / "tools" / "manifestfile.py"
    spec = importlib.util.spec_from_file_location("manifestfile", tool)
    manifestfile = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(manifestfile)
    for library in LIBRARIES:
        (tmp_path / "micropython" / library).mkdir(parents=True)
        (tmp_path / "micropython" / library / "manifest.py").touch()

    def files(manifest, port="rp2", **options):
        variables = {
            "MPY_DIR": str(micropython),
            "MPY_LIB_DIR": str(tmp_path),
            "PORT_DIR": str(micropython / "ports" / port),
        }
        evaluated = manifestfile.ManifestFile(manifestfile.MODE_FREEZE, variables)
        evaluated.include(str(manifest), **options)
        return [(file.target_path, Path(file.full_path)) for file in evaluated.files()]

    return files


@pytest.fixture
def build(capfd):
    """Return firmware.build, which skips the test if something that it needs is missing."""

    def build(port, **options):
        try:
            return firmware.build(port, **options)
        except Unavailable as reason:
            pytest.skip(str(reason))

    return build


@pytest.fixture
def start(capfd):
    """Return a function that starts a target with its own firmware."""
    started = []

    def start(name, **options):
        target = targets.get(name, **options)
        try:
            target.start()
        except Unavailable as reason:
            pytest.skip(str(reason))
        started.append(target)
        return target

    yield start
    for target in started:
        target.stop()


# Frozen modules


def modules():
    return {str(path.relative_to(ROOT / "asyncio_alt")) for path in package_files()}


def package_files():
    return mpy.modules(ROOT / "asyncio_alt")


def test_manifest_lists_every_module_and_nothing_else(frozen):
    expected = {f"asyncio_alt/{module}" for module in modules() - {TASK}}
    assert {name for name, _ in frozen(ROOT / "manifest.py")} == expected


def test_task_py_is_an_option(frozen):
    with_task = {name for name, _ in frozen(ROOT / "manifest.py", task_py=True)}
    assert with_task == {f"asyncio_alt/{module}" for module in modules()}


def test_as_asyncio_freezes_the_same_files_under_the_name_asyncio(frozen):
    files = dict(frozen(ROOT / "manifest.py", as_asyncio=True, task_py=True))
    assert set(files) == {f"asyncio/{module}" for module in modules()} | {"uasyncio.py"}
    del files["uasyncio.py"]
    assert {path.resolve() for path in files.values()} == set(package_files())


@pytest.mark.parametrize("kind", ["beside", "as_asyncio", "stock"])
@pytest.mark.parametrize("port", PORTS)
def test_a_port_freezes_each_module_once(frozen, port, kind):
    options = {} if kind == "beside" else {kind: True}
    names = [name for name, _ in frozen(ROOT / "ports" / port / "manifest.py", port, **options)]
    assert len(names) == len(set(names))
    assert "asyncio/core.py" in names
    assert ("asyncio_alt/core.py" in names) == (kind == "beside")


# Builds


def test_unix_boots_with_both_packages(build):
    binary = build("unix")
    with Unix(binary, path=[]) as unix:
        for package in ("asyncio", "asyncio_alt"):
            result = unix.run(SLEEP.format(package))
            assert result.out == "True\n", result.err


@pytest.mark.parametrize("name", ["qemu", "rp2"])
def test_board_boots_with_both_packages(start, name):
    target = start(name)
    for package in ("asyncio", "asyncio_alt"):
        result = target.run(SLEEP.format(package))
        assert result.out == "True\n", result.err


@pytest.mark.parametrize("name", ["qemu", "rp2"])
def test_as_asyncio_is_what_asyncio_and_uasyncio_are(start, name):
    target = start(name, as_asyncio=True)
    result = target.run(SLEEP.format("uasyncio") + "import asyncio\nprint(asyncio.roundrobin)\n")
    assert result.ok, result.err
    assert not target.run("import asyncio_alt").ok


def test_without_c_tasks_both_packages_have_tasks_in_python(start):
    qemu = start("qemu", c_tasks=False)
    assert "c-tasks" not in qemu.features
    assert not qemu.run("import _asyncio").ok
    for package in ("asyncio", "asyncio_alt"):
        result = qemu.run(SLEEP.format(package))
        assert result.out == "True\n", result.err


def test_heap_is_as_large_as_asked_for(start):
    result = start("qemu", heap=65536).run("import gc\nprint(gc.mem_free() + gc.mem_alloc())")
    assert 62000 < int(result.out) <= 65536


def test_nothing_is_rebuilt_when_nothing_has_changed(build):
    first = build("qemu").stat()
    assert build("qemu").stat() == first


def test_an_edited_a_new_and_a_removed_module_are_noticed(start, pytestconfig, monkeypatch):
    # In the same place each time, so that the C code is compiled the first time only.
    root = pytestconfig.cache.mkdir("edited")
    for name in ("asyncio_alt", "ports"):
        shutil.rmtree(root / name, ignore_errors=True)
        shutil.copytree(ROOT / name, root / name, symlinks=True)
    shutil.copy(ROOT / "manifest.py", root)
    monkeypatch.setattr(firmware, "ROOT", root)
    module = root / "asyncio_alt" / "_new.py"

    def run():
        # With a heap of a size of its own, so that other builds are left as they are.
        qemu = start("qemu", heap=128000)
        return qemu.run("import asyncio_alt._new\nprint(asyncio_alt._new.x)")

    for value in ("1", "2"):
        module.write_text(f"x = {value}\n")
        assert run().out == f"{value}\n"
    module.unlink()
    assert "ImportError" in run().err


@pytest.mark.long
def test_firmware_for_the_pico_2_is_arms_and_for_its_chip(build):
    built = build("rp2350")
    image = built.with_suffix(".uf2").read_bytes()
    assert image[:4] == b"UF2\n" and image[28:32] == 0xE48BFF59.to_bytes(4, "little")
    assert b"Raspberry Pi Pico2" in built.read_bytes()


def test_table_of_ports_has_every_kind_of_firmware(capsys):
    parser = argparse.ArgumentParser()
    ports.add_arguments(parser)
    try:
        assert ports.main(parser.parse_args(["--kind", "qemu"])) == 0
    except Unavailable as reason:
        pytest.skip(str(reason))
    head, _, row = capsys.readouterr().out.splitlines()
    assert row == "| `qemu` | starts, machine code |"
    page = (ROOT / "docs" / "porting.md").read_text()
    assert head.removeprefix("|").split("|")[1] in page
    assert re.findall(r"^\| `([^`]+)` \|", page, re.M)[-len(firmware.KINDS) :] == [*firmware.KINDS]


def test_a_path_that_is_no_source_is_said_so():
    with pytest.raises(firmware.Problem, match="is not a MicroPython source"):
        firmware.build("qemu", micropython_src="/")
