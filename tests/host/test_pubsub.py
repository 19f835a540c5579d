"""The pubsub layer on CPython, as tests/device tests it on MicroPython; and its threads."""

import ast
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from asyncio_alt import pubsub as layer
from tests.parts import ahead
from tools import Unavailable, targets
from tools.bench import pubsub
from tools.bench.command import RESULTS
from tools.bootstrap import ROOT

DEVICE = ROOT / "tests" / "device"
TESTS = [
    (file, node.name)
    for file in ("test_pubsub.py", "test_pubsub_wait.py", "test_pool.py")
    for node in ast.parse((DEVICE / file).read_text()).body
    if getattr(node, "name", "").startswith("test_")
]


@pytest.fixture
def in_time():
    """Have a test that hangs fail, like one on a device."""

    def stop(*_):
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("file, name", TESTS)
def test_on_cpython(file, name, in_time):
    scope = {}
    for path in (*ahead(DEVICE / file), DEVICE / file):
        exec(compile(path.read_text(), path, "exec"), scope)
    scope["_run"](scope[name])


# From another thread, on CPython


def test_values_from_a_thread_are_complete_and_in_order(in_time):
    async def main():
        broker = layer.Broker()
        sub = broker.subscribe("a", maxlen=100)
        publisher = layer.Publisher(broker, "a", 10, 4)
        got = []

        def put():
            for n in range(3000):
                data = b"%d" % n
                while not (publisher.put(n) if n % 2 else publisher.put_from(data)):
                    pass

        thread = threading.Thread(target=put)
        thread.start()
        while len(got) < 3000:
            got.append((await sub.get())[1])
        thread.join()
        assert got == [n if n % 2 else b"%d" % n for n in range(3000)]
        publisher.close()
        publisher.put(1)
        await asyncio.sleep(0.01)
        assert sub.queued == 0 and sub.dropped == 0

    asyncio.run(main())


def test_put_after_the_loop_has_closed_is_refused_and_counted():
    """The loop may close with values put and not published, at any moment of the thread."""
    for pending in (False, True):
        loop = asyncio.new_event_loop()
        pool = layer.Pool(1, 4)

        async def main():
            publisher = layer.Publisher(layer.Broker(), "a", 4)
            if pending:
                publisher.put(pool.lease())
            return publisher

        publisher = loop.run_until_complete(main())
        loop.close()
        with ThreadPoolExecutor() as pool_of_threads:
            took = [pool_of_threads.submit(publisher.put, n).result() for n in range(10)]
        assert took == [False] * 10 and publisher.overruns == 10
        assert pool.leased() == 0 and not any(publisher._values)


def test_exceptions_of_publish_leave_nothing_behind_waiting(in_time):
    async def main():
        broker = layer.Broker()
        got = []
        broker.subscribe_call("a", lambda topic, payload: got.append(payload))
        publisher = layer.Publisher(broker, "a", 8)
        lease = layer.Pool(1, 4).lease()
        lease.release()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        for value in (lease, 1, lease, 2):
            publisher.put(value)
        await asyncio.sleep(0.01)
        assert got == [1, 2]

    asyncio.run(main())


def test_two_loops_in_two_threads(in_time):
    def run(n):
        async def main():
            broker = layer.Broker()
            sub = broker.subscribe("a", maxlen=1, policy="block")
            publishers[n] = layer.Publisher(broker, "b", 500)
            there = broker.subscribe("b", maxlen=500)
            await asyncio.to_thread(ready.wait)
            task = asyncio.create_task(send(broker))
            for i in range(300):
                assert (await sub.get())[1] == i
                publishers[1 - n].put(i)  # from the other one's thread
            await task
            for i in range(300):
                assert (await there.get())[1] == i
            await asyncio.to_thread(ready.wait)

        asyncio.run(main())
        return True

    async def send(broker):
        for i in range(300):
            await broker.publish_wait("a", i)

    publishers = [None, None]
    ready = threading.Barrier(2)
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(run, (0, 1))) == [True, True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork()")
def test_forked_process_has_its_own_loop_and_leaves_the_parents_alone(in_time):
    async def child():
        broker = layer.Broker()
        publisher = layer.Publisher(broker, "a", 2)
        sub = broker.subscribe("a")
        return publisher.put(1) and await sub.get() == ("a", 1)

    async def main():
        publisher = layer.Publisher(layer.Broker(), "a", 2)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                refused = not publisher.put(1) and publisher.overruns == 1
                code = 0 if refused and asyncio.run(child()) else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert publisher.put(1) and publisher.overruns == 0
        await asyncio.sleep(0.01)
        assert publisher._broker.published == 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there may be threads
        asyncio.run(main())


EAGER = """
import asyncio
from asyncio_alt import pubsub

async def main():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    broker = pubsub.Broker()
    first = broker.subscribe("a", maxlen=1, policy="block")
    second = broker.subscribe("b", maxlen=1, policy="block")
    tasks = []

    def fn(topic, payload):
        tasks.append(asyncio.create_task(broker.publish_wait("b", payload)))

    broker.subscribe_call("a", fn)
    publisher = pubsub.Publisher(broker, "a", 4)
    got = []

    async def take(sub):
        async for topic, payload in sub:
            got.append((topic, payload))

    await broker.publish_wait("a", 0)
    outer = asyncio.create_task(broker.publish_wait("a", 1))
    await asyncio.sleep(0.01)
    assert not outer.done() and not tasks[1].done()
    takers = [asyncio.create_task(take(sub)) for sub in (first, second)]
    await asyncio.gather(outer, *tasks)
    publisher.put(2)
    await asyncio.sleep(0.01)
    assert sorted(got) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)], got
    first.close()
    second.close()
    await asyncio.gather(*takers)
    print("done")

asyncio.run(main())
"""


def test_eager_tasks():
    command = next(
        (c for c in ([sys.executable], ["python3.12"], ["python3.13"]) if eager(c)), None
    )
    if not command:
        pytest.skip("no Python has eager tasks")
    done = subprocess.run(
        command + ["-c", EAGER], cwd=ROOT, capture_output=True, text=True, timeout=20
    )
    assert done.stdout == "done\n", done.stderr


def eager(command):
    test = "import asyncio; asyncio.eager_task_factory"
    try:
        return not subprocess.run(command + ["-c", test], capture_output=True).returncode
    except OSError:
        return False


def test_publisher_needs_the_loop():
    with pytest.raises(RuntimeError):
        layer.Publisher(layer.Broker(), "a", 1)


def test_exception_outside_the_loop_is_printed(capsys):
    broker = layer.Broker()
    broker.subscribe_call("a", lambda topic, payload: 1 // 0)
    broker.publish("a", 1)
    assert "ZeroDivisionError" in capsys.readouterr().err


# The page and the tool


PAGE = pubsub.DOC.read_text("utf-8")


@pytest.mark.parametrize("example", re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M))
def test_example_on_the_page_prints_what_its_comments_say(example):
    said = re.findall(r"print\(.*\)  # (.*)$", example, re.M)
    assert said
    with targets.get("unix") as unix:
        result = unix.run(example)
    assert result.ok, result.err
    assert result.out.splitlines() == said
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert done.stdout.splitlines() == said, done.stderr


def test_tables_on_the_page_are_those_of_the_last_run():
    report = json.loads((RESULTS / "pubsub.json").read_text("utf-8"))
    assert pubsub.with_tables(PAGE, report) == PAGE


def test_all_programs_of_the_comparison_run_and_no_message_is_lost():
    for run in pubsub.fan_out(1, 200):
        for name, got in run["got"].items():
            if run["wait"] or not run["consumers"]:
                assert got == 200 * run["consumers"], (name, run)
            else:
                assert 0 < got <= 200 * run["consumers"], (name, run)


def test_processor_time_is_at_most_a_fifth_of_trios():
    """A half on MicroPython, where bare deques without a broker take nearly a fifth."""
    programs = [program for program in pubsub.PROGRAMS if program[0] not in ("agents", "bare")]
    for repeats in (1, 3, 9):
        figures = pubsub.figures(pubsub.fan_out(repeats, 30_000, programs))
        required = [figure for figure in figures if figure["required"]]
        missed = [figure for figure in required if figure["ratio"] > limit(figure)]
        if not missed:
            return
    pytest.fail(f"in the last of three attempts: {missed}")


def limit(figure):
    return 0.5 if "MicroPython" in figure["name"] else figure["required"]


def test_day_leaves_nothing_behind():
    left = pubsub.day("unix", 3000, "broker")
    assert left["messages"] == 3000 and left["delivered"] > 5000
    assert pubsub.faults(left) == []


def test_day_over_a_link_on_firmware_loses_and_leaves_nothing():
    try:
        left = pubsub.day("qemu", 600, "link")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert left["messages"] == left["delivered"] == 600 and left["resent"] == 0
    assert pubsub.faults(left) == []
    taken = left["taken meanwhile"]
    assert max(taken) - min(taken) < 4000


def test_faults_of_a_day_are_found():
    good = {"taken before and after": [5, 5], "largest free before and after": [9, 9]}
    link = good | {"wrong": 0, "delivered": 7, "messages": 7}
    assert pubsub.faults(good) == pubsub.faults(link) == []
    for wrong in ({"taken before and after": [5, 6]}, {"largest free before and after": [9, 8]}):
        assert len(pubsub.faults(good | wrong)) == 1
    for wrong in ({"wrong": 1}, {"delivered": 6}):
        assert len(pubsub.faults(link | wrong)) == 1
