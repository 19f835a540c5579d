"""Pins and buses on the emulated RP2040, compared with the emulator's events."""

import pytest

HEAD = """
import time
import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms
from machine import Pin

def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass

async def busy():
    while True:
        spin(1000)
        await sleep_ms(0)

def drive(pin, value, after_us, count, every_us):
    text = '#EMU {"pin": %d, "value": %d, "after_us": %d, "count": %d, "every_us": %d}'
    print(text % (pin, value, after_us, count, every_us))
"""


def run(rp2, script, stimuli=()):
    result = rp2.run(HEAD + script, 100, stimuli=stimuli)
    assert result.ok, result.err or "not finished in time"
    return result


EDGES = """
from asyncio_alt.devices import Edges

async def main():
    got = []
    for _ in range(TASKS):
        create_task(busy())
    async with Edges(Pin(5, Pin.IN), size=64, priority=True) as edges:
        drive(5, 1, 20000, COUNT, EVERY)
        async for edge in edges:
            got.append(edge)
            if len(got) == COUNT:
                break
        print(edges.overruns)
    print(got)

if TASKS == 0:
    asyncio.power_mode(True)
asyncio.run(main())
"""


def stamps(rp2, tasks, count, every_us):
    """Return by how many us each stamp is later than its edge."""
    head = f"TASKS, COUNT, EVERY = {tasks}, {count}, {every_us}"
    result = run(rp2, head + EDGES)
    overruns, got = result.out.splitlines()
    edges = [(us, value) for us, what, value in result.events if what == "in5"]
    assert overruns == "0" and [level for _, level in eval(got)] == [v for _, v in edges]
    return [us - edge for (us, _), (edge, _) in zip(eval(got), edges)]


def test_edges_at_2_khz_beside_ten_busy_tasks_are_stamped_within_30_us(rp2):
    late = stamps(rp2, 10, 600, 500)
    assert len(late) == 600 and -1 <= min(late) and max(late) <= 30, max(late)


def test_edge_ends_light_sleep_and_is_stamped(rp2):
    # The interrupt waits until the clocks run again, each time for as long.
    late = stamps(rp2, 0, 10, 50000)
    assert len(late) == 10 and max(late) - min(late) <= 30 and max(late) <= 300, late


def toggles(pin, after_us, count):
    return {"pin": pin, "value": 1, "after_us": after_us, "count": count, "every_us": 400}


def test_encoder_at_5_khz_beside_ten_busy_tasks_is_exact(rp2):
    # One way, and half of it back.
    stimuli = [toggles(5, 500000, 502), toggles(6, 500200, 502)]
    stimuli += [toggles(6, 740000, 250), toggles(5, 740200, 250)]
    result = run(
        rp2,
        """
from asyncio_alt.devices import Encoder

async def main():
    for _ in range(10):
        create_task(busy())
    async with Encoder(Pin(5, Pin.IN), Pin(6, Pin.IN)) as encoder:
        async for position in encoder:
            if position == 1004:
                break
        async for position in encoder:
            if position == 504:
                break
        await sleep_ms(20)
        print(encoder.position, encoder.errors)
asyncio.run(main())
""",
        stimuli,
    )
    assert result.out.split() == ["504", "0"]


SELECT = """
import machine
from asyncio_alt.devices import SPI

async def main():
    hw = machine.SPI(0, baudrate=BAUD, sck=Pin(2), mosi=Pin(3), miso=Pin(4))
    one, two = SPI(hw, Pin(17, Pin.OUT)), SPI(hw, Pin(18, Pin.OUT))
    buf = bytearray(300)
    await one.write(b"short")
    await asyncio.gather(one.write(DATA), two.write(DATA[:99]), one.readinto(buf, 9))
    async with two:
        await two.write(DATA[:2])
        await two.write(DATA)
    await one.chain([two.write(DATA[:50]), one.write(DATA[:51])])
    cut = create_task(one.write(DATA + DATA))
    await asyncio.sleep_ms(1)
    cut.cancel()
    await two.write(DATA[:64])

for pin in 17, 18:
    print('#EMU {"spi": 0, "cs": %d}' % pin)
DATA = bytes(range(256))
asyncio.run(main())
"""


@pytest.mark.parametrize("baud", [400000, 1000000, 20000000])
def test_chip_select_is_low_for_each_transfer_from_before_its_first_to_after_its_last_bit(
    rp2, baud
):
    result = run(rp2, f"BAUD = {baud}\n{SELECT}")
    assert not [event for event in result.events if event[1] == "spi0-stray"]
    seen = [
        (int(what[5:]), *e) for _, what, e in result.events if what.startswith("spi0") and e[0]
    ]
    data = bytes(range(256))
    expected = [
        (17, b"short"),
        (17, data),
        (18, data[:99]),
        (17, b"\x09" * 300),
        (18, data[:2] + data),
        (18, data[:50]),
        (17, data[:51]),
        None,
        (18, data[:64]),
    ]
    assert len(seen) == len(expected)
    for (pin, text, _, lead, tail), wanted in zip(seen, expected):
        # A cancelled transfer, too, ends with a whole byte.
        assert (pin, bytes.fromhex(text)) == (wanted or (17, (data + data)[: len(text) // 2]))
        assert 0 < lead < 100000 and 0 < tail < 100000
