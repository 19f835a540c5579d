"""A Mosquitto of one's own, for tests and measurements."""

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path

import aiomqtt

from tools import Problem, Unavailable
from tools.targets.child import free_port, running

_LIMIT = 30  # seconds that it may take to start


class Mosquitto:
    """An MQTT broker at `port` of this machine, which is a free one, as a context manager.

    settings: lines of its configuration
    """

    def __init__(self, *settings):
        self._command = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
        if not self._command:
            raise Unavailable("there is no mosquitto here; Debian has it in mosquitto")
        self.port = free_port()
        self._settings = settings
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self._stack.close()

    def start(self):
        """Start it again, after kill()."""
        command = [self._command, "-p", str(self.port)]
        if self._settings:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory())
            lines = f"listener {self.port} 127.0.0.1", "allow_anonymous true", *self._settings
            Path(folder, "conf").write_text("\n".join(lines))
            command = [self._command, "-c", f"{folder}/conf"]
        self._process = self._stack.enter_context(running(command))
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        self._stack.close()
        raise Problem(f"mosquitto does not start on port {self.port}")

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def client(self, **options):
        """Return a client of it, not yet connected; options are aiomqtt.Client's."""
        return aiomqtt.Client("127.0.0.1", self.port, **options)
