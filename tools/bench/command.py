"""Arguments and files that the tools of the bench share."""

import json

from asyncio_alt.pc import arguments
from tools.bootstrap import ROOT

RESULTS = ROOT / "benchmarks"
repeats = arguments.count(1, 100000)


def add_folder(parser, text):
    """Give a tool that measures the option -o for a folder other than benchmarks/."""
    parser.add_argument(
        "-o", dest="folder", type=arguments.folder, default=RESULTS, metavar="DIR", help=text
    )


def add_repeats(parser):
    """Give a tool that measures the option --repeats."""
    parser.add_argument("--repeats", type=repeats, default=5, metavar="N", help="(default: 5)")


def write(report, path, pages=(), with_tables=None):
    """Write a tool's figures to a JSON file; make its folder if need be. If the folder is
    benchmarks/, bring the pages with its tables up to date: with_tables(text, report) returns
    the new text of a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in pages if path.parent == RESULTS else ():
        page.write_text(with_tables(page.read_text("utf-8"), report), "utf-8")
