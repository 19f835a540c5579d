"""The wait of the loop while nothing is due: it may sleep with the chip's clocks stopped."""

import sys
from time import ticks_diff, ticks_ms, ticks_us

from micropython import const, schedule

from . import core

try:
    import machine

    _lightsleep = machine.lightsleep
except (ImportError, AttributeError):
    _lightsleep = None

_MAX_MS = const(4000000)  # the longest lightsleep: rp2 takes 71 minutes
_LEAST_MS = const(2)  # the shortest: 0 and 1 ms are an ordinary delay
_TRY_MS = const(20)
_FOLD_MS = const(1000000)  # keeps sums of ms small ints

if sys.platform == "rp2" and sys.implementation.version < (1, 26):
    # There lightsleep takes the hardware alarm of machine.Timer; registers tell whether that is
    # armed, for when, and whether it has just gone off.
    if "RP2350" in sys.implementation._machine:
        _ARMED = 0x400B0020
        _INTR = 0x400B003C
    else:
        _ARMED = 0x40054020
        _INTR = 0x40054034
    _ALARM = _ARMED - 4
    _ALARM_HIGH = _ARMED - 2
else:
    _ARMED = None

if sys.platform == "rp2":
    _USB = 0x50110000  # its controller's register ADDR_ENDP
    _SIE_STATUS = 0x50110050  # another, read by halves: the whole is no small int
    try:
        from network import WLAN

        _wlans = WLAN(0), WLAN(1)  # station and access point
    except ImportError:
        _wlans = ()

_BUS = __name__[:-4] + "devices.bus"
_hook = None  # the hook of set_idle_hook()
_awake = 0  # how many stay_awake() are open
_state = None  # rp2: the address of the scheduler's state, once it is known
_seen = None


def set_idle_hook(hook):
    """Has the loop call hook(ms, polled) whenever it would wait; None: it waits by itself.

    ms: until the next deadline (int), -1 if there is no deadline. polled: True if tasks wait for
    streams, which only the loop's poll sees. The hook waits and returns None; or it returns how
    many ms the loop is to wait instead (int, -1: as long as it may), which is never past the
    deadline. Then the loop looks for events; if nothing has happened, it calls the hook again.

    It must return soon after an interrupt, and must not allocate. An exception that it raises goes
    to the exception handler, and the hook is dropped. TypeError if it cannot be called. This
    function itself is not to be called from a hard interrupt."""
    global _hook
    if hook is not None and not callable(hook):
        raise TypeError("set_idle_hook: hook must be callable or None")
    call = int if hook is None else _idle
    # No jump in between, at which a scheduled callback could set another.
    _hook = hook
    core.idle = call


def _idle(ms):
    hook = _hook
    if hook is None:
        return ms  # a scheduled callback has taken it away just now
    try:
        n = int(hook(ms, bool(core.streams)) or 0)
    except Exception as er:
        if _hook is hook:
            set_idle_hook(None)
        core.report("Exception in the idle hook", er)
        return 0
    if ms < 0:
        return min(n, _MAX_MS) if n >= 0 else -1
    return n if 0 <= n < ms else ms


def power_mode(on=None):
    """Switches light sleep on (True, or a LightSleep to use) or off (False), at any time. Returns
    the LightSleep in use, or False. ValueError where the port has no lightsleep that serves. Not
    to be called from a hard interrupt."""
    if on is not None:
        if not on:
            if isinstance(_hook, LightSleep):
                set_idle_hook(None)
        elif isinstance(on, LightSleep):
            set_idle_hook(on)
        elif not isinstance(_hook, LightSleep):
            set_idle_hook(LightSleep())
    hook = _hook
    return isinstance(hook, LightSleep) and hook


class stay_awake:
    """A context that keeps a LightSleep from sleeping, as for bytes that are on their way:
    `with stay_awake(): ...`. They may be nested, and be open in several tasks."""

    def __enter__(self):
        global _awake
        _awake += 1

    def __exit__(self, exc_type, exc, tb):
        global _awake
        _awake -= 1


def _alarm():
    # ms until machine.Timer's hardware alarm, where lightsleep takes that over. It stays armed for
    # a Timer that was stopped, too. The clock has 30 bits of the alarm's 32, so it may be early.
    if not _ARMED:
        return _MAX_MS
    if machine.mem32[_INTR] & 8:
        return 0
    if not machine.mem32[_ARMED] & 8:
        return _MAX_MS
    us = (machine.mem16[_ALARM_HIGH] & 0x3FFF) << 16 | machine.mem16[_ALARM]
    return (ticks_diff(us, ticks_us()) & 0x3FFFFFFF) // 1000


def _linked():
    # True if USB or WiFi is up: a host has given us a USB address, and has not stopped talking.
    if sys.platform == "rp2":
        if machine.mem32[_USB] & 127 and not machine.mem16[_SIE_STATUS] & 16:
            return True
        for wlan in _wlans:
            if wlan.active():
                return True


def _transfers():
    # True if a bus of `devices` is in use. That is loaded by those who have one.
    bus = sys.modules.get(_BUS)
    return bus and bus.busy()


def _look(a):
    global _seen
    _seen = machine.mem16[a]


def _search():
    # Find the scheduler's state, 16 bits in the interpreter's state behind the table of modules:
    # 1 while it has nothing to do, 0 while something waits to be called, -1 in a callback. Nothing
    # else takes these values in step. False in a callback, and where it is not found.
    global _state, _seen
    mem16 = machine.mem16
    begin = id(sys.modules) & ~3
    for a in range(begin, begin + 2048, 2):
        if mem16[a] == 1:
            _seen = 1
            try:
                schedule(_look, a)
                n = mem16[a]  # no jump before it
            except RuntimeError:
                n = 1  # the queue is full
            for _ in range(9):
                pass  # they are called
            if not n and _seen == 0xFFFF and mem16[a] == 1:
                _state = a
                return True
    return False


def _left(n):
    # How many ms to sleep, n at most: up just before the next deadline, for how far the last
    # millisecond has gone is not known. There is no jump from the clock to the end, at which a
    # scheduled callback could run and take its time.
    t = core._task_queue.peek()
    return n if not t else max(1, min(n, ticks_diff(t.ph_key, core.ticks()) - 1))


def _down(n):
    # Interrupts are off, and the scheduler has nothing to do.
    n = _left(n)
    alarm = _alarm()
    if min(n, alarm) >= _LEAST_MS and not core.bell.rung():
        _lightsleep(min(n, alarm))
        if _ARMED and alarm == _MAX_MS:
            # Disarm: it would end the next sleep. If it was armed before, it is to go off: then
            # the port arms it for the next Timer, if there is one.
            machine.mem32[_ARMED] = 8


_ways = abs, _down


def _whole(n):
    # Sleep unless the bell has rung or a callback waits to be called. Interrupts are off from that
    # look on, and one that is pending ends lightsleep, so none is slept over. The look leaves the
    # scheduler's queue alone: an entry can be taken out only by calling those before it.
    # MicroPython calls waiting callbacks at the next jump. So there is no jump until interrupts
    # are on again, or it is known that nothing waits: a 0 in the state picks abs, which does
    # nothing. 1 and -1 (the loop runs in a callback, and none is called) pick _down.
    state = machine.disable_irq()
    try:
        _ways[machine.mem16[_state] & 1](n)
    finally:
        machine.enable_irq(state)


def _slice(n):
    if not core.bell.rung():
        _lightsleep(_left(n))


def _check():
    # Raise ValueError if the port's lightsleep is of no use to a loop.
    if not _lightsleep:
        raise ValueError("power mode: this port has no machine.lightsleep")
    if sys.platform == "rp2":
        return  # known, and a trial says nothing while USB ends each sleep
    try:
        for _ in range(3):  # an interrupt may end one early
            begin = ticks_ms()
            _lightsleep(_TRY_MS)
            if ticks_diff(ticks_ms(), begin) >= _TRY_MS // 2:
                return
    except NotImplementedError:
        raise ValueError("power mode: machine.lightsleep is not implemented on this port")
    raise ValueError("power mode: time.ticks_ms stands still in machine.lightsleep")


class LightSleep:
    """An idle hook that sleeps with machine.lightsleep: up to the next deadline in one go while
    only deadlines and interrupts can wake a task.

    While a task waits for a stream it does not sleep: a UART, SPI, I2S, PIO or socket loses data
    that comes in while the clocks stand. allow(stream) takes that loss for one stream,
    streams=True for all; then it sleeps slice_ms at a time, and the loop looks at the streams in
    between. Nor does it sleep on rp2 while a USB host is connected or WiFi is active.

    slice_ms: int, 2 to 4000000. veto: called without arguments, from the loop, before each sleep
    and every slice_ms while it returns true, which prevents the sleep. min_ms: int, 3 to 4000000,
    the shortest wait that is worth a sleep. TypeError, ValueError for other values; ValueError
    where the port has no lightsleep that serves, which takes up to 60 ms of it to find out."""

    def __init__(self, slice_ms=20, veto=None, min_ms=3, streams=False):
        _int("slice_ms", slice_ms, _LEAST_MS)
        _int("min_ms", min_ms, _LEAST_MS + 1)
        if veto is not None and not callable(veto):
            raise TypeError("LightSleep: veto must be callable or None")
        _check()
        self._slice = slice_ms
        self._veto = veto
        self._min = min_ms
        self._streams = streams
        self._allowed = {}  # id(stream) -> stream
        # Only rp2 is known to end a lightsleep at once on an interrupt that came just before.
        # None: to be found out in the loop.
        self._sleep = _slice
        if sys.platform == "rp2":
            self._sleep = _whole if _state or _search() else None
        self._ms = [0, 0]  # awake, asleep, each less _FOLD_MS times
        self._folds = [0, 0]
        self._sleeps = self._early = self._vetoes = 0
        self._since = ticks_ms()  # up to when _ms counts

    def allow(self, stream):
        """Lets the chip sleep, slice_ms at a time, while a task waits for this stream. Data that
        comes in or goes out meanwhile may be lost."""
        self._allowed[id(stream)] = stream

    def _may(self):
        if not self._streams:
            for e in core.streams.values():
                if id(e[2]) not in self._allowed:
                    return False
        return True

    def _count(self, i):
        # The time since the last call was spent awake (0) or asleep (1); returns it.
        now = ticks_ms()
        passed = ticks_diff(now, self._since)
        self._since = now
        ms = self._ms[i] + passed
        self._folds[i] += ms // _FOLD_MS
        self._ms[i] = ms % _FOLD_MS
        return passed

    def __call__(self, ms, polled):
        self._count(0)
        if polled and not self._may():
            self._vetoes += 1
            return ms if ms >= 0 else _MAX_MS  # so that _count() sees the clock wrap
        if _awake or _linked() or _transfers():
            self._vetoes += 1
            return self._slice
        if 0 <= ms < self._min:
            if ms != 1:
                return ms - 1
            # A poll of 1 ms may last for 2, and so let periods drift.
            t = core._task_queue.peek()
            while t and ticks_diff(t.ph_key, core.ticks()) > 0 and not core.bell.rung():
                pass
            return
        if self._veto and self._veto():  # not before a short wait, than which it may take longer
            self._vetoes += 1
            return self._slice
        if _alarm() < _LEAST_MS:
            return 1
        if not self._sleep:
            self._sleep = _whole if _state or _search() else _slice
        n = self._slice if polled or self._sleep is _slice else _MAX_MS
        if 0 <= ms <= n:
            n = ms - 1
        self._sleep(n)
        self._sleeps += 1
        if self._count(1) < n:
            self._early += 1

    def stats(self):
        """Returns a dict: asleep_ms and awake_ms since this LightSleep was made; sleeps; early,
        those that ended before their time, by an interrupt; vetoes, how often it was kept from
        sleeping by a stream, a transfer of `devices`, USB, WiFi, the veto or stay_awake(). Times
        are right as long as the loop waits at least once in 6 days."""
        self._count(0)
        awake, asleep = (f * _FOLD_MS + ms for f, ms in zip(self._folds, self._ms))
        return {
            "asleep_ms": asleep,
            "awake_ms": awake,
            "sleeps": self._sleeps,
            "early": self._early,
            "vetoes": self._vetoes,
        }


def _int(name, value, least):
    if not isinstance(value, int):
        raise TypeError("LightSleep: %s must be an int" % name)
    if not least <= value <= _MAX_MS:
        raise ValueError("LightSleep: %s must be %d to %d" % (name, least, _MAX_MS))
