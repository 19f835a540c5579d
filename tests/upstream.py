"""Runs MicroPython's own asyncio tests, their text unchanged, with this package as `asyncio`.

A case is the path of one test in a MicroPython source: tests/extmod (one script), tests/net_hosted
(one script with sockets) or tests/multi_net (two programs that talk over TCP or TLS, started by
upstream's run-multitests.py). What a test must print is in the .exp file beside it; where there is
none, it is what CPython prints. The tests in tests/net_inet talk to the internet and are left out.
"""

import contextlib
import difflib
import functools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools import Problem, targets
from tools.build import firmware

_ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT = 30  # seconds for one test on a target of slowness 1, as in upstream's run-tests.py

# How the tests come to import this package when they import asyncio.
MODES = {
    "alias": "the package is in a folder `asyncio` on the module path (unix only)",
    "install": "asyncio_alt.install() runs ahead of the test",
    "none": "the firmware is built with the package in the place of asyncio",
    "stock": "stock asyncio runs, to prove the tests and this runner",
}


def discover(src: Path) -> list[Path]:
    """Return the cases in a MicroPython source."""
    folders = ("extmod", "net_hosted", "multi_net")
    return [p for f in folders for p in sorted((src / "tests" / f).glob("asyncio_*.py"))]


def case_id(case: Path) -> str:
    """Return the short name of a case, such as extmod/asyncio_basic."""
    return f"{case.parent.name}/{case.stem}"


@contextlib.contextmanager
def started(name: str, mode: str, task_py: bool = False, src: str | None = None):
    """Start the target `name` for `mode`, and make sure that asyncio is the package meant there.

    task_py: without the C module _asyncio
    src: the MicroPython source that firmware is built from, as for tools.source.tree
    """
    if mode == "alias" and name != "unix":
        raise Problem(f"mode alias needs the target unix, not {name}")
    build = {
        "micropython_src": src,
        "as_asyncio": mode == "none",
        "stock": mode == "stock",
        "c_tasks": not task_py,
    }
    with tempfile.TemporaryDirectory() as alias:
        if name == "unix":
            Path(alias, "asyncio").symlink_to(_ROOT / "asyncio_alt")
            build = {
                "binary": firmware.build("unix", **build) if mode == "none" else None,
                "path": {"alias": [alias], "install": [_ROOT]}.get(mode, []),
            }
        with targets.get(name, **build) as target:
            probe = "import asyncio\nprint(hasattr(asyncio, 'roundrobin'))\n"
            result = target.run(_preamble(mode, task_py) + probe)
            if not result.ok:
                raise Problem(f"asyncio does not import on {name} in mode {mode}:\n{result.err}")
            if result.out.strip() != str(mode != "stock"):
                package = "the stock package" if mode == "stock" else "asyncio_alt"
                raise Problem(f"asyncio is not {package} on {name} in mode {mode}")
            yield target


def run_case(case: Path, target: targets.Target, mode: str, task_py: bool = False):
    """Run one case on a started target; return its status, "pass", "fail" or "skip", and why.

    Some cases allow a busy PC no more than 50 ms of delay: what fails is tried again, twice.
    """
    for retried in ("", "when tried again", "when tried a third time"):
        status, why = _try_case(case, target, mode, task_py)
        if status != "fail":
            return status, why or retried
    return status, why


def _try_case(case, target, mode, task_py):
    folder = case.parent.name
    if folder == "multi_net" and target.name != "unix":
        return "skip", "needs two instances that reach each other"
    if folder == "net_hosted" and "sockets" not in target.features:
        return "skip", "needs sockets"
    if folder != "extmod":
        for port in _ports(case):
            if not _comes_free(port):
                return "skip", f"TCP port {port} is in use on this machine"
    preamble = _preamble(mode, task_py)
    run = _run_two if folder == "multi_net" else _run_one
    return run(case, target, preamble)


def _preamble(mode, task_py):
    """Return what goes ahead of the test's text."""
    hide = targets.HIDE_C_TASKS if task_py else ""
    return hide + ("import asyncio_alt\nasyncio_alt.install()\n" if mode == "install" else "")


def _run_one(case, target, preamble):
    expected = _expected(case)
    if expected is None:
        return "skip", "it has no .exp file, and this CPython does not run it to its end"
    result = target.run(preamble + case.read_text(), _TIMEOUT * target.slowness)
    out = result.out.replace("\r\n", "\n")
    if out == "SKIP\n":
        return "skip", f"it does not apply to {target.name}"
    if out == expected and result.ok and not result.err:
        return "pass", ""
    lines = [text.splitlines() for text in (expected, out)]
    diff = difflib.unified_diff(*lines, "expected", "printed", lineterm="")
    late = ["timed out"] if result.timed_out else []
    return "fail", "\n".join([*diff, *late, *result.err.splitlines()])


def _run_two(case, target, preamble):
    """Run a two-program case with upstream's own runner."""
    runner = case.parents[1] / "run-multitests.py"
    with tempfile.TemporaryDirectory() as scratch:
        # The runner starts a program in the folder of the case, with -c and the test's text.
        instance = Path(scratch, "instance")
        path = ":".join([*target.path, ".frozen"])
        binary = os.path.abspath(shutil.which(target.binary))
        command = shlex.join([binary, *target.args])
        instance.write_text(
            f"#!/bin/sh\nMICROPYPATH={shlex.quote(path)} "
            f'exec {command} "$1" {shlex.quote(preamble)}"$2"\n'
        )
        instance.chmod(0o755)
        text = runner.read_text()
        named = re.search(r'"(-[a-z])",\s*"--(test-)?instance"', text)  # -i, in newer trees -t
        option = named[1] if named else "-t"
        command = [sys.executable, runner, *[option, f"exec:{instance}"] * 2]
        if "--result-dir" in text:  # from 1.26
            command += ["--result-dir", scratch]
        done = subprocess.run([*command, case], capture_output=True, text=True)
    if done.returncode:
        return "fail", done.stdout + done.stderr
    if re.search(r": skip$", done.stdout, re.MULTILINE):
        return "skip", "it does not apply to this build"
    return "pass", ""


@functools.cache
def _expected(case):
    """Return what a case must print, None if that cannot be known."""
    exp = Path(f"{case}.exp")
    if exp.is_file():
        return exp.read_text()
    command = [sys.executable, "-BS", case]
    done = subprocess.run(command, cwd=case.parent, capture_output=True, text=True)
    return None if done.returncode else done.stdout


def _ports(case):
    """Return the TCP ports that a case listens on."""
    return {int(port) for port in re.findall(r"\b80\d\d\b", case.read_text())}


def _comes_free(port):
    """Wait for somebody else's listening socket on a port to go; return whether it did."""
    for _ in range(20):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
                return True
            except OSError:
                time.sleep(1)
    return False
