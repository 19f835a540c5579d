"""Payloads as bytes, for a link: bytes stay as they are, str is UTF-8, all else is JSON."""

import json  # not in a function: each time, MicroPython would look for such a file first
import sys

from ..compat import const

_MICROPYTHON = sys.implementation.name == "micropython"

_BYTES = (bytes, bytearray, memoryview)
_JSON = (bool, int, float, list, tuple, dict)

_DEEP = const(32)  # lists and dicts in one another, at most
_SIMPLE = const(16)  # up to so many of them C code may compare on a microcontroller's stack
_LONG = const(4300)  # CPython reads no int of more digits,
_BITS = const(14280)  # which has more bits

# Sequences that MicroPython's str() takes and UTF-8 has not: these first bytes, unless the next
# one is between the other two. (Overlong forms, surrogates, more than U+10FFFF.)
_STRICT = (
    b"\xc0\x01\x00",
    b"\xc1\x01\x00",
    b"\xe0\xa0\xbf",
    b"\xed\x80\x9f",
    b"\xf0\x90\xbf",
    b"\xf4\x80\x8f",
    b"\xf5\x01\x00",
    b"\xf6\x01\x00",
    b"\xf7\x01\x00",
)

if _MICROPYTHON:
    _dumps = json.dumps
else:
    _dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def to_text(data):
    """Returns the str of UTF-8 (bytes-like). ValueError if it is not UTF-8."""
    text = str(data, "utf-8")
    if _MICROPYTHON and len(text) != len(data):
        _check(bytes(data))
    return text


def to_utf8(text):
    """Returns the UTF-8 of a str. ValueError if it has surrogates."""
    data = text.encode()
    if _MICROPYTHON and len(text) != len(data):
        _check(data)
    return data


def _check(data):
    for rule in _STRICT:
        at = data.find(rule[:1])
        while at >= 0:
            if not rule[1] <= data[at + 1] <= rule[2]:
                raise ValueError("not UTF-8")
            at = data.find(rule[:1], at + 1)


def encode(payload):
    """Returns (kind, bytes-like) of a payload. TypeError or ValueError if a link cannot carry
    it so that it arrives as it was; a tuple arrives as a list."""
    if isinstance(payload, _BYTES):
        return 0, payload
    if isinstance(payload, str):
        return 1, to_utf8(payload)
    if payload is None or isinstance(payload, int) and not abs(payload) >> _BITS:
        return 2, _dumps(payload).encode()
    return _encode(payload)


def _encode(payload):
    if not isinstance(payload, _JSON):
        _wrong()
    try:
        text = _dumps(payload)
        # MicroPython writes anything, and compares without a look at the stack.
        if (
            len(text) < _LONG
            and text.count("[") + text.count("{") <= _SIMPLE
            and json.loads(text) == payload
        ):
            return 2, to_utf8(text)
    except (TypeError, ValueError, RuntimeError):
        pass
    try:
        text = _dumps(_plain(payload, _DEEP))
    except RuntimeError:  # no room on the stack
        _plain([], 0)
    return 3 if '{"": ' in text else 2, to_utf8(text)


def _wrong():
    raise TypeError("payload: a link carries bytes, str, and what JSON knows")


def _plain(value, deep):
    # A value in terms of JSON: {"": "nan"} is that float, {"": {...}} the dict {...}.
    if value is None or isinstance(value, (str, bool)):  # MicroPython's bool is not an int
        return value
    if isinstance(value, int):
        if abs(value) >> _BITS:
            raise ValueError("payload: an int of more than %d bits" % _BITS)
        return value
    if isinstance(value, float):
        return value if value - value == 0 else {"": str(value)}
    if not deep and isinstance(value, (list, tuple, dict)):
        raise ValueError("payload: lists and dicts that are too deep in one another")
    if isinstance(value, (list, tuple)):
        items = []  # no comprehension, which takes as much of the stack again
        for item in value:
            items.append(_plain(item, deep - 1))
        return items
    if not isinstance(value, dict):
        _wrong()
    plain = {}
    for key in value:
        if not isinstance(key, str):
            raise TypeError("payload: the keys of a dict must be str")
        plain[key] = _plain(value[key], deep - 1)
    return {"": plain} if len(plain) == 1 and "" in plain else plain


def decode(kind, view):
    """Returns the payload; bytes for a bytes-like one. ValueError if it is damaged."""
    if kind == 0:
        return bytes(view)
    text = to_text(view)
    if kind == 1:
        return text
    value = json.loads(text)
    return _back(value) if kind == 3 else value


def _back(value):
    # Undoes _plain().
    if isinstance(value, dict):
        if len(value) == 1 and "" in value:
            value = value[""]
            if not isinstance(value, dict):
                return float(value)
        for key in value:
            value[key] = _back(value[key])
    elif isinstance(value, list):
        for i in range(len(value)):
            value[i] = _back(value[i])
    return value
