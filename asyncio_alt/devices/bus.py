"""What SPI and I2C have in common: transfers that tasks await, one after the other on each bus."""

from micropython import const

from .. import core
from ..event import ThreadSafeFlag, enlist

try:
    from machine import disable_irq as _disable_irq
    from machine import enable_irq as _enable_irq
    from rp2 import DMA as _DMA

    blocking = False  # transfers go on beside the loop
except ImportError:
    blocking = True  # each transfer is machine's own call, and the loop stands still meanwhile
    _disable_irq = _enable_irq = int

_NEW = const(0)
_BEGUN = const(1)  # under way, or waits for its turn
_OVER = const(2)

_buses = {}  # a machine.SPI or I2C -> its Bus
_once = core.once
_ring = core.ring
_nothing = iter(())  # what a transfer that has ended is awaited as
_none = StopIteration()
BYTES = bytes, bytearray


def readable(buf, name):
    """Returns a buffer to be sent, as one of bytes. TypeError for others; name: for that (str)."""
    return buf if isinstance(buf, BYTES) else core._io_queue.octets(buf, name)


def writable(buf, name):
    """As readable(), for a buffer to be filled."""
    if not isinstance(buf, bytearray):
        buf = core._io_queue.octets(buf, name)
        try:
            if buf:
                buf[0] = buf[0]
        except TypeError:
            raise TypeError(name + " must be writable")
    return buf


def busy():
    """Whether a transfer is under way (bool), so that the chip must not sleep."""
    for key in _buses:
        op = _buses[key].op
        if op and not op.holds:
            return True
    return False


def of(port, make):
    """Returns the Bus of a machine.SPI or I2C, and makes it on first use. make(bus, port) returns
    its engine, which has for a Transfer: begin(op), also called by an interrupt; start(op), which
    a task calls instead, and which may do it all; stop(op). It has close(), too."""
    bus = _buses.get(port)
    if not bus:
        bus = Bus()
        bus.engine = engine = make(bus, port)
        bus.begin = engine.begin
        bus.start = engine.start
        bus.port = port
        _buses[port] = bus
    bus.users += 1
    return bus


def channels(n):
    """Returns n DMA channels. OSError (EBUSY) if there are not so many."""
    taken = []
    try:
        for _ in range(n):
            taken.append(_DMA())
    except OSError:
        for dma in taken:
            dma.close()
        raise OSError(16, "no DMA channel is free; this bus needs %d" % n)
    return taken


def calm():
    """Called first in an interrupt: a Ctrl-C that has come just before would be raised at the next
    jump, which would end the handler for good. It is lost."""
    try:
        if blocking:  # a jump
            pass
    except KeyboardInterrupt:
        pass


def _closed(op=None):
    raise OSError(9, "the device is closed")


class Bus:
    """Carries out transfers in the order in which they were awaited. The interrupt that ends one
    begins the next."""

    ring = _ring

    def __init__(self):
        self.op = None  # the Transfer under way, or the one that holds the bus
        self.first = self.last = None  # the linked list of those that wait
        self.held = None  # the Transfer that holds the bus for its task
        self.users = 0

    def submit(self, op):
        """Begins a transfer, or has it wait for its turn. Called by a task."""
        op.step = _BEGUN
        held = self.held
        if held:
            if not held.holds.state:
                self.release()  # that task was dropped
            elif held.holds is core.cur_task:
                if held.owner is not op.owner or op.holds:
                    op.step = _OVER
                    raise RuntimeError("this task holds the bus already")
                return self.start(op)
        op.after = None
        state = _disable_irq()
        try:
            if self.first:
                self.last.after = op
            else:
                self.first = op
            self.last = op
            if not self.op:
                self.next()
        finally:
            _enable_irq(state)

    def next(self):
        # Nothing is under way: begin what waits. It may be an interrupt that calls this.
        while self.first and not self.op:
            op = self.first
            self.first = op.after
            if op.holds:
                self.op = self.held = op
                if op.cs:
                    op.cs(0)
                op.end()
            else:
                self.begin(op)

    def ended(self, op):
        """Called by the engine, in the interrupt: the transfer is over."""
        self.op = self.held
        if self.first:
            self.next()
        op.step = _OVER
        op.state = 1
        op.data = op.into = None
        if not op.kept:
            owner = op.owner
            op.pool = owner.free
            owner.free = op
        _ring(b"\0")

    def drop(self, op):
        """Forgets a transfer: one that waits for its turn never begins, one that is under way is
        stopped."""
        state = _disable_irq()
        mine = False
        try:
            begun = op.step == _BEGUN
            mine = begun and self.op is op
            op.step = _OVER  # an interrupt that comes now does nothing
            if begun and not mine:
                other = self.first
                if other is op:
                    self.first = op.after
                else:
                    while other and other.after is not op:
                        other = other.after
                    if other:
                        other.after = op.after
                        if self.last is op:
                            self.last = other
        finally:
            _enable_irq(state)
        if mine:
            try:
                self.engine.stop(op)
            finally:
                self.op = self.held
                self.next()

    def release(self):
        """The task that holds the bus does so no longer."""
        cs = self.held.cs
        if cs:
            cs(1)
        self.op = self.held = None
        self.next()

    def leave(self):
        """A device is closed: the last one gives the channels back."""
        if self.op:
            raise RuntimeError("close() while there is a transfer")
        self.users -= 1
        if not self.users:
            del _buses[self.port]
            self.engine.close()
            self.begin = self.start = _closed


class Transfer:
    """One transfer: a coroutine that takes no heap when it is awaited, and that its device uses
    again. It waits as a ThreadSafeFlag does."""

    def __init__(self, owner):
        self.owner = owner
        self.bus = owner.bus
        self.cs = owner.cs
        self.check = owner.check  # None, or what gives its result or raises its error
        self.returns = self.check or not _once
        self.stop = None  # StopIteration, with the result that it had last
        self.after = None  # the next on the bus
        self.pool = None  # the next that the device has not in use
        # As in a ThreadSafeFlag.
        self.state = 0
        self.task = self.next = None
        self.priority = owner.priority
        self.data = self.into = self.commands = None  # the buffers
        self.tx = self.rx = self.n = 0  # their addresses; the length
        self.then = None  # the next of a chain
        self.kept = False  # another than the one that awaits it has it
        self.holds = None  # the task that wants the bus for itself; there is nothing to transfer
        self.step = _NEW
        self.error = 0  # an errno, or an exception
        self.result = None

    def end(self):
        """It is over, with or without an error."""
        self.step = _OVER
        self.state = 1
        self.data = self.into = None
        if self.task:
            _ring(b"\0")
        if not self.kept:
            self._give()

    def _give(self):
        # The device may use it again.
        if not self.holds:
            owner = self.owner
            self.pool = owner.free
            owner.free = self

    def __iter__(self):
        if self.step != _NEW:
            if not self.kept:
                raise RuntimeError("cannot await a transfer twice")
            return self
        if self.returns:
            return self
        self.kept = False
        try:
            bus = self.bus
            if bus.op or self.holds:
                bus.submit(self)
            else:
                self.step = _BEGUN
                bus.start(self)
            if self.state:
                return _nothing
            self._park()
        except BaseException:
            self.close()
            raise
        return _once(0)

    def _park(self):
        self.task = t = core.cur_task or core.current_task()
        enlist(self)
        t.data = self

    def remove(self, task):
        # Called by Task.cancel(), and when run() drops the task.
        ThreadSafeFlag.remove(self, task)
        op = self
        while op:
            self.bus.drop(op)
            op = op.then
        if self.bus.held is self:
            self.bus.release()

    def __next__(self):
        return self.send(None)

    def send(self, _):
        if self.step == _NEW:
            self.kept = True
            try:
                self.bus.submit(self)
                if not self.state:
                    return self._park()
            except BaseException:
                self.close()
                raise
        elif not self.kept:
            raise RuntimeError("cannot await a transfer twice")
        elif not self.state:
            if self.task and self.task is not core.cur_task:
                raise RuntimeError("another task waits for this transfer")
            return self._park()
        self.kept = False
        self.then = None
        self._give()
        stop = _none
        if self.check:
            value = self.check(self)
            if value is not None:
                stop = self.stop
                if not stop or stop.value != value:
                    self.stop = stop = StopIteration(value)
        stop.__traceback__ = None
        raise stop

    def throw(self, exc):
        self.close()
        raise exc

    def close(self):
        if self.step == _BEGUN:
            self.remove(self.task)


class Device:
    """A device on a bus."""

    def __init__(self, bus, cs, priority, check=None):
        self.bus = bus
        self.check = check
        self.cs = cs
        self.priority = priority
        self.free = None  # the linked list of Transfers that are not in use

    def transfer(self):
        """Returns a new Transfer, mostly one that has been used before."""
        op = self.free
        if op and not op.task:
            self.free = op.pool
            op.step = op.state = 0
            return op
        if not self.bus:
            _closed()
        return Transfer(self)

    def close(self):
        """Gives the DMA channels back if no other device has this bus, which is the end of this
        one. RuntimeError while there is a transfer."""
        if self.bus:
            self.bus.leave()
            self.bus = self.free = None

    async def chain(self, transfers):
        """Carries out transfers, such as [spi.write(a), spi.readinto(b)], each begun by the
        interrupt that ends the one before. They are this bus's, made and not awaited yet."""
        previous = None
        for op in transfers:
            if not isinstance(op, Transfer) or op.bus is not self.bus or op.step != _NEW:
                raise ValueError("chain: transfers must be new ones of this bus")
            op.kept = True
            if previous:
                previous.then = op
            previous = op
        try:
            for op in transfers:
                self.bus.submit(op)
            for op in transfers:
                await op
        except BaseException:
            for op in transfers:
                self.bus.drop(op)
            raise

    def __aenter__(self):
        """Has the bus for this task alone until the end of the block, and its device selected."""
        op = Transfer(self)
        op.holds = core.current_task()
        return op

    def __aexit__(self, exc_type, exc, tb):
        held = self.bus.held
        if held and held.holds is core.cur_task:
            self.bus.release()
        return _nothing
