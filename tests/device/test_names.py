# How names.py reads a name server's packets. tests/host/test_names.py asks real servers.

import random

from asyncio_alt.names import answer, decode, encode, set_nameserver, text

ID = b"ab"
QUESTION = encode("www.example.org") + b"\0\1\0\1"


def reply(*records, flags=b"\x81\x80", count=None, authority=0, question=QUESTION, ident=ID):
    count = len(records) if count is None else count
    counts = b"\0\1" + count.to_bytes(2, "big") + bytes((0, authority, 0, 0))
    return ident + flags + counts + question + b"".join(records)


def record(data, kind=1, owner=b"\xc0\x0c", ttl=60, length=None):
    length = len(data) if length is None else length
    return (
        owner + bytes((0, kind, 0, 1)) + ttl.to_bytes(4, "big") + length.to_bytes(2, "big") + data
    )


def test_names_are_written_and_read():
    assert encode("Www.Example.org.") == encode("www.example.org") == b"\3www\7example\3org\0"
    assert decode(b"xx\3oRg\0\1a\xc0\2\5", 7) == (b"\1a\3org\0", 11)
    for host in (
        "",
        ".",
        ".a",
        "a..b",
        "a..",
        "a." + "b" * 64,
        "\xe9.org",
        ".".join(["a" * 49] * 6),
    ):
        raises(ValueError, encode, host, match="host")
    encode("a" * 63 + "." + ".".join(["b" * 62] * 3))
    assert text(bytes(range(4))) == "0.1.2.3"
    assert text(bytes(range(16))) == "1:203:405:607:809:a0b:c0d:e0f"


def test_addresses_are_found_behind_aliases():
    alias = encode("x.example.net")
    packet = reply(
        record(alias, 5, ttl=30),
        record(b"bad!"),
        record(b"\1\2\3\4", owner=alias),
        record(bytes(16), 28, owner=alias),
        record(b"\5\6\7\x08", owner=alias, ttl=7),
    )
    assert answer(packet, ID, QUESTION) == (alias, [b"\1\2\3\4", b"\5\6\7\x08"], 7)
    # An alias of which there is no more is asked for, unless it is said that there is no more.
    assert answer(reply(record(alias, 5)), ID, QUESTION)[:2] == (alias, [])
    assert answer(reply(record(alias, 5), authority=1), ID, QUESTION)[:2] == (QUESTION[:-4], [])
    assert answer(reply(record(b"\1\2\3\4", ttl=0x80000000)), ID, QUESTION)[2] == 0


def test_what_is_no_answer_is_refused():
    good = record(b"\1\2\3\4")
    assert answer(reply(good), ID, QUESTION)[1] == [b"\1\2\3\4"]
    loop = b"\xc0" + bytes((12 + len(QUESTION),))
    for packet in (
        b"",
        reply(good)[:11],
        reply(good, ident=b"ba"),
        reply(good, flags=b"\1\x80"),
        reply(good, flags=b"\xa1\x80"),
        reply(good, question=encode("www.example.com") + b"\0\1\0\1"),
        reply(good, question=QUESTION[:-3] + b"\x1c\0\1"),
        reply(record(b"\1\2\3\4", owner=loop)),
        reply(record(b"\1\2\3\4", owner=b"\xc0\xff")),
        reply(record(b"\1\2\3\4", owner=b"\x40\0")),
        reply(record(b"\1\2\3\4", length=5)),
        reply(record(b"\xc0\xff", 5)),
        reply(good, count=2),
    ):
        try:
            found = answer(packet, ID, QUESTION)
        except (ValueError, IndexError):
            continue
        raise AssertionError((packet, found))
    assert answer(reply(flags=b"\x81\x83"), ID, QUESTION)[1] == ()
    for flags in (b"\x81\x82", b"\x81\x85", b"\x83\x80"):  # it failed, refuses, has no room
        raises(OSError, answer, reply(flags=flags), ID, QUESTION)
    # The part that fits is used.
    cut = reply(good, record(b"\5\6\7\x08"), flags=b"\x83\x80")
    assert answer(cut[:-2], ID, QUESTION)[1] == [b"\1\2\3\4"]


def hostile():
    random.seed(1)
    alias = encode("x.example.net")
    base = reply(record(alias, 5), record(b"\1\2\3\4", owner=alias), record(b"\1\2\3\4"))
    head = len(QUESTION) + 12
    for n in range(head, len(base)):
        yield base[:n]
    yield reply(count=65535) + b"\xc0\x0c" * 200
    longest = b"\1a" * 127 + b"\0"
    yield reply(record(longest, 5), *[record(b"\1\2\3\4", owner=longest)] * 3, count=255)
    for i in range(200):
        p = bytearray(base)
        for _ in range(1 + i % 8):
            p[random.getrandbits(10) % (len(p) - head) + head] = random.choice(
                (0, 12, 63, 64, 192, 193, 255, random.getrandbits(8))
            )
        yield bytes(p)
        yield base[:head] + bytes([random.getrandbits(8) for _ in range(i)])


def test_no_packet_does_harm():
    for p in hostile():
        try:
            _, found, ttl = answer(p, ID, QUESTION)
        except (ValueError, IndexError):
            continue
        assert len(found) <= 16 and 0 <= ttl <= 3600, p


def test_set_nameserver_names_what_is_wrong():
    for address in ("ns.example.org", "1.2.3", ""):
        raises(ValueError, set_nameserver, address, match="address")
    raises(TypeError, set_nameserver, (5,), match="address")
    raises(ValueError, set_nameserver, "1.2.3.4", 0, match="port")
    raises(ValueError, set_nameserver, "1.2.3.4", 65536, match="port")
