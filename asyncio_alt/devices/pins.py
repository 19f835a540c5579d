"""Edges, Button, Encoder and Pulse: pins that feed tasks through interrupts."""

from array import array
from time import ticks_diff, ticks_ms, ticks_us

from micropython import const

from .. import core
from ..event import Event, ThreadSafeFlag
from ..funcs import wait_for_ms

_MOST = const(0x3FFFFFFF)  # the largest int that takes no heap on a 32-bit port
_LOST = const(2)  # in a level: edges were lost before this one
_TAPS = const(16)  # of a Button, a power of two

_used = {}  # pin -> the object that has its interrupt


def _int(name, value, least, most=_MOST):
    if not isinstance(value, int):
        raise TypeError("%s must be an int" % name)
    if not least <= value <= most:
        raise ValueError("%s must be %d to %d" % (name, least, most))


def _free(name, pin):
    if not hasattr(pin, "irq"):
        raise TypeError(name + " must be a machine.Pin")
    if pin in _used:
        raise ValueError("%s: %s has it" % (name, type(_used[pin]).__name__))


class _Pins:
    # Has the interrupts of some pins, and is an async iterator for one task.
    def __init__(self, pins, handler, trigger):
        self._flag = ThreadSafeFlag()
        self._pins = pins
        try:
            for pin in pins:
                _used[pin] = self
                try:
                    pin.irq(handler, trigger, hard=True)
                except TypeError:  # a port without hard interrupts
                    pin.irq(handler, trigger)
        except BaseException:
            self.close()
            raise

    def close(self):
        """Gives the pins' interrupts back and ends the iteration, now. May be called twice; not
        from an interrupt."""
        for pin in self._pins:
            pin.irq(None)
            _used.pop(pin, None)
        self._pins = ()
        self._flag.set()

    async def __aenter__(self):
        return self

    async def __aexit__(self, exc_type, exc, tb):
        self.close()

    def __aiter__(self):
        return self

    async def __anext__(self):
        while self._pins:
            value = self._next()
            if value is not None:
                return value
            await self._flag.wait(self.priority)
        raise StopAsyncIteration

    def feed(self, broker, topic):
        """Makes a Task that publishes each value, until close(). broker: a pubsub.Broker;
        topic: str. TypeError or ValueError for other values."""
        if not hasattr(broker, "publish"):
            raise TypeError("broker must be a pubsub.Broker")
        if not isinstance(topic, str):
            raise TypeError("topic must be a str")
        if not topic or "+" in topic or "#" in topic:
            raise ValueError("topic must not be empty nor have + or #")
        return core.create_task(self._feed(broker, topic))

    async def _feed(self, broker, topic):
        async for value in self:
            broker.publish(topic, value)


class _Ring(_Pins):
    # Edges of one pin, with their time; written by the interrupt, read by one task.
    def __init__(self, pin, trigger, size, priority):
        _int("size", size, 1, 65535)
        both = pin.IRQ_RISING | pin.IRQ_FALLING
        if not isinstance(trigger, int) or not trigger or trigger & ~both:
            raise ValueError("trigger must be IRQ_RISING, IRQ_FALLING or both")
        self.overruns = 0
        self.priority = priority
        self._both = trigger == both
        self._us = array("i", [0] * (size + 1))
        self._levels = bytearray(size + 1)
        self._end = size + 1
        self._in = 0  # where the next edge goes; changed by the interrupt only
        self._out = 0  # where the oldest is; changed by the task only
        self._level = pin() if self._both else 0 if trigger == pin.IRQ_RISING else 1
        self._lost = 0
        _Pins.__init__(self, (pin,), self._edge, trigger)

    def _edge(self, pin):
        us = ticks_us()
        level = 1 - self._level
        if self._both:
            if pin() != level:
                # One more edge has come before the handler looked: this is the last of them.
                level = 1 - level
                self._lose()
            self._level = level
        i = self._in
        following = i + 1
        if following == self._end:
            following = 0
        if following == self._out:
            self._lose()
        else:
            self._us[i] = us
            self._levels[i] = level | self._lost
            self._lost = 0
            self._in = following
        self._flag.set()

    def _lose(self):
        self._lost = _LOST
        self.overruns = self.overruns + 1 & _MOST

    def _take(self):
        # The oldest edge's place in the ring, -1 if the ring is empty; the place is free at the
        # next call of _done().
        return -1 if self._out == self._in else self._out

    def _done(self, i):
        i += 1
        self._out = 0 if i == self._end else i


class Edges(_Ring):
    """Edges of one pin as an async iterator of (us, level), for one task: us is time.ticks_us() in
    the hard interrupt, level the pin's new level. It begins at once; leave it by `async with` or
    close(). An edge ends the sleep of power_mode().

    pin: machine.Pin; trigger: Pin.IRQ_RISING, Pin.IRQ_FALLING or both (int, default: both); size:
    how many edges wait at most for the task (int, 1 to 65535); priority: True to have the task go
    on ahead of the ready ones. overruns: how many edges were lost, because there was no room or
    because another came before the interrupt had looked, which is an estimate. TypeError or
    ValueError for other values, and if something here has the pin already."""

    def __init__(self, pin, trigger=None, size=16, priority=False):
        _free("pin", pin)
        if trigger is None:
            trigger = pin.IRQ_RISING | pin.IRQ_FALLING
        _Ring.__init__(self, pin, trigger, size, priority)

    def _next(self):
        i = self._take()
        if i >= 0:
            value = self._us[i], self._levels[i] & 1
            self._done(i)
            return value


class Pulse(_Ring):
    """Widths of a pin's pulses as an async iterator of us (int), for one task. A pulse of which an
    edge was lost is left out. Also its end is measured in a hard interrupt.

    level: 1 for the time that the pin is high, 0 for the time that it is low; the rest is as for
    Edges. A pulse that is longer than 8 minutes is measured wrong."""

    def __init__(self, pin, level=1, size=16, priority=False):
        _free("pin", pin)
        _int("size", size, 1, 32767)
        if level not in (0, 1):
            raise ValueError("level must be 0 or 1")
        self._wanted = level
        self._begin = None  # us, when the pulse began
        _Ring.__init__(self, pin, pin.IRQ_RISING | pin.IRQ_FALLING, size * 2, priority)

    def _next(self):
        while True:
            i = self._take()
            if i < 0:
                return
            us = self._us[i]
            level = self._levels[i]
            self._done(i)
            begin = self._begin
            self._begin = us if level & 1 == self._wanted else None
            if begin is not None and level == 1 - self._wanted:
                return ticks_diff(us, begin)


class Encoder(_Pins):
    """A rotary encoder, or another quadrature signal, as an async iterator of its position (int),
    for one task: it gives the newest position whenever that is not the one given last. Each edge
    is counted in a hard interrupt.

    pin_a, pin_b: machine.Pin; it counts up where pin_a changes first; div: how many edges make one
    step (int, 4 for most encoders with detents); limits: (lowest, highest) position, at which it
    stops, or None; priority: as of Edges.
    position: where it is, from 0 on, may be set; errors: how often two edges came at once and the
    direction was taken from those before. TypeError or ValueError for other values, and if
    something here has a pin already."""

    def __init__(self, pin_a, pin_b, div=1, limits=None, priority=False):
        _free("pin_a", pin_a)
        _free("pin_b", pin_b)
        _int("div", div, 1, 65535)
        if limits is None:
            limits = -(_MOST // div), _MOST // div - 1
        elif not isinstance(limits, (tuple, list)) or len(limits) != 2:
            raise TypeError("limits must be (lowest, highest) or None")
        least, most = limits
        _int("limits[0]", least, -(_MOST // div))
        _int("limits[1]", most, least, _MOST // div - 1)
        if pin_a is pin_b:
            raise ValueError("pin_a and pin_b must be two pins")
        self.errors = 0
        self.priority = priority
        self._div = div
        self._low = least * div
        self._high = most * div + div - 1
        self._edges = min(max(0, self._low), most * div)
        self._a = pin_a
        self._b = pin_b
        self._phase = pin_a() * 3 ^ pin_b()  # 0 to 3 in the order of turning
        self._way = 1
        self._given = self.position
        _Pins.__init__(self, (pin_a, pin_b), self._edge, pin_a.IRQ_RISING | pin_a.IRQ_FALLING)

    def _edge(self, _):
        phase = self._a() * 3 ^ self._b()
        way = phase - self._phase & 3
        if way:
            self._phase = phase
            if way == 2:
                self.errors = self.errors + 1 & _MOST
                way = self._way << 1
            else:
                self._way = way = way - 2
            n = self._edges + way
            if n < self._low:
                n = self._low
            elif n > self._high:
                n = self._high
            self._edges = n
            self._flag.set()

    @property
    def position(self):
        return self._edges // self._div

    @position.setter
    def position(self, value):
        _int("position", value, self._low // self._div, self._high // self._div)
        self._edges = value * self._div
        self._flag.set()

    def _next(self):
        n = self._edges // self._div
        if n != self._given:
            self._given = n
            return n


class Button(_Pins):
    """A button or switch, debounced: a level counts once it has been steady for debounce_ms, also
    while the loop is busy. Between the edges nothing runs. Any number of tasks await press(),
    release(), double() and long(), each of which waits for the next one from now. It is an async
    iterator of these names (str), too, for one task, which loses none from its first wait on. It
    ends with close() and with the run() of the loop.

    pin: machine.Pin, with a pull if it needs one; pressed: its level then, 0 or 1; debounce_ms:
    int; double_ms: a press within this time of the one before is "double", too; long_ms: a press
    that lasts for so long is "long", too, at that moment. overruns: how many were lost because
    15 waited for the loop, or for the iterator's task. TypeError or ValueError for other values,
    and if something here has the pin already."""

    priority = False

    def __init__(self, pin, pressed=0, debounce_ms=20, double_ms=400, long_ms=1000):
        _free("pin", pin)
        if pressed not in (0, 1):
            raise ValueError("pressed must be 0 or 1")
        _int("debounce_ms", debounce_ms, 1, 10000)
        _int("double_ms", double_ms, 1, 1000000)
        _int("long_ms", long_ms, 1, 1000000)
        self.overruns = 0
        self._pressed = pressed
        self._debounce = debounce_ms
        self._double = double_ms
        self._long = long_ms
        self._events = {kind: Event() for kind in ("press", "release", "double", "long")}
        self._kinds = None  # list: the names that the iterator has not given yet
        self._ms = ticks_ms()  # of the last edge
        self._level = self._steady = self._now = pin()  # after it; written into the ring; told
        # Steady levels and since when, written by the interrupt at the edge that ends them.
        self._since = array("i", [0] * _TAPS)
        self._levels = bytearray(_TAPS)
        self._in = self._out = 0
        self._edges = ThreadSafeFlag()
        _Pins.__init__(self, (pin,), self._edge, pin.IRQ_RISING | pin.IRQ_FALLING)
        self._task = core.create_task(self._run())

    def press(self):
        """Awaitable: the button is pressed."""
        return self._events["press"].wait()

    def release(self):
        """Awaitable: the button is released."""
        return self._events["release"].wait()

    def double(self):
        """Awaitable: the button is pressed for the second time within double_ms."""
        return self._events["double"].wait()

    def long(self):
        """Awaitable: the button has been pressed for long_ms."""
        return self._events["long"].wait()

    def is_pressed(self):
        """Whether it is pressed (bool)."""
        return self._now == self._pressed

    def close(self):
        """As of Edges. A task that awaits one of the methods goes on waiting."""
        _Pins.close(self)
        self._edges.set()  # ends the task

    def _edge(self, pin):
        now = ticks_ms()
        level = self._level
        if level != self._steady and ticks_diff(now, self._ms) >= self._debounce:
            i = self._in
            following = i + 1 & _TAPS - 1
            if following == self._out:
                self.overruns = self.overruns + 1 & _MOST
            else:
                self._since[i] = self._ms
                self._levels[i] = level
                self._in = following
                self._steady = level
        self._ms = now
        self._level = pin()
        self._edges.set()

    async def _run(self):
        first = None  # ms, when the press began that the next may make a double
        due = None  # ms, when the press gets long
        try:
            while self._pins:
                i = self._out
                if i != self._in:
                    since = self._since[i]
                    level = self._levels[i]
                    self._out = i + 1 & _TAPS - 1
                else:
                    since = self._ms
                    level = self._level
                    if level != self._now:
                        left = self._debounce - ticks_diff(ticks_ms(), since)
                        if left > 0:
                            await core.sleep_ms(left)
                            continue
                        if since != self._ms or i != self._in:
                            continue  # an edge has come in between
                    elif due is None:
                        await self._edges.wait()
                        continue
                    else:
                        left = ticks_diff(due, ticks_ms())
                        try:
                            await wait_for_ms(self._edges.wait(), max(left, 1))
                        except core.TimeoutError:
                            due = None
                            self._tell("long")
                        continue
                if level == self._now:
                    continue
                self._now = level
                if level == self._pressed:
                    due = core.ticks_add(since, self._long)
                    self._tell("press")
                    if first is None or ticks_diff(since, first) > self._double:
                        first = since
                    else:
                        first = None
                        self._tell("double")
                else:
                    if due is not None and ticks_diff(since, due) >= 0:
                        self._tell("long")
                    due = None
                    self._tell("release")
        finally:
            self.close()

    def _tell(self, kind):
        event = self._events[kind]
        event.set()
        event.clear()
        if self._kinds is not None:
            if len(self._kinds) < _TAPS - 1:
                self._kinds.append(kind)
                self._flag.set()
            else:
                self.overruns += 1

    def _next(self):
        if self._kinds is None:
            self._kinds = []
        elif self._kinds:
            return self._kinds.pop(0)

    def feed(self, broker, topic):
        """Makes a Task that publishes True under topic/press, topic/release, topic/double and
        topic/long, until close(). broker: a pubsub.Broker; topic: str."""
        return _Pins.feed(self, broker, topic)

    async def _feed(self, broker, topic):
        async for kind in self:
            broker.publish(topic + "/" + kind, True)
