"""A broker for the tests that need one."""

import pytest

from tools import Unavailable
from tools.mosquitto import Mosquitto


@pytest.fixture
def mosquitto():
    try:
        with Mosquitto() as broker:
            yield broker
    except Unavailable as reason:
        pytest.skip(str(reason))
