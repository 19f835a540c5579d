"""The type stubs agree with the package, and serve a type checker."""

import os
import re
import shutil
import subprocess
import sys
import venv

import pytest

from tests.host.test_readme import EXAMPLES
from tools import Unavailable
from tools.bootstrap import ROOT
from tools.build import source, stubs, wheel
from tools.build.mpy import CPYTHON

MICROPYTHON = {"unix": "1.29.0.post1", "rp2": "1.29.0.post1"}  # its stubs, of PyPI
STDLIB = "1.29.0.post2"  # both require it

DYNAMIC = set(
    """arg-type assignment attr-defined index method-assign misc name-defined no-redef operator
    truthy-function union-attr var-annotated""".split()
)

# Features that stock lacks, used right and wrong; a comment names the error that mypy must find.
RIGHT = """
import asyncio_alt as asyncio
from asyncio_alt.pubsub.link.shm import SharedLink


class Counter(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buf = bytearray(8)
        self.n = 0

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buf

    def buffer_updated(self, nbytes: int) -> None:
        self.n += nbytes


async def number() -> int:
    return 1


async def main() -> None:
    flag = asyncio.ThreadSafeFlag()
    await asyncio.wait_for_ms(flag.wait(priority=True), 10)
    reader = asyncio.StreamReader(None, priority=True)
    reader.write(b"", copy=False)
    line: bytes = await asyncio.wait_for(reader.readline(), 1.5)
    task = asyncio.create_task(number())
    n: int = await task + await asyncio.wait_for(task, None)
    interrupt = asyncio.Interrupt(keep=False)
    async with interrupt:
        n += interrupt.missed
    interrupt(None)
    transport, counter = await asyncio.create_connection(Counter, "::1", 1, ssl=True)
    transport.set_write_buffer_limits(high=counter.n + n + len(line))
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=3)
    asyncio.get_event_loop().call_soon_threadsafe(queue.put_nowait, 1)
    broker = asyncio.pubsub.Broker()
    async with broker.subscribe("a/+", policy="latest", priority=True) as subscription:
        rating: float = broker.publish("a/b", 1, retain=True) + await broker.publish_wait("a", 2)
        async for topic, payload in subscription:
            print(topic.upper(), payload, rating, broker.dropped)
    lease = asyncio.pubsub.Pool(2, nbytes=100).lease()
    if lease:
        lease.buf[0] = lease.used
        asyncio.pubsub.Publisher(broker, "irq", 8).put(lease)
    carrier = asyncio.pubsub.Tcp("pico", 7000)
    async with asyncio.pubsub.Link(broker, carrier, ["a/#"], secret=b"s") as link:
        await link.wait_connected()
    print(SharedLink(broker, carrier, receive=["b"], threshold=300, max_size=10**6).shared + 1)
    bridge = asyncio.pubsub.mqtt.Bridge(broker, asyncio.pubsub.mqtt.AioMqttc(None), send=["#"])
    await bridge.run()
    sleeper = asyncio.power_mode(asyncio.LightSleep(veto=lambda: True))
    if sleeper:
        print(sleeper.stats()["early"], asyncio.POLLPRI | 1)
    with asyncio.stay_awake():
        await asyncio.sleep_ms(asyncio.priority_window(20))


asyncio.roundrobin(False)
asyncio.install()
asyncio.run(main())
"""
WRONG = """
import asyncio_alt as asyncio

async def main() -> None:
    await asyncio.ThreadSafeFlag().wait(prio=True)  # call-arg
    await asyncio.create_task(asyncio.sleep)  # arg-type
    text: str = await asyncio.StreamReader(None).read()  # assignment
    asyncio.Transport.flush  # attr-defined
    asyncio.current_tasks()  # attr-defined
    asyncio.pubsub.Broker().subscribe("a", policy="oldest")  # arg-type
    asyncio.pubsub.FramedProtocol().send_frame("text")  # arg-type
    asyncio.run(main)  # arg-type
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the interpreter of an environment that the wheel has been installed in."""
    folder = tmp_path_factory.mktemp("stubs")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet"]
    subprocess.run([*pip, "--no-cache-dir", wheel.build(folder)[0]], check=True)
    return python


@pytest.fixture(params=MICROPYTHON)
def mypy(request, installed, tmp_path):
    """Return a function that runs mypy on files, with the stubs of one of MicroPython's ports."""
    port = request.param
    try:
        folders = [
            source.from_pypi(f"micropython-{port}-stubs", MICROPYTHON[port]),
            source.from_pypi("micropython-stdlib-stubs", STDLIB),
        ]
    except Unavailable as reason:
        pytest.skip(str(reason))

    def mypy(*files, options=("--strict",)):
        command = [sys.executable, "-m", "mypy", "--config-file=", "--python-executable"]
        command += [installed, "--custom-typeshed-dir", folders[1], *options]
        environment = {**os.environ, "MYPYPATH": f"{folders[0]}:{folders[1]}"}
        done = subprocess.run(
            [*command, "--cache-dir", installed.parents[2] / port, *files],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode < 2, done.stdout + done.stderr
        # Without those in the stubs of MicroPython, which are elsewhere.
        return re.findall(r"^([^/.].*?):(\d+): error: (.*)\[(\S+)\]$", done.stdout, re.M)

    mypy.port = port
    return mypy


def test_stubs_have_what_the_package_has():
    assert stubs.check() == []


@pytest.fixture
def changed(tmp_path):
    """Return a function that makes an edit in a copy of a stub, and returns the errors found."""
    shutil.copytree(ROOT / "tools" / "typings", tmp_path / "typings")

    def changed(name, old, new):
        stub = tmp_path / "typings" / "asyncio_alt" / f"{name}.pyi"
        text = stub.read_text()
        assert text.count(old) == 1
        stub.write_text(text.replace(old, new))
        return stubs.check(typings=tmp_path / "typings")

    return changed


@pytest.mark.parametrize(
    "name, old, new, said",
    [
        ("event", "priority: bool = False", "", "wait(self, priority=False) has (self) in"),
        ("stream", "n: int = -1", "n: int = 0", "read(self, n=-1) has (self, n=0) in the stub"),
        ("stream", "buf: bytearray |", "b: bytearray |", "readinto(self, buf) has (self, b)"),
        ("lock", "def locked(self) -> bool: ...", "", "asyncio_alt.lock.Lock.locked is not in"),
        ("core", "def done(self) -> bool: ...", "", "asyncio_alt.core.Task.done is not in"),
        ("core", "def done(", "def ended(", "asyncio_alt.core.Task.ended is in the stub alone"),
        ("queue", "maxsize: int\n", "size: int\n", "queue.Queue.size is in the stub alone"),
        ("queue", "async def put(", "def put(", "asyncio_alt.queue.Queue.put is a generator"),
        (
            "pubsub/subscription",
            "def release(self) -> None: ...",
            "",
            "Subscription.release is not in",
        ),
        (
            "pubsub/publisher",
            "size: int,",
            "",
            "__init__(self, broker, topic, size, nbytes=0) has (self,",
        ),
        (
            "irq",
            "keep: bool = True",
            "keep: bool = False",
            "__init__(self, keep=True, priority=False)",
        ),
        ("claim", "def install() -> None: ...", "", "asyncio_alt.claim.install is not in"),
        ("__init__", "Lock as Lock", "Lock as Bolt", "asyncio_alt.Lock is not in the stub"),
        ("__init__", "Lock as Lock", "Lock as Bolt", "asyncio_alt.Bolt is in the stub alone"),
    ],
)
def test_what_a_stub_has_otherwise_is_said(changed, name, old, new, said):
    wrong = changed(name, old, new)
    assert any(said in line for line in wrong), wrong


def test_a_module_without_a_stub_is_named(tmp_path):
    shutil.copytree(ROOT / "tools" / "typings", tmp_path / "typings")
    (tmp_path / "typings" / "asyncio_alt" / "idle.pyi").rename(
        tmp_path / "typings" / "asyncio_alt" / "bolt.pyi"
    )
    (tmp_path / "typings" / "asyncio_alt" / "__init__.pyi").write_text("from .core import *")
    wrong = stubs.check(typings=tmp_path / "typings")
    assert wrong[:2] == [
        "asyncio_alt.idle has no stub: typings/asyncio_alt/idle.pyi is missing",
        "typings/asyncio_alt/bolt.pyi is the stub of no module",
    ]


def test_readme_examples_are_right(mypy, tmp_path):
    files = []
    for i, example in enumerate(EXAMPLES):
        if mypy.port == "rp2" or "machine" not in example:  # unix has no Pin
            files.append(tmp_path / f"example{i}.py")
            files[-1].write_text(example)
    assert (
        mypy(*files, options=["--check-untyped-defs", "--disable-error-code=var-annotated"]) == []
    )


def test_right_use_of_what_stock_has_not_is_right(mypy, tmp_path):
    (tmp_path / "right.py").write_text(RIGHT)
    assert mypy("right.py") == []


def test_wrong_use_is_found(mypy, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    lines = enumerate(WRONG.splitlines(), 1)
    expected = [(str(i), line.split("# ")[1]) for i, line in lines if "# " in line]
    assert [(line, code) for _, line, _, code in mypy("wrong.py")] == expected


def test_stubs_themselves_are_right(mypy, tmp_path):
    shutil.copytree(ROOT / "tools" / "typings" / "asyncio_alt", tmp_path / "asyncio_alt")
    assert mypy("-p", "asyncio_alt") == []


def test_package_calls_and_imports_what_micropython_has(mypy, tmp_path):
    # A name that changes its type, or is made by `global`, is no fault in code without types.
    ignored = shutil.ignore_patterns(*CPYTHON)
    shutil.copytree(ROOT / "asyncio_alt", tmp_path / "asyncio_alt", ignore=ignored)
    found = mypy("-p", "asyncio_alt", options=["--check-untyped-defs"])
    faults = [
        message
        for file, _, message, code in found
        if code not in DYNAMIC and not file.endswith("_dma.py")  # these are for rp2 alone
    ]
    # Only CPython has traceback, only rp2 has rp2; the stand-in for machine code has more than one
    # type; ticks that go through an array are ints.
    known = '"traceback"|"rp2"|<lambda>|"_Ticks'
    assert [it for it in faults if not re.search(known, it)] == []
