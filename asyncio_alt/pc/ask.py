"""Asks a board by a script, and checks the answer: a board may say anything."""

import json
import secrets

from asyncio_alt.pc import Problem
from asyncio_alt.pc.screen import escaped

# A script may print anything else before its answer.
_MARK = "#" + secrets.token_hex(8) + "#"
_MOST = 200  # characters of a text of a board's


def ask(target, script: str, timeout=60, **types) -> dict:
    """Run a script that leaves a dict as `answer`; return that.

    types: of the answer's values, by their keys; list: of texts. Texts come escaped
    Raises Problem if the script fails, or the answer is another.
    """
    result = target.run(f"{script}\nimport json\nprint({_MARK!r} + json.dumps(answer))\n", timeout)
    if not result.ok:
        said = result.err.strip().splitlines() or ["it says nothing"]
        why = "it did not answer in time" if result.timed_out else escaped(said[-1], _MOST)
        raise Problem(f"{name(target)}: {why}")
    try:
        answer = json.loads(result.out.rpartition(_MARK)[2])
        return {key: _value(answer[key], kind) for key, kind in types.items()}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Problem(f"{name(target)}: it gives an invalid answer") from None


def name(target) -> str:
    """Return how a message names a target."""
    port = getattr(target, "port", "")
    return f"the board on {escaped(port)}" if port else "MicroPython's unix port"


def _value(value, kind):
    if type(value) is not kind or (kind is int and not 0 <= value < 2**53):
        raise TypeError
    if kind is str:
        return escaped(value, _MOST)
    if kind is list:
        return [_value(each, str) for each in value]
    return value
