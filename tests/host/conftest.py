"""Fixtures for several test files: a broker, emulated boards."""

import pytest

from tools import Unavailable, targets
from tools.mosquitto import Mosquitto


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
