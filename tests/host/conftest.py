"""A broker for the tests that need one."""

import contextlib
import os
import shutil
import signal
import socket
import time

import aiomqtt
import pytest

from tools.targets.child import running

_LIMIT = 30  # seconds that the broker may take to start


class Mosquitto:
    def __init__(self, folder):
        self._command = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
        if not self._command:
            pytest.skip("there is no mosquitto here; Debian has it in mosquitto")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self._config = folder / "mosquitto.conf"
        self._config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self._stack = contextlib.ExitStack()

    def start(self):
        self._process = self._stack.enter_context(running([self._command, "-c", self._config]))
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise TimeoutError(self._process.stderr.read())

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def client(self, **options):
        return aiomqtt.Client("127.0.0.1", self.port, **options)


@pytest.fixture
def mosquitto(tmp_path):
    m = Mosquitto(tmp_path)
    with m._stack:
        m.start()
        yield m
