# Payloads of a link as bytes: on each build all comes back as it was, or is refused.

import asyncio_alt
from asyncio_alt.pubsub.link.codec import decode, encode, to_text

NAN = float("nan")
INF = float("inf")

VALUES = [
    b"",
    b"\xff",
    "",
    "\U0001f600\u20ac\u00e9",
    0,
    -(2**31),
    2**62,
    10**30,
    True,
    None,
    1.5,
    1.0,
    -0.0,
    NAN,
    INF,
    [-INF, {"t": NAN}],
    {"": {"": "nan"}},
    {"": "nan", "a": NAN},
    {"\U0001f600": ['"\\\n\x01']},
    [[]] * 40,
    [{"n": i} for i in range(20)],
]


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all([same(x, y) for x, y in zip(a, b)])
    if isinstance(a, dict):
        return len(a) == len(b) and all([k in b and same(a[k], b[k]) for k in a])
    return a == b or (a != a and b != b)


def deep(n):
    value = []
    for _ in range(n):
        value = [value]
    return value


def test_what_is_encoded_comes_back_as_it_was():
    for value in VALUES:
        kind, data = encode(value)
        assert same(value, decode(kind, memoryview(data))), value


def test_what_cannot_come_back_is_refused():
    endless = {}
    endless["a"] = endless
    for value in (
        object(),
        {1, 2},
        [{1}],
        [b"x"],
        {"a": bytearray(1)},
        {1: 2},
        {b"k": 1},
        [{None: NAN}],
        [print],
        1 << 14300,
        [NAN, -(1 << 14300)],
        deep(33),
        deep(500),
        endless,
    ):
        try:
            encode(value)
        except (TypeError, ValueError) as er:
            assert "payload" in str(er)
        else:
            raise AssertionError(value)


async def test_nothing_is_too_deep_for_the_stack():
    # An exception tells where the stack ends, in a task too.
    asyncio_alt.current_task()
    for n in range(40):
        try:
            kind, data = encode(deep(n) if n % 2 else {"a": [deep(n), NAN]})
            decode(kind, data)
        except (ValueError, RuntimeError):
            assert n > 8, n


def test_utf8_is_strict():
    good = [
        chr(c) for c in (0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)
    ]
    for text in good + ["".join(good)]:
        assert to_text(text.encode()) == text
    for bad in (
        b"\xed\xa0\x80",  # surrogates
        b"\xed\xbf\xbf",
        b"\xc0\x80",  # overlong forms
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",  # no characters
        b"\xf5\x80\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xff",
        b"\x80",
        b"\xe2\x82",
    ):
        for data in (bad, b"a\xc3\xa9" + bad, "\U0001f600\ud7ff".encode() + bad):
            for data in (data, memoryview(data)):
                try:
                    to_text(data)
                except ValueError:
                    continue
                raise AssertionError(data)
