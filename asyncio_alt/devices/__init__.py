"""Pins and buses that tasks await; each name is loaded from its module on first use."""

# As lazy._NAMES.
_NAMES = """\
bus blocking
i2c I2C
pins Button Edges Encoder Pulse
spi SPI
uart UARTWriter"""


def __getattr__(name):
    from ..lazy import load

    return load(globals(), name, _NAMES)
