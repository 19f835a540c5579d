# I2C whose transfers are awaited. The emulator has a memory of 256 bytes at address 80; elsewhere
# an object stands for machine.I2C.

import time

import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms
from asyncio_alt.devices import I2C

DATA = bytes(range(100, 133))


def emulated(freq=400000, **what):
    import machine
    from machine import Pin

    emu(scl=5)
    emu(address=80, **what)
    return I2C(machine.I2C(0, freq=freq, scl=Pin(5), sda=Pin(4), timeout=5000))


def emu(**what):
    import json

    what["i2c"] = 0
    print("#EMU " + json.dumps(what))


async def stored(i2c, n=32):
    return await i2c.readfrom_mem(80, 100, n)


async def fails(errno, aw):
    er = await araises(OSError, aw)
    assert er.errno == errno, er


class Calls:
    # Stands for machine.I2C.
    def writeto(self, addr, buf):
        if addr != 80:
            raise OSError(19)
        self.buf = bytes(buf)
        return len(buf)

    def readfrom_into(self, addr, buf):
        self.writeto(addr, buf)
        buf[:] = b"x" * len(buf)

    def writeto_mem(self, addr, memaddr, buf, *, addrsize):
        self.writeto(addr, b"%d %d" % (memaddr, addrsize) + buf)

    def readfrom_mem_into(self, addr, memaddr, buf, *, addrsize):
        self.writeto(addr, b"%d %d" % (memaddr, addrsize))
        buf[:] = b"y" * len(buf)


async def test_blocking_bus_has_the_same_methods():
    calls = Calls()
    i2c = I2C(calls)
    assert await i2c.writeto(80, b"abc") == 3 and calls.buf == b"abc"
    assert await i2c.writevto(80, (b"ab", b"", b"cd")) == 4 and calls.buf == b"abcd"
    assert await i2c.readfrom(80, 2) == b"xx"
    await i2c.writeto_mem(80, 7, b"z")
    assert calls.buf == b"7 8z"
    assert await i2c.readfrom_mem(80, 300, 2, addrsize=16) == b"yy" and calls.buf == b"300 16"
    await fails(19, i2c.writeto(81, b"a"))
    assert await i2c.scan() == [80]
    async with i2c:
        assert await i2c.writeto(80, b"a") == 1
    raises(TypeError, I2C, 5, match="i2c")
    raises(ValueError, i2c.writeto, 128, b"a", match="addr")
    raises(ValueError, i2c.writeto, 80, b"", match="buf")
    raises(TypeError, i2c.writeto, 80, 5, match="buf")
    raises(TypeError, i2c.readfrom_into, 80, b"a", match="buf")
    raises(ValueError, i2c.writeto_mem, 80, 256, b"a", match="memaddr")
    raises(ValueError, lambda: i2c.writeto_mem(80, 0, b"a", addrsize=9), match="addrsize")


@needs("emu")
async def test_bytes_go_both_ways_without_heap():
    import gc

    import micropython

    i2c = emulated()
    got = bytearray(32)
    assert await i2c.writeto(80, DATA) == 33
    await i2c.readfrom_mem_into(80, 100, got)
    assert got == DATA[1:]
    await i2c.writeto_mem(80, 10, b"hello")
    assert await i2c.writevto(80, [b"\x0a"]) == 1
    assert await i2c.readfrom(80, 5) == b"hello"
    await i2c.writeto_mem(80, 0x6401, b"+", addrsize=16)  # the memory takes the rest as data
    assert await stored(i2c, 2) == b"\1+"
    await i2c.writeto_mem(80, 100, DATA[1:])
    gc.collect()
    micropython.heap_lock()
    try:
        for _ in range(2):
            await i2c.writeto(80, DATA)
            await i2c.readfrom_mem_into(80, 100, got)
            await i2c.writeto_mem(80, 100, got)
    finally:
        micropython.heap_unlock()
    await asyncio.gather(*[i2c.writeto(80, DATA), i2c.readfrom_mem_into(80, 100, got)] * 1)
    await i2c.chain([i2c.writeto(80, b"\x64" + bytes(40)), i2c.readfrom_mem_into(80, 100, got)])
    assert got == bytes(32)
    assert await i2c.scan() == [80]


@needs("emu")
async def test_refused_bytes_lost_arbitration_and_long_stretches_raise_as_machine():
    i2c = emulated()
    for n in (2, 33, 200):
        await fails(5, i2c.writeto(81, bytes(n)))
        await fails(5, i2c.readfrom_mem(81, 0, n))
    await i2c.writeto(80, DATA)
    # Refused at each byte of one in a chain: the next transfer is as if nothing had been.
    for n in list(range(1, 34)):
        emu(address=80, nack_at=n)
        await fails(
            5, i2c.chain([i2c.writeto(80, DATA), i2c.readfrom_mem_into(80, 9, bytearray(3))])
        )
        assert await i2c.readfrom(80, 1)
    for n in (1, 2, 32, 33):
        emu(address=80, lose_at=n)
        await fails(5, i2c.writeto(80, DATA))
        emu(address=80, stretch_at=n, stretch_us=3000)
        assert await i2c.writeto(80, DATA) == 33
        assert await stored(i2c, 30) == DATA[1:31]
        emu(address=80, stretch_at=n, stretch_us=12000)
        await fails(110, i2c.writeto(80, DATA))
    emu(address=80)
    await sleep_ms(20)
    await i2c.writeto(80, DATA)
    assert await stored(i2c) == DATA[1:]


@needs("emu")
async def test_a_bus_that_hangs_is_freed_while_the_loop_goes_on():
    async def count():
        nonlocal turns
        while True:
            turns += 1
            await sleep_ms(1)

    i2c = emulated()
    turns = 0
    create_task(count())
    emu(hold_us=20000)  # by somebody else
    await fails(110, i2c.writeto(80, DATA))
    assert turns >= 5
    await sleep_ms(20)
    assert await i2c.writeto(80, DATA) == 33
    emu(clocks=5)  # by a device that waits for clocks
    await fails(110, i2c.writeto(80, DATA))
    assert await stored(i2c) == DATA[1:]
    for n in (1, 7, 33):
        emu(address=80, hang_at=n, clocks=9)
        await fails(110, i2c.writeto(80, DATA))
        emu(address=80)
        assert await i2c.writeto(80, DATA) == 33
    assert await stored(i2c) == DATA[1:]


@needs("emu")
async def test_cancelled_at_any_time_sends_a_stop_and_leaves_the_buffer_alone():
    i2c = emulated(100000)
    await i2c.writeto(80, DATA)
    into = bytearray(32)
    ends = set()
    for us in range(0, 3300, 97):
        into[:] = bytes(32)
        one = create_task(i2c.readfrom_mem_into(80, 100, into))
        two = create_task(stored(i2c, 9))
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
        assert await two == DATA[1:10], us
        assert into == seen, us
        ends.add(seen == DATA[1:])
        assert i2c.bus.op is None
    assert ends == {False, True}, (ends, seen, into)
