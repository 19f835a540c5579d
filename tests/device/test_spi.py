# SPI whose transfers are awaited. The emulator has a device that answers with the complement of
# the byte before, 0xff first; elsewhere an object stands for machine.SPI.

import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms
from asyncio_alt.devices import SPI

SRC = bytes(i * 7 & 255 for i in range(256))


def answer(data):
    return bytes([255] + [255 ^ byte for byte in data[:-1]])


def emulated(*pins, baudrate=1000000):
    # Returns machine.SPI, and an SPI for each chip-select pin.
    import machine
    from machine import Pin

    for pin in pins:
        print('#EMU {"spi": 0, "cs": %d}' % pin)
    spi = machine.SPI(0, baudrate=baudrate, sck=Pin(2), mosi=Pin(3), miso=Pin(4))
    return [spi] + [SPI(spi, Pin(pin, Pin.OUT)) for pin in pins]


def any_dma():
    # Whether a DMA channel is busy.
    from machine import mem8

    return any(mem8[0x50000000 + 64 * n + 0x13] & 1 for n in range(12))


class Calls:
    # Stands for machine.SPI.
    def __init__(self):
        self.calls = []

    def write(self, buf):
        self.calls.append(bytes(buf))

    def readinto(self, buf, write=0):
        self.calls.append(write)
        buf[:] = bytes([write + 1] * len(buf))

    def write_readinto(self, data, into):
        self.calls.append((bytes(data), len(into)))


async def test_blocking_bus_has_the_same_methods():
    def cs(level):
        levels.append(level)

    levels = []
    calls = Calls()
    spi = SPI(calls, cs)
    buf = bytearray(3)
    await spi.write(b"ab")
    assert levels == [1, 0, 1]
    await asyncio.wait_for(spi.readinto(buf, 4), 1)
    assert buf == b"\5\5\5" and await spi.read(2) == b"\1\1"
    await spi.chain([spi.write_readinto(b"abc", buf), spi.write(b"x")])
    assert calls.calls == [b"ab", 4, 0, (b"abc", 3), b"x"]
    del levels[:]
    async with spi:
        waiting = create_task(SPI(calls).write(b"later"))
        await sleep_ms(1)
        await spi.write(b"first")
        await spi.write(b"second")
    await waiting
    assert levels == [0, 1] and calls.calls[5:] == [b"first", b"second", b"later"]
    once = spi.write(b"")
    await once
    await araises(RuntimeError, once, match="twice")
    raises(TypeError, SPI, 5, match="spi")
    raises(TypeError, SPI, calls, 5, match="cs")
    raises(TypeError, spi.write, 5, match="buf")
    raises(TypeError, spi.readinto, b"abc", match="buf must be writable")
    raises(ValueError, spi.readinto, buf, 256, match="write")
    raises(ValueError, spi.write_readinto, b"ab", buf, match="same length")
    await araises(ValueError, spi.chain([once]), match="chain")
    spi.close()


@needs("emu")
async def test_bytes_go_both_ways_without_heap():
    import gc

    import micropython

    _, spi = emulated(17)
    got = bytearray(256)
    for n in (1, 20, 26, 100, 256):  # by machine's own call, and by DMA
        data = SRC[:n]
        into = memoryview(got)[:n]
        await spi.write_readinto(data, into)
        assert into == answer(data), n
        await spi.readinto(into, 5)
        assert into == answer(b"\5" * n), n
        await spi.write(data)
    assert await spi.read(60, 1) == answer(b"\1" * 60)
    await spi.write_readinto(got, got)
    gc.collect()
    micropython.heap_lock()
    try:
        for _ in range(2):
            await spi.write(SRC)
            await spi.readinto(got)
            await spi.write_readinto(SRC, got)
    finally:
        micropython.heap_unlock()
    assert got == answer(SRC)
    from array import array

    words = array("H", [0] * 60)
    await spi.readinto(words, 1)
    assert words[59] == 0xFEFE


@needs("emu")
async def test_tasks_and_devices_share_a_bus_in_the_order_of_waiting():
    async def use(name, spi, n):
        into = bytearray(n)
        await spi.write_readinto(SRC[:n], into)
        assert into == answer(SRC[:n])
        order.append(name)

    async def hold(name, spi):
        async with spi:
            into = bytearray(60)
            await spi.readinto(into)
            other = a if spi is b else b
            await araises(RuntimeError, other.write(SRC), match="holds the bus")
            await spi.write_readinto(SRC[:30], memoryview(into)[:30])
            assert into[0] == 255 and into[1:30] == answer(SRC[:30])[1:]
        order.append(name)

    order = []
    _, a, b = emulated(17, 18)
    sizes = (5, 40, 200)
    for first in sizes:
        for second in sizes:
            del order[:]
            tasks = [use("a", a, first), use("b", b, second), hold("c", a), use("d", a, 30)]
            await asyncio.gather(*tasks, hold("e", b), use("f", b, first))
            assert sorted(order) == list("abcdef"), order
    into = bytearray(100)
    await a.chain([a.write(SRC), b.readinto(into), a.write(SRC[:3]), a.readinto(into)])
    assert into == answer(bytes(100))
    stuck = [create_task(hold("x", a)), create_task(use("y", b, 50)), create_task(hold("z", b))]
    await sleep_ms(0)
    stuck[1].cancel()
    await stuck[2]
    assert order[-2:] == ["x", "z"]


@needs("emu")
async def test_cancelled_at_any_time_leaves_the_buffer_alone_and_the_bus_usable():
    import time

    _, spi = emulated(17)
    clean = bytes(150)
    into = bytearray(150)
    check = bytearray(40)
    ends = set()
    for us in range(0, 1300, 29):
        into[:] = clean
        one = create_task(spi.write_readinto(SRC[:150], into))
        two = create_task(spi.readinto(check))
        await sleep_ms(0)
        begin = time.ticks_us()
        while time.ticks_diff(time.ticks_us(), begin) < us:
            pass
        one.cancel()
        seen = bytes(into)
        try:
            await one
        except asyncio.CancelledError:
            pass
        await two
        assert check == answer(bytes(40)), us
        assert into == seen, us
        ends.add(seen == answer(SRC[:150]))
        assert spi.bus.op is None and asyncio.core.first_flag is None
    assert ends == {False, True}, ends


@needs("emu")
def test_the_end_of_run_stops_a_transfer():
    import time

    async def main(how):
        create_task(spi.readinto(into))
        queued = create_task(spi.chain([spi.write(SRC), spi.readinto(into)]))
        await sleep_ms(1)
        if how == "chained":
            await queued
        assert any_dma()
        raise how

    into = bytearray(2048)
    for how in (ValueError, KeyboardInterrupt, SystemExit):
        _, spi = emulated(17)
        raises(how, asyncio.run, main(how))
        assert not any_dma() and spi.bus.op is None
        seen = bytes(into)
        time.sleep_ms(3)
        assert into == seen
        spi.close()


@needs("emu")
def test_ctrl_c_at_any_time_leaves_the_bus_usable():
    async def use():
        while True:
            await spi.write_readinto(SRC[:60], bytearray(60))

    async def hold():
        while True:
            async with spi:
                await spi.write(SRC[:40])
            await sleep_ms(0)

    async def main():
        create_task(use())
        create_task(hold())
        await sleep_ms(10)

    async def check():
        into = bytearray(60)
        await asyncio.wait_for_ms(spi.write_readinto(SRC[:60], into), 50)
        assert into == answer(SRC[:60]) and spi.bus.op is None

    _, spi = emulated(17)
    interrupted = 0
    for us in range(1000, 6000, 171):
        print('#EMU {"uart": 0, "data": "\\u0003", "after_us": %d}' % us)
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            interrupted += 1
        asyncio.run(check())
    assert interrupted > 20, interrupted


@needs("emu", "lightsleep")
async def test_the_chip_sleeps_only_when_the_transfer_is_over():
    import time

    _, spi = emulated(17)
    took = []
    for on in (False, True):
        sleep = asyncio.power_mode(on)
        await sleep_ms(20)
        begin = time.ticks_us()
        await spi.write(SRC + SRC)
        took.append(time.ticks_diff(time.ticks_us(), begin))
    before = sleep.stats()["asleep_ms"]
    await sleep_ms(50)
    assert sleep.stats()["asleep_ms"] - before >= 40
    assert took[1] < took[0] + 500, took  # else the clocks are slow meanwhile


@needs("emu")
async def test_channels_that_are_used_up_are_told_of():
    import rp2

    taken = []
    raises(OSError, lambda: [taken.append(rp2.DMA()) for _ in range(13)])
    taken.pop().close()
    import machine

    error = raises(OSError, SPI, machine.SPI(0), match="no DMA channel")
    assert error.errno == 16
    taken.pop().close()
    spi = SPI(machine.SPI(0, baudrate=1000000))
    task = create_task(spi.write(SRC))
    await sleep_ms(0)
    raises(RuntimeError, spi.close, match="close")
    await task
    other = SPI(machine.SPI(0))
    spi.close()
    spi.close()
    await other.write(SRC)
    late = other.write(SRC)
    other.close()
    await araises(OSError, late, match="closed")
    raises(OSError, spi.write, SRC, match="closed")
    assert len([rp2.DMA(), rp2.DMA()]) == 2
