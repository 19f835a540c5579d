"""The order of a protocol's callbacks is CPython's: programs that run on both print the same."""

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import targets
from tools.targets.child import free_port

SCRIPT = (Path(__file__).parent / "protocol_script.py").read_text()


def exactly(s, n):
    """Return the next n bytes."""
    data = b""
    while len(data) < n:
        data += s.recv(n - len(data))
    return data


def received(s):
    """Return the data up to the end, or to a reset."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := s.recv(65536):
            data += more
    return data


# The peers, by the names of the programs: each plays the other end, and returns its result.


def exchange(s):
    hello = exactly(s, 5)
    s.sendall(b"world")
    s.shutdown(socket.SHUT_WR)
    return hello, received(s)


buffered = exchange


def half_closed_kept(s):
    s.sendall(b"bye")
    s.shutdown(socket.SHUT_WR)
    return received(s)


half_closed_false = half_closed_none = half_closed_kept

made_closes = received


def closed(s):
    s.sendall(b"data")
    return received(s)


aborted = closed


def data_raises(s):
    s.sendall(b"data")
    received(s)


get_buffer_raises = buffer_updated_raises = data_raises


def eof_raises(s):
    s.shutdown(socket.SHUT_WR)
    received(s)


lost_raises = eof_raises


def aborted_with_rest(s):
    s.sendall(b"data")
    time.sleep(0.1)
    received(s)


def closed_with_rest(s):
    s.sendall(b"data")
    time.sleep(0.1)
    return len(received(s))


water_marks = closed_with_rest


def paused(s):
    s.sendall(b"1")
    s.recv(1)
    s.sendall(b"2")
    s.shutdown(socket.SHUT_WR)
    received(s)


def reset(s):
    exactly(s, 5)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


limits = received


def ping(s):
    s.sendall(b"ping")
    pong = exactly(s, 4)
    s.shutdown(socket.SHUT_WR)
    return pong, received(s)


NAMES = (
    "aborted",
    "aborted_with_rest",
    "buffer_updated_raises",
    "buffered",
    "closed",
    "closed_with_rest",
    "data_raises",
    "eof_raises",
    "exchange",
    "get_buffer_raises",
    "half_closed_false",
    "half_closed_kept",
    "half_closed_none",
    "limits",
    "lost_raises",
    "made_closes",
    "paused",
    "reset",
    "water_marks",
)


@pytest.fixture(scope="module")
def unix():
    with targets.get("unix") as target:
        yield target


def on_ours(unix, source):
    result = unix.run(source, timeout=20)
    assert result.ok, result.err
    return result.out


def on_cpython(_, source):
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_client(name, run):
    """Return the program's output and its peer's result; the program connects to the peer."""
    said = []

    def peer():
        s, _ = listening.accept()
        with s:
            s.settimeout(10)
            said.append(globals()[name](s))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        thread = threading.Thread(target=peer)
        thread.start()
        try:
            out = run(f"{SCRIPT}\nrun({name!r}, {listening.getsockname()[1]})\n")
        finally:
            thread.join()
    return out, said


@pytest.mark.parametrize("name", NAMES)
def test_callbacks_come_in_the_same_order(name, unix):
    ours = as_client(name, lambda source: on_ours(unix, source))
    cpython = as_client(name, lambda source: on_cpython(unix, source))
    printed = []
    for out, said in ours, cpython:
        callbacks, _, written = out.partition("= ")
        printed.append(callbacks.splitlines())
        if written:  # how much that is differs
            assert said == [int(written)]
    assert printed[0] == printed[1]
    assert printed[0][0] == "made"
    if not written:
        assert ours[1] == cpython[1]


def as_server(run):
    port = free_port()
    said = []

    def peer():
        for _ in range(2):
            end = time.monotonic() + 10
            while True:
                try:
                    s = socket.create_connection(("127.0.0.1", port), 10)
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < end
                    time.sleep(0.01)
            with s:
                said.append(ping(s))

    thread = threading.Thread(target=peer)
    thread.start()
    try:
        return run(f"{SCRIPT}\nrun('serving', {port})\n"), said
    finally:
        thread.join()


def test_server_calls_in_the_same_order(unix):
    ours = as_server(lambda source: on_ours(unix, source))
    assert ours == as_server(lambda source: on_cpython(unix, source))
    assert ours[1] == [(b"ping", b"")] * 2
