"""A display with an SSD1306, 128 x 64 points, on SPI or I2C: refreshed while other tasks run.

display = OnSPI(SPI(machine.SPI(0), Pin(17, Pin.OUT)), Pin(16, Pin.OUT))
display = OnI2C(I2C(machine.I2C(0)))
await display.begin()
display.frame.text("Hello", 0, 0)
await display.show()

Install: asyncio_alt, devices.json.
"""

import framebuf

# Off; 64 lines; no offset; addresses run along the lines, then down; the picture upright;
# contrast; as in memory; clock; charge pump; on.
BEGIN = bytes.fromhex("aea83fd300402000a1c8da12817fa4a6d5808d14af")
WINDOW = b"\x21\x00\x7f\x22\x00\x07"  # columns 0 to 127, pages 0 to 7


class _Display:
    def __init__(self):
        self.buffer = bytearray(1025)
        self.buffer[0] = 0x40  # on I2C: data follow
        self.data = memoryview(self.buffer)[1:]
        self.frame = framebuf.FrameBuffer(self.data, 128, 64, framebuf.MONO_VLSB)


class OnSPI(_Display):
    """spi: devices.SPI with the display's chip-select pin; dc: its D/C pin."""

    def __init__(self, spi, dc):
        super().__init__()
        self.spi = spi
        self.dc = dc

    async def begin(self):
        async with self.spi:
            self.dc(0)
            await self.spi.write(BEGIN)

    async def show(self):
        async with self.spi:
            self.dc(0)
            await self.spi.write(WINDOW)
            self.dc(1)
            await self.spi.write(self.data)


class OnI2C(_Display):
    """i2c: devices.I2C."""

    def __init__(self, i2c, address=0x3C):
        super().__init__()
        self.i2c = i2c
        self.address = address

    async def begin(self):
        await self.i2c.writeto_mem(self.address, 0, BEGIN)  # 0: commands follow

    async def show(self):
        await self.i2c.writeto_mem(self.address, 0, WINDOW)
        await self.i2c.writeto(self.address, self.buffer)
