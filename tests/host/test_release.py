"""A release is refused while files that describe the package disagree; else it is whole."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.host.test_package import PYTHONS
from tools import Unavailable
from tools.bootstrap import ROOT, version
from tools.build import release


@pytest.fixture
def tree(tmp_path):
    """Return a copy of the files that a release is made from."""
    for name in ("asyncio_alt", "tools/typings", "ports/as_asyncio"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    for name in ("pyproject.toml", "package.json", "manifest.py", "CHANGES.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_all_agrees():
    assert release.check() == []


@pytest.mark.parametrize("name", ["package.json", "asyncio_alt/idle.json", "CHANGES.md"])
def test_another_version_is_refused(tree, name):
    text = (tree / name).read_text().replace(version(), "9.8.7", 1)
    (tree / name).write_text(text)
    assert release.check(tree) == [f"{name} says 9.8.7, pyproject.toml says {version()}"]


def test_a_module_that_no_package_installs_is_refused(tree):
    (tree / "asyncio_alt" / "new.py").touch()
    (tree / "tools" / "typings" / "asyncio_alt" / "new.pyi").touch()
    assert release.check(tree) == [
        "asyncio_alt/new.py is there, but in no package: neither package.json nor "
        "asyncio_alt/*.json"
    ]


@pytest.mark.parametrize(
    "target, url, wrong",
    [
        ("gone", "gone", ["package.json lists asyncio_alt/gone.py, which is not there"]),
        (
            "idle",
            "idle",
            ["asyncio_alt/idle.py is in both package.json and asyncio_alt/idle.json"],
        ),
        (
            "old",
            "core",
            [
                "package.json installs asyncio_alt/core.py as asyncio_alt/old.py",
                "asyncio_alt/core.py is in both package.json and package.json",
            ],
        ),
    ],
)
def test_a_wrong_list_is_refused(tree, target, url, wrong):
    package = json.loads((tree / "package.json").read_text())
    package["urls"].append([f"asyncio_alt/{target}.py", f"asyncio_alt/{url}.py"])
    (tree / "package.json").write_text(json.dumps(package))
    assert release.check(tree) == wrong


def test_a_module_that_is_not_frozen_is_refused(tree):
    manifest = (tree / "manifest.py").read_text()
    (tree / "manifest.py").write_text(manifest.replace('!= "task.py"', 'not in "task.py lock.py"'))
    assert release.check(tree) == [
        "manifest.py with task_py=False, as_asyncio=False does not freeze asyncio_alt/lock.py, "
        "which asyncio_alt/ has"
    ]
    (tree / "manifest.py").write_text(manifest + 'module("more.py")\n')
    wrong = release.check(tree)
    assert len(wrong) == 3 and all(
        "freezes more.py, which asyncio_alt/ does not" in w for w in wrong
    )


def test_a_stub_that_disagrees_is_refused(tree):
    (tree / "tools" / "typings" / "asyncio_alt" / "lock.pyi").write_text("class Lock: ...\n")
    assert "asyncio_alt.lock.Lock.acquire is not in the stub" in release.check(tree)


def test_a_tag_has_to_be_the_version_and_released(tree):
    changes = tree / "CHANGES.md"
    text = re.sub(
        "^## .*", f"## {version()} (unreleased)", changes.read_text(), count=1, flags=re.M
    )
    changes.write_text(text)
    assert release.check_tag(None, tree) == []
    assert release.check_tag("v9.8.7", tree) == [
        f"the tag is v9.8.7, pyproject.toml says {version()}",
        "the tag is v9.8.7, CHANGES.md says (unreleased)",
    ]
    changes.write_text(text.replace("(unreleased)", "2026-12-01"))
    assert release.check_tag(f"v{version()}", tree) == []


def tool(folder, *options):
    command = [sys.executable, "-m", "tools", "release", "-o", folder, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_refused_release_builds_nothing(tmp_path):
    done = tool(tmp_path / "dist", "--no-firmware", "--tag", "v9.8.7")
    assert done.returncode == 2
    assert f"the tag is v9.8.7, pyproject.toml says {version()}" in done.stderr
    assert not (tmp_path / "dist").exists()


def test_files_have_their_checksums(tmp_path):
    folder = tmp_path / "dist"
    for _ in range(2):  # the second takes the place of the first
        done = tool(folder, "--no-firmware")
        assert done.returncode == 0, done.stderr
    checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, text=True)
    assert checked.returncode == 0
    sums = [line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert sorted([*sums, "SHA256SUMS"]) == sorted(files)
    assert {f"asyncio_alt-{version()}{kind}" for kind in ("-py3-none-any.whl", ".tar.gz")} <= {
        *sums
    }
    assert f"mip/package/6/asyncio_alt/{version()}.json" in sums


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "mine").touch()
    done = tool(tmp_path, "--no-firmware")
    assert done.returncode == 1 and "that are of no release" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.long
def test_firmware_is_part_of_it(tmp_path, capfd):
    try:
        release.build(tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))
    names = sorted(path.name for path in tmp_path.glob("*.uf2"))
    assert names == [
        f"asyncio_alt-{version()}-RPI_PICO{kind}.uf2"
        for kind in ("-as-asyncio", "", "2-not-run-as-asyncio", "2-not-run")
    ]
    assert all(path.read_bytes()[:4] == b"UF2\n" for path in tmp_path.glob("*.uf2"))


# The workflows


def test_workflows_run_what_is_run_here_and_pin_what_they_use():
    texts = [path.read_text() for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
    assert len(texts) == 2
    commands = re.findall(r"^ +- run: (.*)", "\n".join(texts), re.M)
    assert ".ci/run" in commands
    assert any(command.startswith("python3 -m tools release") for command in commands)
    used = re.findall(r"uses: (.*)", "\n".join(texts))
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", use) for use in used)


def test_wheel_is_checked_on_each_python_before_it_is_published():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert str(json.loads(re.search(r"python: (\[.*\])", workflow)[1])) == str(PYTHONS)
    needs = re.findall(r"^  (\w+):\n    needs: (\w+)", workflow, re.M)
    assert needs == [("wheel", "build"), ("publish", "wheel"), ("pypi", "publish")]
    # Only what goes to PyPI may ask for its token, and only there.
    before, pypi = workflow.split("\n  pypi:\n")
    assert "id-token" not in before and "id-token: write" in pypi and "password" not in workflow
