"""The whole repository is formatted and linted by ruff, as pyproject.toml says."""

import subprocess
import sys

import pytest

from tools.bootstrap import ROOT


@pytest.mark.parametrize("command", ["check", "format --check --diff"])
def test_ruff(command):
    ruff = [sys.executable, "-m", "ruff", *command.split(), "--quiet", "."]
    done = subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
