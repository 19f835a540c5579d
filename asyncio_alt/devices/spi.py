"""SPI whose transfers are awaited; on RP2 they go on by DMA, beside the loop."""

from .bus import BYTES, Device, blocking, of, readable, writable


class SPI(Device):
    """A device on an SPI bus. The methods are machine.SPI's, to be awaited; each is carried out
    when it is awaited, in the order of that, for any number of tasks and devices. One that is
    cancelled is stopped: the bus may be used at once, and the buffers are not touched any more.

    spi: machine.SPI, which several devices may share, but nothing else may use meanwhile; cs: the
    device's Pin, low while there is a transfer, or None; priority: True to have the tasks go on
    ahead of the ready ones. In an `async with` block the bus is this task's alone, and the device
    stays selected. TypeError for other values, OSError (EBUSY) if the DMA channels are used up."""

    def __init__(self, spi, cs=None, priority=False):
        if not hasattr(spi, "write_readinto"):
            raise TypeError("spi must be a machine.SPI")
        if cs is not None:
            if not callable(cs):
                raise TypeError("cs must be a machine.Pin or None")
            cs(1)
        make = _Calls
        if not blocking and str(spi)[:4] == "SPI(":
            from .spi_dma import Engine as make
        Device.__init__(self, of(spi, make), cs, priority, _raise if make is _Calls else None)
        self._prepare = self.bus.engine.prepare

    def write(self, buf):
        """Awaitable: sends the bytes of buf, which must stay as it is until then."""
        if not isinstance(buf, BYTES):
            buf = readable(buf, "buf")
        op = self.transfer()
        op.data = buf
        op.into = None
        op.n = len(buf)
        self._prepare(op)
        return op

    def readinto(self, buf, write=0):
        """Awaitable: reads into buf while it sends the byte `write` (int) again and again."""
        if not isinstance(write, int) or not 0 <= write <= 255:
            raise ValueError("write must be 0 to 255")
        buf = writable(buf, "buf")
        op = self.transfer()
        op.data = None
        op.into = buf
        op.fill = write
        op.n = len(buf)
        self._prepare(op)
        return op

    def write_readinto(self, write_buf, read_buf):
        """Awaitable: sends write_buf and reads as many bytes into read_buf, which may be the same
        buffer. ValueError if their lengths differ."""
        write_buf = readable(write_buf, "write_buf")
        read_buf = writable(read_buf, "read_buf")
        if len(write_buf) != len(read_buf):
            raise ValueError("write_buf and read_buf must have the same length")
        op = self.transfer()
        op.data = write_buf
        op.into = read_buf
        op.n = len(write_buf)
        self._prepare(op)
        return op

    async def read(self, nbytes, write=0):
        """Reads nbytes while it sends the byte `write` again and again; returns them (bytes)."""
        buf = bytearray(nbytes)
        await self.readinto(buf, write)
        return bytes(buf)


def call(op, port):
    """Carries out a Transfer by machine.SPI's own calls."""
    if op.cs and not op.bus.held:
        op.cs(0)
    try:
        if op.into is None:
            port.write(op.data)
        elif op.data is None:
            port.readinto(op.into, op.fill)
        else:
            port.write_readinto(op.data, op.into)
    finally:
        if op.cs and not op.bus.held:
            op.cs(1)
        op.end()


def _raise(op):
    er = op.error
    if er:
        op.error = 0
        raise er


class _Calls:
    # The engine of a bus without DMA. An error is kept for the task that awaits the transfer; this
    # may be called by another one.
    def __init__(self, bus, port):
        self._port = port

    def prepare(self, op):
        pass

    def start(self, op):
        try:
            call(op, self._port)
        except Exception as er:
            op.error = er

    begin = start

    def close(self):
        pass
