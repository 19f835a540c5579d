"""Let an echo server on the unix port serve clients that behave badly, and check its memory.

The clients connect and go, stall, close half, reset, or fall silent. Each time that the server has
no connection left it prints the allocated bytes: these must not grow.
"""

import contextlib
import json
import random
import socket
import statistics
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asyncio_alt.pc import arguments
from tools import Problem, targets
from tools.targets.child import free_port

_SCRIPT = Path(__file__).with_name("scripts") / "soak.py"
_IDLE_MS = 1000  # after that the server aborts
_ROUNDS = 8  # of clients, at least
_GROWTH = 1000  # bytes: less than a leak of one object a connection


def add_arguments(parser):
    parser.add_argument(
        "--seconds",
        type=arguments.real(0, arguments.DAY),
        default=20,
        metavar="N",
        help="(default: 20)",
    )


def main(args):
    report = soak(args.seconds)
    print(json.dumps(report, indent=1))
    if wrong := missed(report):
        raise Problem("more than there may be: " + ", ".join(wrong))
    return 0


def missed(report):
    """Return the names of the counts that are over their limit."""
    none = ("wrong", "lost twice", "reported", "streams left", "tasks left", "descriptors left")
    return [key for key in none if report[key]] + ["growth"] * (report["growth"] > _GROWTH)


def soak(seconds):
    """Return the server's counts, "growth" (bytes), and "wrong": errors that clients found."""
    port = free_port()
    call = f"measure('asyncio_alt', port={port}, idle_ms={_IDLE_MS})"
    script = f"{_SCRIPT.read_text()}\nimport json\nprint(json.dumps({call}))\n"
    with targets.get("unix") as unix, ThreadPoolExecutor(9) as pool:
        server = pool.submit(unix.run, script, seconds + 120)
        end = time.monotonic() + seconds
        wrong = []
        some = random.Random(1)
        rounds = 0
        while (time.monotonic() < end or rounds < _ROUNDS) and not server.done():
            # In rounds, so that there are moments without a connection.
            rounds += 1
            clients = [some.choice(_CLIENTS) for _ in range(8)]
            running = [pool.submit(c, port, some.randrange(1, 300000)) for c in clients]
            for client, it in zip(clients, running, strict=True):
                try:
                    it.result()
                except (AssertionError, OSError) as error:
                    wrong.append(f"{client.__name__}: {error!r}")
            time.sleep(0.05)
        with contextlib.suppress(OSError), _connect(port) as s:
            s.sendall(b"stop")
        result = server.result()
    if not result.ok:
        raise Problem(f"the server ended: {result.err or 'not in time'}")
    *allocated, report = map(json.loads, result.out.splitlines())
    quarter = len(allocated) // 4
    first, last = allocated[quarter : 2 * quarter], allocated[-quarter:]
    report["samples"] = len(allocated)
    report["growth"] = statistics.median(last) - statistics.median(first)
    report["wrong"] = wrong
    return report


# The clients. Each gets a number that varies its behaviour.


def _connect(port):
    end = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 20)
        except ConnectionRefusedError:  # it does not listen yet
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _received(s, n):
    data = b""
    while len(data) < n and (more := s.recv(65536)):
        data += more
    return data


def goes(port, n):
    _connect(port).close()


def talks(port, n):
    with _connect(port) as s:
        for i in range(20):
            data = b"%d " % i * (n % 500 + 1)
            s.sendall(data)
            assert _received(s, len(data)) == data


def closes_half(port, n):
    # Sends all, and reads it back afterwards.
    data = bytes(range(256)) * (n // 256 + 1)
    with _connect(port) as s:
        sender = threading.Thread(target=s.sendall, args=(data,))
        sender.start()
        got = _received(s, len(data))
        sender.join()
        s.shutdown(socket.SHUT_WR)
        assert got == data and s.recv(1) == b""


def stalls(port, n):
    # Takes nothing until the server is held up, then all.
    data = bytes(range(256)) * 1000
    with _connect(port) as s:
        s.settimeout(0.05)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 100 * len(data):
                sent += s.send(data[sent % len(data) :])
        s.settimeout(20)
        assert _received(s, sent) == (data * (sent // len(data) + 1))[:sent]


def vanishes(port, n):
    # With data on both ways.
    with _connect(port) as s:
        s.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            for _ in range(n % 20 + 1):
                s.send(bytes(n))


def resets(port, n):
    with _connect(port) as s:
        s.sendall(bytes(n % 1000 + 1))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def falls_silent(port, n):
    # Until the server aborts.
    with _connect(port) as s:
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(1) == b""


_CLIENTS = [goes, talks, talks, closes_half, stalls, vanishes, resets, falls_silent]
