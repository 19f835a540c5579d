"""Names are looked up while other tasks go on: at dnsmasq, and at a server that lies."""

import contextlib
import shutil
import socket
import subprocess
import threading
import time

import pytest

from tools.bootstrap import ROOT
from tools.targets.child import free_port, running
from tools.targets.unix import micropython

HEAD = """
import errno, os, socket, sys, time
import asyncio_alt as asyncio
from asyncio_alt import names

loop = asyncio.get_event_loop()

async def look(name, family=0):
    # Returns the addresses, or the errno of the failure.
    try:
        found = await loop.getaddrinfo(name, 80, family=family, type=socket.SOCK_STREAM)
    except OSError as er:
        return er.errno
    return [socket.inet_ntop(i[0], i[4][4:8] if i[0] == 2 else i[4][8:24]) for i in found]

def look4(name):
    return look(name, socket.AF_INET)
"""


def device(body, *servers, port=53, timeout=20):
    """Run body in a task of MicroPython that asks these servers; return its output."""
    known = f"asyncio.set_nameserver({servers!r}, {port})" if servers else ""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    script = f"{HEAD}\n{known}\nasync def main():\n{lines}\nasyncio.run(main())\n"
    done = subprocess.run(
        [micropython(), "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    assert not done.returncode, done.stderr
    return done.stdout


# dnsmasq


@pytest.fixture(scope="module")
def dnsmasq():
    command = shutil.which("dnsmasq", path="/usr/sbin")
    if not command:
        pytest.skip("there is no dnsmasq here; Debian has it in dnsmasq-base")
    port = free_port()
    command = [command, "--keep-in-foreground", "--no-resolv", "--no-hosts", "--bind-interfaces"]
    command += ["--listen-address=127.0.0.1", f"--port={port}", "--conf-file=/dev/null"]
    command += ["--pid-file=", "--user=", "--local-ttl=60", "--local=/test/"]
    command += ["--address=/four.test/192.0.2.7", "--address=/six.test/2001:db8::7"]
    command += ["--address=/peer.test/127.0.0.1"]
    command += ["--host-record=both.test,192.0.2.8,2001:db8::8"]
    command += ["--cname=first.test,second.test", "--cname=second.test,both.test"]
    command += [f"--host-record=many.test,192.0.2.{n}" for n in range(1, 100)]
    with running(command) as process:
        end = time.monotonic() + 10
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield port


def test_dnsmasq_is_understood(dnsmasq):
    out = device(
        """
print(await look("four.test"), await look("SIX.test"), await look("both.test."))
print(await look("first.test"), await look("both.test", socket.AF_INET6))
print(await look("none.test"), await look("six.test", socket.AF_INET), await look("x.invalid"))
many = await look4("many.test")
print(many if isinstance(many, int) else len(set(many)) > 5)
""",
        "127.0.0.1",
        port=dnsmasq,
    )
    four, both, none, many = out.splitlines()
    assert four == "['192.0.2.7'] ['2001:db8::7'] ['192.0.2.8', '2001:db8::8']"
    assert both == "['192.0.2.8', '2001:db8::8'] ['2001:db8::8']"
    assert none.startswith("-2 -2 -")
    assert many in ("True", "-4")


def test_connections_use_it(dnsmasq):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = f"""
_, w = await asyncio.open_connection("peer.test", {port})
await w.wait_closed()
t, _ = await asyncio.create_connection(asyncio.Protocol, "peer.test", {port})
t.close()
try:
    await asyncio.open_connection("none.test", {port})
except OSError as er:
    print(er.errno)
"""
        assert device(body, "127.0.0.1", port=dnsmasq) == "-2\n"


# A server of one's own


def wire(name):
    return b"".join(bytes((len(x),)) + x.encode() for x in name.split(".")) + b"\0"


def record(data, kind=1, owner=b"\xc0\x0c", ttl=60):
    return owner + bytes((0, kind, 0, 1)) + ttl.to_bytes(4, "big") + bytes((0, len(data))) + data


def reply(query, *records, flags=b"\x81\x80", ident=None, question=None):
    counts = bytes((0, 1, 0, len(records), 0, 0, 0, 0))
    head = (ident or query[:2]) + flags + counts
    return head + (question or query[12:]) + b"".join(records)


GOOD = record(b"\xc0\0\2\1")  # 192.0.2.1
BAD = record(b"\xc0\0\2\x66")


class Server(threading.Thread):
    """A name server; the first label of a name selects its answer. asked: (name, port, id)."""

    def __init__(self):
        super().__init__(daemon=True)
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind(("127.0.0.1", 0))
        self.other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port = self.s.getsockname()[1]
        self.asked = []
        self.kept = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.other.sendto(b"", ("127.0.0.1", self.port))
        self.join()
        self.s.close()
        self.other.close()

    def count(self, name):
        return [name for name, _, _ in self.asked].count(name)

    def run(self):
        while True:
            q, peer = self.s.recvfrom(600)
            if not q:
                return
            i, labels = 12, []
            while q[i]:
                labels.append(q[i + 1 : i + 1 + q[i]].decode())
                i += 1 + q[i]
            self.asked.append((".".join(labels), peer[1], q[:2]))
            answers = getattr(self, labels[0])(q, peer)
            for packet in [answers] if isinstance(answers, bytes) else answers or ():
                self.s.sendto(packet, peer)

    def plain(self, q, peer):
        return reply(q, GOOD)

    def upper(self, q, peer):
        return reply(q, GOOD, question=q[12:-4].upper() + q[-4:])

    def wrong(self, q, peer):
        self.other.sendto(reply(q, BAD), peer)
        self.other.sendto(b"", peer)
        yield reply(q, BAD, ident=bytes((q[0] ^ 1, q[1])))
        yield reply(q, BAD, question=wire("wrong.other") + q[-4:])
        yield reply(q, BAD, question=q[12:-3] + b"\x1c\0\1")
        yield reply(q, BAD, flags=b"\x01\x80")
        yield reply(q, record(b"\xc0\0\2\x66", owner=b"\xc0" + bytes((len(q),))))
        yield reply(q, BAD)[:-1]
        yield b"\xff" * 700
        yield b""
        yield q
        yield reply(q, GOOD)

    def late(self, q, peer):
        if self.kept:
            self.s.sendto(reply(self.kept[0], BAD), self.kept[1])
            yield reply(self.kept[0], BAD)
            yield reply(q, GOOD)
        else:
            self.kept = q, peer

    def twice(self, q, peer):
        return [reply(q, GOOD), reply(q, BAD)]

    def zero(self, q, peer):
        return reply(q, record(b"\xc0\0\2\1", ttl=0))

    def long(self, q, peer):
        return reply(q, flags=b"\x83\x80")

    def cut(self, q, peer):
        return reply(q, GOOD, GOOD, flags=b"\x83\x80")[:-3]

    def failing(self, q, peer):
        return reply(q, flags=b"\x81\x82")

    def missing(self, q, peer):
        return reply(q, flags=b"\x81\x83")

    def silent(self, q, peer):
        pass

    def alias(self, q, peer):
        return reply(q, record(wire("plain.test"), 5))

    def self(self, q, peer):
        return reply(q, record(wire("self.test" if q[17:18] == b"\5" else "self.again"), 5))

    def flood(self, q, peer):
        for _ in range(200):
            yield b"x" * 30
        yield reply(q, GOOD)


@pytest.fixture
def server():
    with Server() as server:
        yield server


def ask(server, body, *servers):
    return device(body, *(servers or ["127.0.0.1"]), port=server.port)


def test_lies_are_passed_over(server):
    out = ask(
        server,
        """
for name in ("wrong", "twice", "cut", "alias", "flood", "upper"):
    print(name, await look4(name + ".test"))
for name in ("long", "failing", "missing", "self"):
    print(name, await look4(name + ".test"))
""",
    )
    lines = dict(line.split(" ", 1) for line in out.splitlines())
    for name in ("wrong", "twice", "cut", "alias", "flood", "upper"):
        assert lines.pop(name) == "['192.0.2.1']", name
    assert lines == {"long": "-4", "failing": "-3", "missing": "-2", "self": "-2"}
    assert server.count("wrong.test") == 1 and server.count("failing.test") == 3
    assert len(server.asked) < 30


def test_each_try_has_an_id_and_a_port_of_its_own(server):
    ask(server, "for n in range(20):\n    await look4('zero.x%d.test' % n)")
    _, ports, idents = zip(*server.asked)
    assert len(ports) == 20 and len(set(ports)) > 17 and len(set(idents)) > 17


def test_others_go_on_while_it_is_silent_and_the_next_try_has_its_own_answer(server):
    out = ask(
        server,
        """
task = asyncio.create_task(look4("late.test"))
turns = 0
while not task.done():
    turns += 1
    await asyncio.sleep_ms(1)
print(turns > 100, await task)
""",
    )
    assert out == "True ['192.0.2.1']\n"
    assert server.count("late.test") == 2


def test_the_next_server_is_asked_at_once_when_one_cannot_be_reached(server):
    body = """
t = time.ticks_ms()
print(await look4("plain.test"), time.ticks_diff(time.ticks_ms(), t) < 900)
"""
    assert ask(server, body, "127.0.0.9", "127.0.0.1") == "['192.0.2.1'] True\n"


def test_those_who_ask_the_same_share_a_query(server):
    out = ask(
        server,
        """
print(await asyncio.gather(*[look4("plain.test") for _ in range(5)]))
print(await asyncio.gather(*[look4("missing.test") for _ in range(5)]))
print(await asyncio.gather(*[look4("failing.test") for _ in range(5)]))
print(await look4("plain.test"), await look4("missing.test"))
print(await asyncio.gather(*[look4("zero.test") for _ in range(5)]), await look4("zero.test"))
""",
    )
    assert out.count("'192.0.2.1'") == 12 and out.count("-2") == 6 and out.count("-3") == 5
    assert [server.count(n + ".test") for n in ("plain", "missing", "failing", "zero")] == [
        *(1, 1, 3, 2)
    ]


def test_a_cancelled_lookup_leaves_nothing_open_and_others_their_answer(server):
    out = ask(
        server,
        """
def files():
    return len([e for e in os.ilistdir("/proc/self/fd")])
await look4("plain.test")
before = files()
for _ in range(30):
    tasks = [asyncio.create_task(look4("silent.test")) for _ in range(3)]
    await asyncio.sleep_ms(0)
    await asyncio.sleep_ms(0)
    for task in tasks:
        task.cancel()
    try:
        await asyncio.wait_for_ms(look4("silent.test"), 3)
    except asyncio.TimeoutError:
        pass
    await asyncio.sleep_ms(1)
print(files() - before, len(names._asking), len(asyncio.core._io_queue.map))
first = asyncio.create_task(look4("late.test"))
await asyncio.sleep_ms(10)
second = asyncio.create_task(look4("late.test"))
await asyncio.sleep_ms(10)
first.cancel()
print(await second)
""",
    )
    assert out == "0 0 0\n['192.0.2.1']\n"
    assert server.count("late.test") == 2


def test_what_a_run_has_left_keeps_nobody_waiting(server):
    body = """
asyncio.create_task(look4("late.test"))
await asyncio.sleep_ms(20)
asyncio.new_event_loop()
return

async def again():
    print(await look4("late.test"))

asyncio.run(again())
"""
    lines = body.strip().splitlines()
    script = HEAD + f"asyncio.set_nameserver('127.0.0.1', {server.port})\nasync def main():\n"
    script += "\n".join("    " + line for line in lines[:4])
    script += "\nasyncio.run(main())\n" + "\n".join(lines[4:])
    done = subprocess.run([micropython(), "-c", script], cwd=ROOT, capture_output=True, timeout=20)
    assert done.stdout == b"['192.0.2.1']\n", done.stderr


def test_the_cache_is_bounded(server):
    out = ask(
        server,
        """
for n in range(40):
    await look4("plain.x%d.test" % n)
print(len(names._cache), await look4("plain.x39.test"))
asyncio.set_nameserver(None)
print(len(names._cache))
""",
    )
    assert out == "16 ['192.0.2.1']\n0\n"
    assert len(server.asked) == 40


def test_numeric_addresses_ask_nobody_and_load_nothing(server):
    out = ask(
        server,
        """
print(await look("192.0.2.9"), await look("2001:db8::9"), (await look("localhost"))[0])
for name in ("a..test", "b" * 64 + ".test", ""):
    try:
        await look(name)
    except ValueError as er:
        print("host" in str(er))
""",
    )
    assert out == "['192.0.2.9'] ['2001:db8::9'] 127.0.0.1\n" + "True\n" * 3
    assert server.asked == []
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        script = "import sys, asyncio_alt as asyncio\n"
        script += f"asyncio.run(asyncio.open_connection('127.0.0.1', {port}))\n"
        script += "print('asyncio_alt.names' in sys.modules)"
        done = subprocess.run([micropython(), "-c", script], cwd=ROOT, capture_output=True)
    assert done.stdout == b"False\n", done.stderr
