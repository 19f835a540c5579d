"""I2C whose transfers are awaited; on RP2 they go on by DMA, beside the loop."""

from errno import ETIMEDOUT

from .bus import Device, blocking, of, readable, writable


def _check(op):
    # The result of a Transfer, or its error.
    er = op.error
    if er:
        op.error = 0
        if er == ETIMEDOUT:
            op.bus.drop(op)  # ends it, and frees the bus
        raise OSError(er) if isinstance(er, int) else er
    return op.result


class I2C(Device):
    """An I2C bus. The methods are machine.I2C's, to be awaited; each is carried out when it is
    awaited, in the order of that, for any number of tasks. One that is cancelled is stopped after
    the byte that is on its way. Each ends with a STOP.

    i2c: machine.I2C, which nothing else is to use meanwhile; priority: True to have the tasks go
    on ahead of the ready ones. In an `async with` block the bus is this task's alone. TypeError
    for other values, OSError (EBUSY) if the DMA channels are used up.

    A transfer raises OSError: EIO if the device does not answer, refuses a byte or another
    controller has the bus, ETIMEDOUT if it takes longer than its bits and the timeout of
    machine.I2C, as when a device holds a line low; then the bus is freed by clock pulses. Ports
    without DMA raise what machine.I2C raises."""

    def __init__(self, i2c, priority=False):
        if not hasattr(i2c, "readfrom_mem_into"):
            raise TypeError("i2c must be a machine.I2C")
        make = _Calls
        if not blocking and str(i2c)[:4] == "I2C(":
            from .i2c_dma import Engine as make
        Device.__init__(self, of(i2c, make), None, priority, _check)

    def _transfer(self, addr, data, into, result, memaddr=0, addrsize=0):
        if not isinstance(addr, int) or not 0 <= addr <= 127:
            raise ValueError("addr must be 0 to 127")
        if addrsize & 7 or not 0 <= addrsize <= 32:
            raise ValueError("addrsize must be 8, 16, 24 or 32")
        if memaddr < 0 or memaddr >> addrsize:
            raise ValueError("memaddr must have at most addrsize bits")
        op = self.transfer()
        op.addr = addr
        op.data = data
        op.into = into
        op.result = result
        op.memaddr = memaddr
        op.addrsize = addrsize
        op.error = 0
        self.bus.engine.prepare(op)
        return op

    def writeto(self, addr, buf):
        """Awaitable: sends the bytes of buf, at least one; gives their number."""
        buf = _some(readable(buf, "buf"))
        return self._transfer(addr, buf, None, len(buf))

    def writevto(self, addr, vector):
        """Awaitable: sends the bytes of all buffers in vector (a list or tuple) as one transfer;
        gives their number."""
        return self.writeto(addr, b"".join(vector))

    def readfrom_into(self, addr, buf):
        """Awaitable: fills buf, of at least one byte."""
        return self._transfer(addr, None, _some(writable(buf, "buf")), None)

    def writeto_mem(self, addr, memaddr, buf, *, addrsize=8):
        """Awaitable: sends the register address memaddr, of addrsize bits, then the bytes of
        buf."""
        return self._transfer(addr, readable(buf, "buf"), None, None, memaddr, addrsize or 1)

    def readfrom_mem_into(self, addr, memaddr, buf, *, addrsize=8):
        """Awaitable: sends the register address memaddr, of addrsize bits, and fills buf."""
        buf = _some(writable(buf, "buf"))
        return self._transfer(addr, None, buf, None, memaddr, addrsize or 1)

    async def readfrom(self, addr, nbytes):
        """Reads nbytes; returns them (bytes)."""
        buf = bytearray(nbytes)
        await self.readfrom_into(addr, buf)
        return bytes(buf)

    async def readfrom_mem(self, addr, memaddr, nbytes, *, addrsize=8):
        """Reads nbytes from the register address memaddr; returns them (bytes)."""
        buf = bytearray(nbytes)
        await self.readfrom_mem_into(addr, memaddr, buf, addrsize=addrsize)
        return bytes(buf)

    async def scan(self):
        """Returns a list of the addresses, 8 to 119, that answer when a byte is to be read."""
        found = []
        buf = bytearray(1)
        for addr in range(8, 120):
            try:
                await self.readfrom_into(addr, buf)
                found.append(addr)
            except OSError as er:
                if er.errno == ETIMEDOUT:
                    raise
        return found


def _some(buf):
    if not buf:
        raise ValueError("buf must not be empty")
    return buf


class _Calls:
    # The engine of a bus without DMA.
    def __init__(self, bus, port):
        self._port = port

    def prepare(self, op):
        pass

    def start(self, op):
        port = self._port
        try:
            if not op.addrsize:
                if op.into is None:
                    op.result = port.writeto(op.addr, op.data)
                else:
                    port.readfrom_into(op.addr, op.into)
            elif op.into is None:
                port.writeto_mem(op.addr, op.memaddr, op.data, addrsize=op.addrsize)
            else:
                port.readfrom_mem_into(op.addr, op.memaddr, op.into, addrsize=op.addrsize)
        except Exception as er:
            op.error = er
        op.end()

    begin = start

    def close(self):
        pass
