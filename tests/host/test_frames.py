"""The functions between an event and its task have frames that MicroPython keeps on the C stack.

A larger one is taken from the heap: that makes a search for free memory at each call, which takes
the longer the fuller the heap is. See docs/protocols.md.
"""

import re
import subprocess
import sys

import pytest

from asyncio_alt.pc.mpy import compiled
from tools import Unavailable
from tools.bootstrap import ROOT
from tools.build import source

WORDS = 11
_TRY = 3  # words of a frame that a `try` block takes
_FUNCTION = re.compile(r"simple_name: (\S+)|prelude: \((\d+), (\d+), ")

HOT = {
    "core": "__iter__ __next__ sleep_ms sleep wake heir answer _end",
    "event": "set",
    "pubsub/subscription": "put get _take _has __anext__",
    "pubsub/link/peer": "put _post take _message _publish acknowledge",
}


def frames(tree, code):
    """Return the functions of a .mpy file with the words of their largest frame."""
    command = [sys.executable, tree / "tools" / "mpy-tool.py", "-d", code]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    words = {}
    for name, states, tries in _FUNCTION.findall(shown):
        if name:
            function = name
        else:
            found = int(states) + _TRY * int(tries)
            words[function] = max(found, words.get(function, 0))
    return words


@pytest.mark.parametrize("module", HOT)
def test_frames_of_hot_functions_stay_on_the_c_stack(module, tmp_path):
    try:
        tree = source.tree()
    except Unavailable as reason:
        pytest.skip(str(reason))
    code = tmp_path / "module.mpy"
    code.write_bytes(compiled(ROOT / "asyncio_alt" / f"{module}.py", ROOT))
    words = frames(tree, code)
    assert {name: words[name] for name in HOT[module].split() if words[name] > WORDS} == {}
