"""The programs of examples/ do what their first lines say: on the unix port, on this PC, and on an
emulated Raspberry Pi Pico, with real peers at the other end."""

import asyncio
import contextlib
import os
import pty
import re
import select
import socket
import sys
import threading
import time
import tty

from tools.bootstrap import ROOT
from tools.targets.child import free_port, running

EXAMPLES = ROOT / "examples"


def source(name, seconds=None, **constants):
    """Return the text of an example, with other values of these constants; it ends after so many
    seconds."""
    text = (EXAMPLES / name).read_text("utf-8")
    for constant, value in constants.items():
        text = replaced(
            text, next(re.finditer(f"^{constant} = .*$", text, re.M))[0], f"{constant} = {value!r}"
        )
    if seconds:
        run = "asyncio.run(main())\n"
        text = replaced(text, run, f"asyncio.run(asyncio.wait_for(main(), {seconds}))\n")
    return text


def replaced(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def ended(result):
    """Return the output of an example that was ended after some seconds."""
    assert result.err.rstrip().endswith("TimeoutError:"), result.err or "not finished in time"
    return result.out


@contextlib.contextmanager
def on_pc(name, *arguments):
    """Run an example on CPython."""
    command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-u", EXAMPLES / name, *arguments]
    with running(list(map(str, command))) as process:
        yield process


def sleeping(result):
    """Return the share of the time that the emulated chip was in light sleep."""
    changes = [(us, depth) for us, what, depth in result.events if what == "sleep"]
    ends = [us for us, _ in changes[1:]] + [result.us]
    slept = [end - us for (us, depth), end in zip(changes, ends, strict=True) if depth == 2]
    return sum(slept) / result.us


@contextlib.contextmanager
def serial_port(number):
    """Return the name of a serial port; its line ends at an emulated UART, once the TCP port
    with this number is there."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    over = threading.Event()

    def pump():
        while not over.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", number)) as far,
            ):
                while not over.is_set():
                    ready = select.select([master, far], [], [], 0.1)[0]
                    if far in ready:
                        os.write(master, far.recv(4096))
                    if master in ready:
                        far.sendall(os.read(master, 4096))
            time.sleep(0.02)

    thread = threading.Thread(target=pump)
    thread.start()
    try:
        yield os.ttyname(slave)
    finally:
        over.set()
        thread.join()
        os.close(master)
        os.close(slave)


# A sensor hub to MQTT


def test_sensor_hub_sleeps_and_its_values_reach_mqtt(rp2, mosquitto):
    port = free_port()
    stimuli = [
        {"uart": 1, "port": port},
        {"watch": "sleep"},
        {"pin": 14, "value": 0, "after_us": 0},
        {"pin": 14, "value": 1, "after_us": 500_000},  # the door opens
    ]

    async def main():
        async with mosquitto.client() as client:
            await client.subscribe("home/hub/+")
            await client.publish("home/set/every", b"0.5", retain=True)
            with (
                serial_port(port) as name,
                on_pc("gateway.py", name, "127.0.0.1", mosquitto.port) as gateway,
            ):
                assert await asyncio.to_thread(gateway.stdout.readline) == b"set/every b'0.5'\n"
                board = asyncio.to_thread(rp2.run, source("sensor_hub.py", 1.5), stimuli=stimuli)
                result = await board
            await client.publish("home/hub/end")
            got = []
            async for message in client.messages:
                if message.topic.value == "home/hub/end":
                    return result, got
                got.append((message.topic.value, message.payload))

    result, messages = asyncio.run(main())
    ended(result)
    doors = [payload for topic, payload in messages if topic == "home/hub/door"]
    assert doors == [b"closed", b"open", b"open"]  # at once, and after the time that MQTT has set
    assert len(messages) == 6 and float(dict(messages)["home/hub/temperature"])
    assert sleeping(result) > 0.3
