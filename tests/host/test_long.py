"""Long runs. Those of minutes to an hour are for a release: python3 -m tools test --long."""

import pytest

from tools import targets
from tools.bench import pubsub, soak


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_a_day_of_a_link_in_power_mode_on_the_pico(request):
    if request.config.getoption("--target") not in ("rp2", "all"):
        pytest.skip("with --target rp2 or all only")
    messages, pause_ms = 7200, 12000  # 24 hours of the board's time
    left = pubsub.day("rp2", messages, "link", pause_ms)
    assert left["delivered"] == messages and pubsub.faults(left) == []
    assert left["asleep_ms"] > 0.9 * messages * pause_ms


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_clients_that_behave_badly_for_an_hour_leave_nothing():
    report = soak.soak(3600)
    assert report["errors"] and report["aborted"] and soak.missed(report) == []


def test_ten_million_sets_of_flags_by_threads_lose_none():
    with targets.get("unix") as unix:
        result = unix.run(_SETS, 300)
    assert (result.err, result.out) == ("", "[2500000, 2500000, 2500000, 2500000]\n")


# Each thread sets its flag. At every hundredth time it waits until all tasks have seen theirs:
# then no other ring makes up for one that is lost.
_SETS = """
import _thread
import time
import asyncio_alt as asyncio

SETS = 2500000
THREADS = 4

def setter(i):
    for n in range(1, SETS + 1):
        sets[i] = n
        flags[i].set()
        if n % 100 == 0:
            while min(seen) < n:
                time.sleep_us(10)

async def waiter(i):
    while seen[i] < SETS:
        await flags[i].wait()
        seen[i] = sets[i]

async def main():
    tasks = [asyncio.create_task(waiter(i)) for i in range(THREADS)]
    for i in range(THREADS):
        _thread.start_new_thread(setter, (i,))
    for task in tasks:
        await task

flags = [asyncio.ThreadSafeFlag() for _ in range(THREADS)]
sets = [0] * THREADS
seen = [0] * THREADS
asyncio.run(main())
print(seen)
"""
