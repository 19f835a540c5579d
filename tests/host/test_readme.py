"""README.md and docs/ are right: examples run, figures are those of benchmarks/."""

import ast
import json
import re

import pytest

from tools import targets
from tools.bench import stock
from tools.bench.command import RESULTS
from tools.bench.experiments import EXPERIMENTS
from tools.bootstrap import ROOT

PAGES = {
    page: page.read_text("utf-8")
    for page in (
        ROOT / "README.md",
        ROOT / "examples" / "README.md",
        *(ROOT / "docs").glob("*.md"),
    )
}
FIGURES = PAGES[ROOT / "docs" / "figures.md"]
EXAMPLES = [
    example
    for page in PAGES.values()
    for example in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
]

# Stands for the board's module: a thread calls the pin's interrupt handler, 20 ms later.
MACHINE = """
import sys, _thread, time
class Pin:
    IN = IRQ_RISING = 1
    IRQ_FALLING = OUT = 2
    def __init__(self, number, mode):
        pass
    def off(self):
        pass
    def irq(self, handler, trigger=0, hard=False):
        def edge():
            time.sleep_ms(20)
            handler(self)
        if handler:
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
    assert said or "print" not in example
    result = unix.run(MACHINE + example)
    assert result.ok, result.err
    assert result.out.splitlines() == said


def test_figures_are_those_of_the_last_bench():
    files = [RESULTS / f"{target}.json" for target in EXPERIMENTS]
    reports = [json.loads(file.read_text("utf-8")) for file in files]
    assert stock.with_tables(FIGURES, reports) == FIGURES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_it_links_to_is_there(page):
    for link in re.findall(r"\]\(([^)]+)\)", PAGES[page]):
        if ":" not in link:
            path, _, section = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not section or section in sections(target), link


def sections(page):
    """Return the names that links give the sections of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_troubleshooting_has_every_runtime_error():
    said = PAGES[ROOT / "docs" / "troubleshooting.md"]
    raised = [
        text
        for file in (ROOT / "asyncio_alt").glob("*.py")
        for text in runtime_errors(ast.parse(file.read_text("utf-8")))
    ]
    assert len(raised) > 10
    assert [text for text in raised if text not in said] == []


def runtime_errors(tree):
    """Yield the texts of the RuntimeErrors that a module raises, up to the first "%"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if getattr(node.exc.func, "id", "") == "RuntimeError":
                for part in ast.walk(node.exc):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value.partition("%")[0]
                        break
