from .bus import blocking as blocking
from .i2c import I2C as I2C
from .pins import Button as Button
from .pins import Edges as Edges
from .pins import Encoder as Encoder
from .pins import Pulse as Pulse
from .spi import SPI as SPI
from .uart import UARTWriter as UARTWriter
