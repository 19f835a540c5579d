# Transfers of 1024 bytes over SPI at 1 MHz, or of 256 bytes over I2C at 400 kHz: by machine's own
# calls with stock, by asyncio_alt.devices with ours.

import time

import machine
from machine import Pin

ticks_us, ticks_diff = time.ticks_us, time.ticks_diff
DATA = bytes(i * 7 & 255 for i in range(1024))


def spin(us):
    begin = ticks_us()
    while ticks_diff(ticks_us(), begin) < us:
        pass


def spi(number):
    pins = {"sck": Pin(2), "mosi": Pin(3), "miso": Pin(4)}
    if number:
        pins = {"sck": Pin(10), "mosi": Pin(11), "miso": Pin(12)}
    return machine.SPI(number, baudrate=1000000, **pins)


def i2c(number):
    pins = {"scl": Pin(7), "sda": Pin(6)} if number else {"scl": Pin(21), "sda": Pin(20)}
    return machine.I2C(number, freq=400000, **pins)


def measure(package, what, ms=200):
    # what: "spi" or "i2c": how long the worse of two buses stands still, in %, beside ten tasks of
    # 1 ms; with "2" behind that two tasks use each bus; "write": what a write costs others
    aio = __import__(package)
    ours = package == "asyncio_alt"
    if ours:
        from asyncio_alt.devices import I2C, SPI
    done = [0, 0]
    ended = [0, 0]  # when the last transfer was done
    stop = False

    async def work():
        while not stop:
            spin(1000)
            await aio.sleep_ms(0)

    async def use(i, bus):
        block = DATA if what[0] == "s" else DATA[:256]
        while not stop:
            if what[0] == "s":
                done_by = bus.write(block)
            else:
                done_by = bus.writeto(80, block)
            await (done_by if ours else aio.sleep_ms(0))
            done[i] += 1
            ended[i] = ticks_us()

    async def busy():
        nonlocal stop
        for _ in range(10):
            aio.create_task(work())
        for i in (0, 1):
            if what[0] == "s":
                bus = spi(i)
                bus = SPI(bus, Pin(16 + i, Pin.OUT), priority=True) if ours else bus
            else:
                print('#EMU {"i2c": %d, "address": 80}' % i)
                bus = I2C(i2c(i), priority=True) if ours else i2c(i)
            for _ in range(2 if what[-1] == "2" else 1):
                aio.create_task(use(i, bus))
        await aio.sleep_ms(50)
        before = done[:]
        begun = ended[:]
        await aio.sleep_ms(ms)
        stop = True
        # Address, data, acknowledgements, START and STOP.
        each = 8192 if what[0] == "s" else (257 * 9 + 2) * 2.5
        used = [(done[i] - before[i]) * each / ticks_diff(ended[i], begun[i]) for i in (0, 1)]
        await aio.sleep_ms(60)
        return {"idle": 100 - 100 * min(used)}

    async def other():
        # Turns, and the longest time between two of them.
        nonlocal turns, longest
        last = ticks_us()
        while not stop:
            await aio.sleep_ms(0)
            now = ticks_us()
            longest = max(longest, ticks_diff(now, last))
            last = now
            turns += 1

    async def cost():
        nonlocal stop, turns, longest
        bus = spi(0)
        if ours:
            bus = SPI(bus)
            await bus.write(DATA)
        aio.create_task(other())
        rates = []
        for writes in (0, 5):
            await aio.sleep_ms(5)
            turns = longest = 0
            begin = ticks_us()
            for _ in range(writes):
                if ours:
                    await bus.write(DATA)
                else:
                    bus.write(DATA)
                    await aio.sleep_ms(0)
            if not writes:
                await aio.sleep_ms(40)
                alone = longest
            rates.append(turns / ticks_diff(ticks_us(), begin))
        stop = True
        return {"waits": (longest - alone) / 1000, "processor": 100 - 100 * rates[1] / rates[0]}

    turns = longest = 0
    return aio.run(cost() if what == "write" else busy())
