"""The README says what is so: its examples run, its figures are those of benchmarks/."""

import json
import re

import pytest

from tools import bench, targets
from tools.bootstrap import ROOT

README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)

# Stands for the board's: a pin whose interrupt comes from a thread, 20 ms later.
MACHINE = """
import sys, _thread, time
class Pin:
    IN = IRQ_RISING = 1
    def __init__(self, number, mode):
        pass
    def irq(self, handler, trigger, hard):
        def edge():
            time.sleep_ms(20)
            handler(self)
        _thread.start_new_thread(edge, ())
class machine:
    pass
machine.Pin = Pin
sys.modules["machine"] = machine
"""


@pytest.fixture(scope="module")
def unix():
    with targets.get("unix") as target:
        yield target


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_prints_what_its_comments_say(example, unix):
    said = re.findall(r"print\(.*\)  # (.*)$", example, re.MULTILINE)
    assert said
    result = unix.run(MACHINE + example)
    assert result.ok, result.err
    assert result.out.splitlines() == said


def test_figures_are_those_of_the_last_bench():
    files = sorted(bench.RESULTS.glob("*.json"))
    reports = [json.loads(file.read_text("utf-8")) for file in files]
    assert reports
    assert bench.with_tables(README, reports) == README


def test_what_it_links_to_is_there():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if ":" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
