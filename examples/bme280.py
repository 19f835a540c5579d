"""A BME280 on I2C: temperature, pressure and humidity, read while other tasks run.

sensor = BME280(I2C(machine.I2C(0)))
await sensor.begin()
celsius, pascal, percent = await sensor.read()

Install: asyncio_alt, devices.json.
"""

from struct import unpack, unpack_from

import asyncio_alt as asyncio


class BME280:
    """i2c: devices.I2C; address: 0x76, or 0x77."""

    def __init__(self, i2c, address=0x76):
        self.i2c = i2c
        self.address = address
        self.raw = bytearray(8)

    async def _byte(self, register):
        return (await self.i2c.readfrom_mem(self.address, register, 1))[0]

    async def begin(self):
        """Reads the calibration. OSError (ENODEV) if this is no BME280."""
        if await self._byte(0xD0) != 0x60:
            raise OSError(19, "this is no BME280")
        part = await self.i2c.readfrom_mem(self.address, 0x88, 26)
        self.t = unpack_from("<Hhh", part)
        self.p = unpack_from("<Hhhhhhhhh", part, 6)
        h2, h3, a, b, c, h6 = unpack("<hBbBbb", await self.i2c.readfrom_mem(self.address, 0xE1, 7))
        self.h = part[25], h2, h3, a << 4 | b & 15, c << 4 | b >> 4, h6

    async def read(self):
        """Measures once; returns (degrees Celsius, Pa, % relative humidity), as floats."""
        await self.i2c.writeto_mem(self.address, 0xF2, b"\x01")
        await self.i2c.writeto_mem(self.address, 0xF4, b"\x25")  # once
        await asyncio.sleep_ms(10)
        while await self._byte(0xF3) & 8:
            await asyncio.sleep_ms(2)
        await self.i2c.readfrom_mem_into(self.address, 0xF7, self.raw)
        p0, p1, p2, t0, t1, t2, h0, h1 = self.raw
        return self._values(
            t0 << 12 | t1 << 4 | t2 >> 4, p0 << 12 | p1 << 4 | p2 >> 4, h0 << 8 | h1
        )

    def _values(self, t, p, h):
        # The formulas of the data sheet.
        t1, t2, t3 = self.t
        x = t / 131072 - t1 / 8192
        fine = (t / 16384 - t1 / 1024) * t2 + x * x * t3

        p1, p2, p3, p4, p5, p6, p7, p8, p9 = self.p
        x = fine / 2 - 64000
        y = x * x * p6 / 32768 + x * p5 * 2
        y = y / 4 + p4 * 65536
        x = (1 + (p3 * x * x / 524288 + p2 * x) / 524288 / 32768) * p1
        pascal = (1048576 - p - y / 4096) * 6250 / x if x else 0
        pascal += (p9 * pascal * pascal / 2147483648 + pascal * p8 / 32768 + p7) / 16

        h1, h2, h3, h4, h5, h6 = self.h
        x = fine - 76800
        y = h - (h4 * 64 + h5 / 16384 * x)
        y *= h2 / 65536 * (1 + h6 / 67108864 * x * (1 + h3 / 67108864 * x))
        y *= 1 - h1 * y / 524288
        return fine / 5120, pascal, min(max(y, 0), 100)
