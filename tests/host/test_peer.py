"""The reproduction of peterhinch's design behaves as that does, and differs from stock in nothing
else."""

import pytest

from asyncio_alt.pc.figures import PEER
from tools import targets
from tools.bench.run import SCRIPTS, run

# Five tasks are ready when one that waits for a flag, and one for a stream to write to, can go on.
ORDER = """
import io

class Sink(io.IOBase):
    ready = False
    def ioctl(self, req, arg):
        return -1 if req != 3 else arg & 4 if self.ready else 0
    def write(self, buf):
        return len(buf) if self.ready else None

def measure(package):
    aio = __import__(package)
    order = []

    async def work(name):
        await aio.sleep_ms(0)
        order.append(name)

    async def wait(flag):
        await flag.wait()
        order.append("flag")

    async def drain(writer):
        writer.write(b".")
        await writer.drain()
        order.append("stream")

    async def main():
        flag = aio.ThreadSafeFlag()
        sink = Sink()
        tasks = [aio.create_task(c) for c in (wait(flag), drain(aio.StreamWriter(sink)))]
        await aio.sleep_ms(1)
        tasks += [aio.create_task(work(name)) for name in "abcde"]
        await aio.sleep_ms(0)
        flag.set()
        sink.ready = True
        for task in tasks:
            await task

    aio.run(main())
    return {"order": order}
"""

# The arguments of lightsleep while a task waits 50 ms, and then for a flag, without a deadline.
# The flag is set in the third sleep.
SLICES = """
import sys, time

class machine:
    def lightsleep(ms):
        slept.append(ms)
        time.sleep_ms(ms)
        if len(slept) == at:
            flag.set()

sys.modules["machine"] = machine
slept = []

def measure(package):
    global flag, at
    aio = __import__(package)
    aio.power_mode(True)

    async def main():
        begin = time.ticks_ms()
        await aio.sleep_ms(50)
        return time.ticks_diff(time.ticks_ms(), begin)

    async def wait():
        await flag.wait()

    at = 0
    flag = aio.ThreadSafeFlag()
    took = aio.run(main())
    first = slept[:]
    slept.clear()
    at = 3
    aio.run(wait())
    return {"first": first, "took": took, "then": slept}
"""

# How often ten flags that are waited for are polled in 20 passes, each.
POLLS = """
def measure(package):
    aio = __import__(package)
    polls = []

    class Flag(aio.ThreadSafeFlag):
        def ioctl(self, req, arg):
            polls.append(id(self))
            return super().ioctl(req, arg)

    async def main():
        flags = [Flag() for _ in range(10)]
        tasks = [aio.create_task(flag.wait()) for flag in flags]
        await aio.sleep_ms(0)
        polls.clear()
        for _ in range(20):
            await aio.sleep_ms(0)
        return [polls.count(id(flag)) for flag in flags]

    return {"polls": aio.run(main())}
"""


@pytest.fixture(scope="module")
def unix():
    with targets.get("unix") as target:
        yield target


@pytest.fixture
def measure(unix, tmp_path, monkeypatch):
    """Return a function that runs measure(package) of a script."""
    (tmp_path / "peer.py").write_text((SCRIPTS / "peer.py").read_text())
    monkeypatch.setattr("tools.bench.run.SCRIPTS", tmp_path)

    def measured(text, package):
        (tmp_path / "script.py").write_text(text)
        return run(unix, "script", package)

    return measured


def test_what_waited_for_io_is_ahead_of_all_that_is_ready(measure):
    late, first = (measure(ORDER, package)["order"] for package in ("asyncio", PEER))
    assert late[:5] == list("abcde") == first[2:]
    assert set(late[5:]) == set(first[:2]) == {"flag", "stream"}


def test_every_pass_polls_each_flag(measure):
    assert min(measure(POLLS, "asyncio")["polls"]) >= 20
    assert min(measure(POLLS, PEER)["polls"]) >= 20


def test_it_sleeps_20_ms_at_a_time_and_looks_in_between(measure):
    slept = measure(SLICES, PEER)
    assert max(slept["first"]) == 20 and slept["took"] >= 50
    assert slept["then"] == [20, 20, 20]
