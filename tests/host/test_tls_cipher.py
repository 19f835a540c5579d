"""MicroPython's SSL sockets do not tell when a handshake that does not block is done."""

import socket
import subprocess

import pytest

from tools import targets
from tools.targets.unix import micropython

ASKS = """
import socket, ssl
s = socket.socket()
s.connect(socket.getaddrinfo("127.0.0.1", {port})[0][-1])
s.setblocking(False)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
s = context.wrap_socket(s, server_hostname="localhost", do_handshake_on_connect=False)
s.setblocking(False)
print("asks")
print(s.cipher())
"""


def test_cipher_of_a_socket_in_the_handshake_ends_the_interpreter():
    """If this fails, cipher() may be what tls.Handshakes and create_server() wait for."""
    with targets.get("unix") as unix:
        if "ssl" not in unix.features:
            pytest.skip("this MicroPython has no ssl")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = ASKS.format(port=listener.getsockname()[1])
        done = subprocess.run([micropython(), "-c", script], capture_output=True, text=True)
    assert done.stdout == "asks\n" and done.returncode < 0, done
