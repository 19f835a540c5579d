"""Fixtures for several test files: a broker, emulated boards."""

import re
import shutil

import pytest

from tools import Unavailable, targets
from tools.build import firmware
from tools.mosquitto import Mosquitto
from tools.targets.child import running
from tools.targets.qemu import NAMES


@pytest.fixture
def mosquitto(request):
    """Return a Mosquitto; parametrized indirectly, with these lines of configuration."""
    try:
        with Mosquitto(*getattr(request, "param", ())) as broker:
            yield broker
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def qemu():
    yield from started("qemu")


@pytest.fixture(scope="module", params=NAMES)
def chip(request):
    """Each of QEMU's chips; all but one with --target all or its own only."""
    if request.param != "qemu" and request.config.getoption("--target") not in (
        request.param,
        "all",
    ):
        pytest.skip(f"with --target {request.param} or all only")
    yield from started(request.param)


@pytest.fixture(scope="module")
def rp2():
    yield from started("rp2")


def started(name, **options):
    target = targets.get(name, **options)
    try:
        target.start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield target
    target.stop()


@pytest.fixture
def board():
    """Return the process of an emulated board with the firmware of ports/qemu, and its port."""
    qemu = shutil.which("qemu-system-arm")
    if not qemu:
        pytest.skip("there is no qemu-system-arm here; Debian has it in qemu-system-arm")
    try:
        image = firmware.build("qemu")
    except Unavailable as reason:
        pytest.skip(str(reason))
    command = [qemu, "-machine", "mps2-an385", "-kernel", image, "-display", "none"]
    command += ["-monitor", "none", "-serial", "pty", "-semihosting", "-icount", "shift=3"]
    with running(command) as process:
        said = process.stdout.readline().decode()
        yield process, re.search(r"/dev/\S+", said)[0]
