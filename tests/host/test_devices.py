"""Pins and buses on the emulated RP2040, compared with the emulator's events."""

import struct

import pytest

from tools.bootstrap import ROOT

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
    one.cs(0)
    hw.write(DATA)
    one.cs(1)
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
    machines = seen.pop(0)[3]  # from chip select to its first clock
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
        if len(text) != 516:  # in the block chip select is low before and after the transfers
            assert 0 < lead < 4 * machines and 0 < tail < (8 if wanted else 20) * machines


def example(name):
    return (ROOT / "examples" / name).read_text()


DISPLAY = """
import machine
from asyncio_alt.devices import I2C, SPI

async def show(display):
    await display.begin()
    display.frame.fill(0)
    display.frame.text("Hello", 0, 0)
    display.frame.hline(0, 63, 128, 1)
    await display.show()
    print(bytes(display.data))

async def main():
    hw = machine.SPI(0, baudrate=4000000, sck=Pin(2), mosi=Pin(3), miso=Pin(4))
    await show(OnSPI(SPI(hw, Pin(17, Pin.OUT)), Pin(16, Pin.OUT)))
    await show(OnI2C(I2C(machine.I2C(0, freq=400000, scl=Pin(21), sda=Pin(20)))))

print('#EMU {"spi": 0, "cs": 17, "dc": 16}')
print('#EMU {"i2c": 0, "address": 60}')
asyncio.run(main())
"""


def test_display_gets_each_byte_with_its_command_line_over_spi_and_i2c(rp2):
    result = run(rp2, example("ssd1306.py") + DISPLAY)
    picture, again = map(eval, result.out.splitlines())
    assert picture == again and len(picture) == 1024 and any(picture[:40])
    assert picture[-128:] == b"\x80" * 128
    begin = bytes.fromhex("aea83fd300402000a1c8da12817fa4a6d5808d14af")
    window = bytes.fromhex("21007f220007")
    seen = [e[:2] for _, what, e in result.events if what == "spi0-17" and e[0]]
    assert seen == [
        [begin.hex(), "0" * len(begin)],
        [(window + picture).hex(), "0" * len(window) + "1" * 1024],
    ]
    seen = [e for _, what, e in result.events if what == "i2c0"]
    assert seen == [
        [60, 0, "00" + begin.hex(), "stop"],
        [60, 0, "00" + window.hex(), "stop"],
        [60, 0, "40" + picture.hex(), "stop"],
    ]


SENSOR = """
import machine
from asyncio_alt.devices import I2C

async def main():
    i2c = I2C(machine.I2C(0, freq=400000, scl=Pin(21), sda=Pin(20)))
    sensor = BME280(i2c)
    await sensor.begin()
    print(await sensor.read())

asyncio.run(main())
"""


def test_sensor_is_read_over_i2c_and_gives_the_values_of_its_data_sheet(rp2):
    # The example of the data sheet; it has none for humidity, which is computed here.
    memory = bytearray(256)
    trim = 27504, 26435, -1000, 36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000
    struct.pack_into("<HhhHhhhhhhhh", memory, 0x88, *trim)
    memory[0xA1] = 75
    memory[0xE1:0xE8] = struct.pack("<hBbBbb", 360, 0, 20, 0x29, 3, 30)  # H4 329, H5 50
    memory[0xD0] = 0x60
    pressure, temperature = 415148 << 4, 519888 << 4
    memory[0xF7:0xFF] = pressure.to_bytes(3, "big") + temperature.to_bytes(3, "big") + b"\x75\x30"
    stimuli = [{"i2c": 0, "address": 0x76, "memory": memory.hex()}]
    result = run(rp2, example("bme280.py") + SENSOR, stimuli)
    celsius, pascal, percent = eval(result.out)
    assert abs(celsius - 25.08) < 0.01 and abs(pascal - 100653) < 2
    x = 128422 - 76800
    y = (30000 - (329 * 64 + 50 / 16384 * x)) * 360 / 65536 * (1 + 30 / 67108864 * x)
    assert abs(percent - y * (1 - 75 * y / 524288)) < 0.1
    seen = [e for _, what, e in result.events if what == "i2c0"]
    assert [e for e in seen if e[2][:2] in ("f2", "f4")] == [
        [0x76, 0, "f201", "stop"],
        [0x76, 0, "f425", "stop"],
    ]
    assert all(
        how == ("restart" if not read and len(data) == 2 else "stop")
        for _, read, data, how in seen
    )


UART = """
import machine
from asyncio_alt.devices import UARTWriter

async def count():
    global turns
    while True:
        turns += 1
        await sleep_ms(1)

async def main():
    global turns
    hw = machine.UART(1, 115200, tx=Pin(4), rx=Pin(5))
    uart = UARTWriter(hw, 256)
    writer = asyncio.StreamWriter(uart)
    turns = 0
    create_task(count())
    await sleep_ms(1)
    begin = time.ticks_us()
    writer.write(DATA)
    print(time.ticks_diff(time.ticks_us(), begin))
    await writer.drain()
    print(turns)
    sleep = asyncio.power_mode(True)
    for n in range(1, 200, 23):
        writer.write(DATA[:n])
        await writer.drain()
    while not uart.txdone():
        await sleep_ms(1)
    asyncio.power_mode(False)
    print(uart.op)
    writer.write(DATA)
    uart.close()
    machine.UART(1)
    again = UARTWriter(hw)
    again.write(b"end")
    while not again.txdone():
        await sleep_ms(1)

DATA = bytes(i * 7 & 255 for i in range(1000))
asyncio.run(main())
"""


def test_uart_takes_bytes_at_once_and_sends_them_in_order_while_the_loop_goes_on(rp2):
    result = run(rp2, UART, [{"uart": 1, "timed": True}])
    us, turns, op = result.out.split()
    sent = [(us, byte) for us, what, byte in result.events if what == "uart1"]
    data = bytes(i * 7 & 255 for i in range(1000))
    got = bytes(byte for _, byte in sent)
    expected = data + b"".join(data[:n] for n in range(1, 200, 23))
    assert got.startswith(expected) and got.endswith(b"end")
    assert int(us) < 5000 and int(turns) > 40 and op == "None"
    gaps = [b - a for (a, _), (b, _) in zip(sent[:1000], sent[1:1000])]
    assert sorted(gaps)[500] < 90 and sum(gaps) < 1.1 * 1000 * 86.8
