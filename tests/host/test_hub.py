"""A Hub on CPython, with boards that are processes of MicroPython."""

import asyncio
import os
import subprocess

from asyncio_alt.pubsub import Broker, Listen
from asyncio_alt.pubsub.link.hub import Hub
from tools.bootstrap import ROOT
from tools.targets.child import free_port
from tools.targets.unix import micropython

BOARDS = 16
MESSAGES = 1000

# A board waits for the start, says hello to the others and sends its messages.
BOARD = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub import Broker, Link, Tcp

async def main():
    broker = Broker()
    heard = []
    broker.subscribe_call("hello/+", lambda topic, payload: heard.append(payload))
    sub = broker.subscribe("start")
    end = broker.subscribe("end")
    carrier = Tcp("127.0.0.1", {port})
    link = Link(broker, carrier, ["from/#", "hello/{name}"], ["hello/#", "start", "end"],
                secret=b"secret of {name}", name="{name}")
    link.BACKOFF = 0.05, 0.2
    async with link:
        await sub.get()
        for i in range({messages}):
            await broker.publish_wait("from/{name}", i)
        await link.drain()
        await broker.publish_wait("hello/{name}", "{name}")
        await link.drain()
        await end.get()
    print(len(set(heard)), heard.count("{name}"))

asyncio.run(main())
"""


class Board:
    def __init__(self, folder, port, name):
        self.process = subprocess.Popen(
            [micropython(), "-c", BOARD.format(port=port, name=name, messages=MESSAGES)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"},
        )

    def heard(self):
        out, err = self.process.communicate(timeout=20)
        assert not self.process.returncode, err
        return [int(n) for n in out.split()]


async def until(condition, what):
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(what())


def test_all_messages_of_sixteen_boards_come_once_though_one_is_killed(tmp_path):
    async def main():
        port = free_port()
        names = [f"b{i}" for i in range(BOARDS)]
        broker = Broker()
        got = {name: [] for name in names}
        broker.subscribe_call("from/+", lambda topic, i: got[topic[5:]].append(i))
        secrets = {name: b"secret of " + name.encode() for name in names}
        hub = Hub(broker, Listen("127.0.0.1", port), secrets, ["hello/#", "start", "end"], ["#"])
        async with hub:
            boards = {name: Board(tmp_path, port, name) for name in names}

            def online():
                return sum(payload is True for _, payload in broker.retained("$peer/+/online"))

            await until(lambda: online() == BOARDS, lambda: hub.peers)
            broker.publish("start", 1, retain=True)
            killed = names[3]
            await until(lambda: len(got[killed]) > 100, lambda: got[killed])
            boards[killed].process.kill()
            boards[killed].process.wait()
            before = list(got[killed])
            await until(lambda: online() == BOARDS - 1, lambda: hub.peers)
            got[killed].clear()
            boards[killed] = Board(tmp_path, port, killed)
            await until(lambda: all(len(it) == MESSAGES for it in got.values()), lambda: got)
            broker.publish("end", 1, retain=True)
            heard = [await asyncio.to_thread(board.heard) for board in boards.values()]
        assert all(it == list(range(MESSAGES)) for it in got.values())
        assert before == list(range(len(before))) and 100 < len(before) <= MESSAGES
        assert hub.peers[killed].received >= MESSAGES + len(before)
        # The boards have heard of each other, and of themselves once.
        assert all(others > 1 and own == 1 for others, own in heard), heard
        assert not hub.refused

    asyncio.run(main())
