"""The page of all figures, and the table of those that matter most in README.md."""

import argparse
import html
import html.parser
import json

import pytest

from tools import Problem
from tools.bench import report
from tools.bench.command import RESULTS
from tools.bootstrap import ROOT

README = ROOT / "README.md"


@pytest.fixture
def made(tmp_path):
    """Return a function that writes the page of some JSON files, {stem: content}, and reads it."""

    def make(**files):
        for stem, content in files.items():
            (tmp_path / f"{stem}.json").write_text(json.dumps(content))
        output = tmp_path / "new" / "page.html"
        assert report.main(argparse.Namespace(folder=tmp_path, output=output)) == 0
        return output.read_text("utf-8")

    return make


class Tags(html.parser.HTMLParser):
    """Checks that open tags are closed, and keeps the references of a page."""

    OPEN = {"html", "meta", "img"}  # need not be closed

    def __init__(self, page):
        super().__init__()
        self.open, self.names, self.sources, self.ids = [], set(), [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.add(tag)
        self.sources += [attributes[key] for key in ("src", "href") if key in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in self.OPEN:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in self.OPEN or tag == self.open.pop()


def figure(**values):
    return {"name": "Pass", "unit": "µs", "stock": 4, "ours": 2, "ratio": 0.5, **values}


def run(*figures):
    return {"date": "2026-01-02", "machine": "abacus", "python": "3.9", "figures": figures}


def test_page_has_all_figures_and_pictures_and_needs_nothing_else():
    reports = report.load(RESULTS)
    pictures = {file.stem: file.read_bytes() for file in RESULTS.glob("*.svg")}
    page = report.page(reports, pictures)
    for stem, content in reports.items():
        assert report.lacks(content) == []
        assert f'id="{stem}"' in page
        for each in content["figures"]:
            assert html.escape(each["name"]) in page
    tags = Tags(page)
    assert "script" not in tags.names and "link" not in tags.names
    images = [source for source in tags.sources if source.startswith("data:image/svg+xml;base64,")]
    assert len(images) == len(pictures) > 5
    links = [source for source in tags.sources if source not in images]
    assert all(link[0] == "#" and link[1:] in tags.ids for link in links)


def test_summary_in_the_readme_is_of_the_last_runs():
    reports = report.load(RESULTS)
    text = README.read_text("utf-8")
    assert "<!-- summary -->" in text
    assert report.with_summary(text, reports) == text, "run python3 -m tools bench report"
    assert "not in" not in str(report.summary(reports))


def test_readme_is_written_from_the_default_folder_only(tmp_path, monkeypatch, made):
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- summary -->\nold\n<!-- end -->\nz\n")
    monkeypatch.setattr(report, "_README", readme)
    made(rp2=run())
    assert "old" in readme.read_text()
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    made()
    begin, *_, end = readme.read_text().splitlines()
    assert (begin, end) == ("a", "z") and "old" not in readme.read_text()
    assert "not in unix.json" in readme.read_text()


def test_required_figures_are_met_missed_or_not_judged(made):
    page = made(
        rp2=run(
            figure(required=2, aim=2, ok=True),
            figure(name="— worst", required=1, aim=1, ok=False),
            figure(name="Other", required=0.6, ok=True, **{"limits are for": "ratio"}),
            figure(name="Odd", required=3),
            figure(name="Free"),
        )
    )
    assert "Of 4 figures that are required, <b>2</b> are met, <b class=bad>2</b> are not" in page
    assert "of 2 aims, <b>1</b> are reached" in page
    rows = [line for line in page.splitlines() if "≤" in line]
    assert "Pass</td>" in rows[0] and "✓" in rows[0] and ">met<" in rows[0]
    assert "Pass — worst" in rows[1] and "✓" not in rows[1] and ">missed<" in rows[1]
    assert "0.5 × stock asyncio" in rows[2] and "≤ 0.6 ×" in rows[2]
    assert "not said" in rows[3] and len(rows) == 4
    assert "abacus" in page and "2026-01-02" in page and "CPython 3.9" in page


def test_three_sides_have_three_columns(made):
    design = "<th>peterhinch&#x27;s design</th>"
    both = made(unix=run(figure())).partition("<section>")[2]
    assert design not in both
    three = made(unix=run(figure(peer=3.5), figure(name="Other"))).partition("<section>")[2]
    assert design in three and "<td>3.5 µs</td>" in three


def test_what_a_file_lacks_is_said(made, capsys):
    lacking = figure(name="Lacking", required=1)
    for key in ("unit", "ours", "ratio"):
        del lacking[key]
    page = made(empty={}, unix={"date": "now", "figures": [figure(), lacking, {}]})
    said = capsys.readouterr().out
    for text in (
        "empty.json lacks date, machine, the version of MicroPython or Python, figures",
        "unix.json lacks machine, the version of MicroPython or Python, name in 1 of 3 figures, "
        "unit in 2 of 3 figures, stock in 1 of 3 figures, ours in 2 of 3 figures",
    ):
        assert text in page and text in said
    assert "not said" in page


def test_text_of_a_file_is_no_html(made):
    page = made(odd=run(figure(name="<b>&", unit="<i>")) | {"runs": [{"<u>": "<s>"}]})
    assert "&lt;b&gt;&amp;" in page
    assert not {"i", "u", "s"} & Tags(page).names


def test_what_else_a_run_tells_is_folded_in(made):
    runs = [{"mode": "a", "us": {"x": 1.234}, "ok": True}, {"mode": "b", "late": None}]
    page = made(odd=run(figure()) | {"runs": runs})
    details = page.partition("<details>")[2]
    assert "<th>mode</th><th>us x</th><th>ok</th><th>late</th>" in details
    assert "<td>a</td><td>1.2</td><td>yes</td><td></td>" in details


def test_folder_without_figures_and_broken_files_are_named(tmp_path, made):
    with pytest.raises(Problem, match="has neither JSON files nor pictures"):
        made()
    for text in ("{", "[]"):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(Problem, match="odd.json is no JSON"):
            made()


def test_page_that_cannot_be_written_is_a_problem(tmp_path, made):
    (tmp_path / "new").write_text("a file")
    with pytest.raises(Problem, match="page.html: "):
        made(unix=run())
