"""The tool topics: at an MQTT broker, and at a board's Link over TCP and over a serial line."""

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import threading
import tty

from tools.bootstrap import ROOT
from tools.targets.child import free_port, running
from tools.targets.unix import micropython

_LIMIT = 60  # seconds that anything here may take

_BOARD = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Listen, Serial


async def main():
    broker = Broker()
    broker.publish("a/kept", {"t": 21.5}, retain=True)
    broker.publish("b", "no", retain=True)
    broker.subscribe_call("set/#", lambda topic, payload: print(topic, payload))
    async with Link(broker, CARRIER, ["a/#"], ["set/#"], secret=b"s3cret"):
        while True:
            await asyncio.sleep(1)


asyncio.run(main())
"""


def topics(*options):
    command = [sys.executable, "-m", "tools", "topics", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT)


def test_at_an_mqtt_broker(mosquitto, tmp_path):
    where = f"mqtt://127.0.0.1:{mosquitto.port}"
    done = topics(where, "--retain", "--publish", "a/1", "on", "--publish", "a/2", "7")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    topics(where, "--retain", "--publish", "b", "no")
    record = tmp_path / "record.jsonl"
    done = topics(where, "--filter", "a/#", "--seconds", "1", "--record", record)
    assert sorted(done.stdout.splitlines()) == ["a/1 on", "a/2 7"], done.stderr
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert sorted((m["topic"], m["payload"]) for m in lines) == [("a/1", "on"), ("a/2", "7")]
    done = topics(where, "--filter", "a/#/b")
    assert done.returncode == 2 and "--filter" in done.stderr and "a/#/b" in done.stderr


@contextlib.contextmanager
def board(carrier, **options):
    environment = {**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"}
    with running([micropython()], env=environment, **options) as process:
        process.stdin.write(_BOARD.replace("CARRIER", carrier).encode())
        process.stdin.close()
        yield process


def check(where, process, record):
    options = ["--secret", "s3cret", "--filter", "a/#", "--seconds", "1", "--record", record]
    done = topics(where, *options, "--publish", "set/led", "on")
    assert done.stdout == "a/kept {'t': 21.5}\n", done.stderr
    assert json.loads(record.read_text())["payload"] == {"t": 21.5}
    assert process.stdout.readline() == b"set/led b'on'\n"


def test_at_a_link_over_tcp(tmp_path):
    port = free_port()
    with board(f'Listen("127.0.0.1", {port})') as process:
        check(f"127.0.0.1:{port}", process, tmp_path / "record")


def test_at_a_link_over_a_serial_line(tmp_path):
    with line() as (near, far), board(f'Serial(open({far}, "r+b"), False)', pass_fds=[far]) as it:
        check(near, it, tmp_path / "record")


@contextlib.contextmanager
def line():
    """The two ends of a serial line: the name of a port, and a file descriptor."""
    (near_master, near), (far_master, far) = pty.openpty(), pty.openpty()
    stopped, stop = os.pipe()
    for slave in near, far:
        tty.setraw(slave)
    os.set_blocking(far, False)  # as a UART is; MicroPython cannot ask for it

    def pump():
        others = {near_master: far_master, far_master: near_master}
        while stopped not in (ready := select.select([*others, stopped], [], [])[0]):
            for fd in ready:
                os.write(others[fd], os.read(fd, 4096))

    thread = threading.Thread(target=pump)
    thread.start()
    try:
        yield os.ttyname(near), far
    finally:
        os.close(stop)
        thread.join()
        for fd in near_master, near, far_master, far, stopped:
            os.close(fd)


def test_no_connection_is_said_so():
    done = topics("mqtt://127.0.0.1:1", "--publish", "a", "b")
    assert done.returncode == 1 and "no connection to mqtt://127.0.0.1:1" in done.stderr
    done = topics("/dev/nonexistent", "--publish", "a", "b")
    assert done.returncode == 1 and "no connection to /dev/nonexistent" in done.stderr
