"""Write the page of figures that users have measured on their boards.

docs/boards.md gets a table for each file of benchmarks/boards/, which `asyncio-alt bench -o FILE`
writes on the board.
"""

import json

from asyncio_alt.pc import bench
from asyncio_alt.pc.screen import escaped
from asyncio_alt.pc.show import replaced
from tools import Problem
from tools.bench.command import RESULTS
from tools.bootstrap import ROOT

FOLDER = RESULTS / "boards"
PAGE = ROOT / "docs" / "boards.md"


def add_arguments(parser):
    pass


def main(args):
    PAGE.write_text(page(), "utf-8")
    print(f"Written: {PAGE.relative_to(ROOT)}")
    return 0


def page() -> str:
    """Return the text of the page with the tables of the files."""
    tables = [_table(path) for path in sorted(FOLDER.glob("*.json"))]
    return replaced(PAGE.read_text("utf-8"), "boards", "\n\n".join(tables))


def _table(path):
    try:
        return "\n".join(bench.table(json.loads(path.read_text("utf-8"))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Problem(f"{path}: it is no file of asyncio-alt bench: {escaped(error)}") from None
