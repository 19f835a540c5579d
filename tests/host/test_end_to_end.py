"""From a pin of an emulated RP2040 to an MQTT subscriber, and a command's way back.

A hard interrupt, a Publisher, a Broker, a Link over machine.UART; CPython's Link, Broker and
Bridge; Mosquitto and an MQTT client.
"""

import json
import random
import time
import xml.etree.ElementTree

from tools.bench import hops
from tools.bench.command import RESULTS
from tools.bootstrap import ROOT

PINS = [random.Random(n).randrange(10, 14) for n in range(60)]


def changes(toggles):
    """Return the changes that the emulator sees of pins that are low at first."""
    levels = dict.fromkeys(toggles, 0)
    seen = []
    for pin in toggles:
        levels[pin] ^= 1
        seen.append((f"pin{pin}", levels[pin]))
    return seen


def check(made):
    assert made.edges == made.took
    leds = {f"pin{pin}" for pin in PINS}
    assert [event[1:] for event in made.events if event[1] in leds] == changes(made.toggles)


def test_all_messages_arrive_once_and_in_order(rp2, mosquitto):
    made = hops.run(rp2, mosquitto, edges=60, toggles=PINS, every_ms=15)
    check(made)
    assert made.edges == list(range(60)) and made.toggles == PINS


def test_what_is_taken_arrives_once_though_the_line_is_noisy_and_cut(rp2, mosquitto):
    chance = random.Random(1)
    carried = 0
    cut = None

    def spoil(data):
        nonlocal carried, cut
        carried += len(data)
        if carried > 1500:
            cut = cut or time.monotonic()
            if time.monotonic() - cut < 0.8:
                return b""  # for longer than the links believe in each other
        if chance.randrange(500) < len(data):
            i = chance.randrange(len(data))
            some = chance.choice((b"", b"\0", b"\xc0", data[i : i + 1] * 2))
            return data[:i] + some + data[i + 1 :]
        return data

    made = hops.run(
        rp2, mosquitto, edges=60, toggles=PINS, every_ms=30, spoil=spoil, keepalive=0.2
    )
    check(made)
    assert cut and made.resent and made.took and made.toggles


def test_each_hop_is_measured_and_drawn(rp2, mosquitto, tmp_path):
    report = hops.measure(rp2, mosquitto, 3)
    assert [f["hop"] for f in report["figures"]] == [
        hop for way in hops.WAYS.values() for hop in [*(name for name, _ in way), "together"]
    ]
    assert all(0 < f["ours"] <= f["worst"] for f in report["figures"])
    hops.draw(report, tmp_path / "hops.svg")
    xml.etree.ElementTree.parse(tmp_path / "hops.svg")


def test_page_shows_the_last_table():
    report = json.loads((RESULTS / "hops.json").read_text("utf-8"))
    page = (ROOT / "docs" / "link.md").read_text("utf-8")
    assert "<!-- hops -->" in page and hops.with_table(page, report) == page
