"""Payloads as bytes, for a link: bytes stay what they are, str is UTF-8, all else is JSON."""

import json  # not in a function: each time, MicroPython would look for such a file first

_BYTES = (bytes, bytearray, memoryview)
_JSON = (bool, int, float, list, tuple, dict)


def encode(payload):
    """Returns (kind, bytes-like) of a payload. TypeError if it is none that a link carries."""
    if isinstance(payload, _BYTES):
        return 0, payload
    if isinstance(payload, str):
        return 1, payload.encode()
    if payload is not None and not isinstance(payload, _JSON):
        raise TypeError("payload: a link carries bytes, str, numbers, bool, None, lists and dicts")
    return 2, json.dumps(payload).encode()


def decode(kind, view):
    """Returns the payload; bytes for what was bytes-like. ValueError if it is damaged."""
    if kind == 0:
        return bytes(view)
    text = str(view, "utf-8")
    if kind == 1:
        return text
    if kind == 2:
        return json.loads(text)
    raise ValueError("unknown kind of payload")
