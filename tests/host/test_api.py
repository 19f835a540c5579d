"""The API page has all that is public, and says something of it."""

import re

from tools import api, targets
from tools.bootstrap import ROOT


def test_every_public_name_is_told_of():
    with targets.get("unix") as unix:
        result = unix.run(
            "from asyncio_alt import pubsub\n"
            "from asyncio_alt.lazy import _NAMES\n"
            "for line in (_NAMES + '\\n' + pubsub._NAMES).split('\\n'):\n"
            "    names = line.split()\n"
            "    for name in names[1:]:\n"
            "        if names[0] not in (name, 'core'):\n"
            "            print(name)\n"
        )
    assert result.ok, result.err
    page = api.page()
    for name in ["run", "create_task", "sleep_ms", *result.out.split()]:
        assert re.search(rf"^### .*\b{name}\b", page, re.MULTILINE), name
    silent = re.findall(r"^(###.*)\n\n(?=#|\Z)", page, re.MULTILINE)
    # A name that stands for another is told of there.
    assert [title for title in silent if " = " not in title] == []


def test_the_page_in_docs_is_of_today():
    # python3 -m tools api -o docs/api.md
    assert (ROOT / "docs" / "api.md").read_text("utf-8") == api.page()
