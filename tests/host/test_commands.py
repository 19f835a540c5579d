"""The commands that README.md, docs/ and ports/ show work as they are written, in a copy of the
repository with an empty dist/.

Those that measure, build or test for minutes run with COMMANDS=all in the environment.
"""

import os
import re
import shutil
import signal
import sys
import time
import venv

import pytest

from tools import targets
from tools.bootstrap import ROOT, VENV
from tools.build.source import cache
from tools.targets.child import running

PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "ports").glob("*/*.md")]
_COMMAND = r"(?:python3 -m tools|asyncio-alt|mpremote|pip install)\b"

# What takes seconds, and so runs each time.
QUICK = (
    r'python3 -m tools($| (api|boards|mip-index|bench power "|size|top |topics|trace).*)'
    r"|asyncio-alt .*(unix|FOLDER)"
)
# What the tests of mip run, with a server in GitHub's place.
ELSEWHERE = r"mpremote mip install (--index|github:)"

SCRIPT = """\
import asyncio


async def main():
    for _ in range(20):
        await asyncio.sleep_ms(5)


asyncio.run(main())
"""
PROGRAM = f"""
import asyncio_alt, asyncio_alt.trace
asyncio_alt.install()
asyncio_alt.trace.start()
{SCRIPT}
"""
PORT = "/dev/ttyACM0"
# What is for the board that is connected by USB, and how its port is named to each.
CONNECTED = {
    "(install|doctor|bench)(?!.* unix| /dev| .*benchmarks)": f" {PORT}",
    "(trace|top)(?!.*--target)": f" --target {PORT}",
}
# Placeholders, and an example for each.
STATS = re.search(r"{'asleep_ms.*}", (ROOT / "docs" / "power.md").read_text("utf-8"))[0]
EXAMPLES = (
    ("{'asleep_ms': 59996, ...}", STATS),
    ("{...}", STATS),
    ("mip-index DIR", "mip-index index"),
    ("install FOLDER", "install benchmarks"),
)

# Commands with another exit code than 0: a list of the tools, a measurement that misses a limit.
ENDED = -signal.SIGINT  # the shell has it, too
ENDS = {"python3 -m tools": 2, "python3 -m tools bench pubsub": 1}


def commands():
    """Return the commands that the pages show, each once."""
    found = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        spans = re.findall(rf"`({_COMMAND} [^`]*)`", text)
        lines = re.findall(rf"^    ({_COMMAND}.*?)(?: +#.*)?$", text, re.MULTILINE)
        found |= dict.fromkeys(" ".join(command.split()) for command in lines + spans)
    return list(found)


COMMANDS = commands()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return the copy, and a function that runs a command in it as a shell does."""
    copy = tmp_path_factory.mktemp("commands") / "asyncio_alt"
    ignored = shutil.ignore_patterns(".venv", ".git", "dist", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
    (copy / ".venv").symlink_to(VENV)
    (copy / "script.py").write_text(SCRIPT)
    own = copy.parent / "venv"  # where pip may install to
    venv.create(own, symlinks=True, with_pip=True)
    paths = [own / "bin", VENV / "bin", os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(map(str, paths))}
    environment |= {"no_proxy": "127.0.0.1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment |= {"HOME": str(copy.parent), "XDG_CACHE_HOME": str(cache().parent)}
    environment.pop("COMMANDS", None)
    return copy, environment


@pytest.fixture
def board(place, request):
    """Return the port of an emulated board with the package, a main.py and a program that runs."""
    if request.config.getoption("--target") not in ("rp2", "all"):
        pytest.skip("with --target rp2 or all only")
    with request.getfixturevalue("rp2").board() as port:
        with targets.get(f"device={port}") as board:
            board.run(f"with open('main.py', 'w') as f: f.write({SCRIPT!r})")
            board.run(PROGRAM)
        yield port


def run(place, command, seconds):
    folder, environment = place
    with running(["sh", "-c", command], cwd=folder, env=environment) as process:
        if " topics " in command or " page " in command:  # goes on until Ctrl-C
            time.sleep(3)
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=seconds)
    return process.returncode, (out + err).decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_command_works_as_written(command, place, request):
    if re.match(ELSEWHERE, command):
        pytest.skip("test_mip.py runs it, with a server in GitHub's place")
    quick = re.fullmatch(QUICK, command)
    if not quick and os.environ.get("COMMANDS") != "all":
        pytest.skip("takes minutes: with COMMANDS=all in the environment only")
    for stands, example in EXAMPLES:
        command = command.replace(stands, example)
    command = command.replace("mpremote", f"mpremote connect {PORT}")
    for pattern, option in CONNECTED.items():
        command = re.sub(f"^(asyncio-alt {pattern}.*)$", rf"\1{option}", command)
    command = command.replace("asyncio-alt", f"{sys.executable} -m asyncio_alt.pc")
    if PORT in command:
        command = command.replace(PORT, request.getfixturevalue("board"))
    if "mqtt://HOST" in command:
        port = request.getfixturevalue("mosquitto").port
        command = command.replace("HOST", f"127.0.0.1:{port}")
    code, said = run(place, command, 120 if quick else 3600)
    assert code == ENDS.get(command, ENDED if re.search(" (topics|page) ", command) else 0), said


def test_commands_are_found():
    assert "python3 -m tools demo" in COMMANDS and "mpremote cp -r asyncio_alt :lib/" in COMMANDS
    assert len([command for command in COMMANDS if re.fullmatch(QUICK, command)]) >= 8
