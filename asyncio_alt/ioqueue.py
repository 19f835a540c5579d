"""IOQueue: the streams that tasks wait for; the priority of I/O; and buffers as bytes."""

import select
import sys
from io import BytesIO

from micropython import const

try:
    import uctypes
except ImportError:
    uctypes = None

from . import core

POLLPRI = 2  # a stream's ioctl reports it to have its reader woken with priority
_POLLIN = const(1)
_POLLPRI = const(2)
_POLLOUT = const(4)
_LOOK_MS = const(10)  # how often a sleeping loop looks at streams written in Python

# An entry: what waits for a stream. A list, as an object takes more heap and time.
_READER = const(0)  # the task that waits to read it, or None
_WRITER = const(1)  # the task that waits to write it, or None
_STREAM = const(2)
_EVENTS = const(3)  # to poll for the reader, with _POLLPRI if it has priority
_SOFT = const(4)  # the stream is written in Python
_WATCHER = const(5)  # None, or the w of watch(); then it is the reader too
_SEEN = const(6)  # the events of the last poll, for the watcher
_NEXT = const(7)  # the next entry of those that have a watcher to be called

# MicroPython finds a global name faster than that of a builtin function.
_hasattr = hasattr

_sink = BytesIO(1)

_key = id  # what a stream is found by
if id(_sink) > sys.maxsize // 2:
    # Objects lie so high that an id() is no small int: it would take memory at each event.
    def _key(s):
        return s


# Servers and transports, as keys: each has a _fail(exc), which is called when run() ends.
opened = {}


def _drop():
    # Called by core when it forgets all that waits.
    while opened:
        opened.popitem()[0]._fail(None)


core.drop = _drop


def octets(buf, what):
    """Returns a buffer as one with items of one byte: the buffer itself if its items are bytes,
    else a bytearray at its address, which lives no longer than it. `what` (str): the name for
    errors. TypeError if it is no buffer, or if this MicroPython has no uctypes."""
    try:
        if isinstance(buf, str):
            raise TypeError
        n = size = len(buf)
        # The interpreter does not tell the size of an item, but a write counts in bytes: has the
        # buffer any from n on? Most have none, and then nothing is allocated.
        while _sink.write(buf, n, 1):
            n += size
    except TypeError:
        raise TypeError(what + " must be bytes-like")
    if n != size:
        _sink.seek(0)
        if not uctypes:
            raise TypeError(what + " must have items of one byte")
        return uctypes.bytearray_at(uctypes.addressof(buf), n)
    return buf


def roundrobin(on=None):
    """Sets and returns the mode (bool). True: a task woken by I/O takes its turn behind the
    ready tasks, as in stock asyncio. False: it runs next, ahead of all that became ready within
    the last priority_window() ms."""
    if on is not None:
        core.io_ahead = not on
    return not core.io_ahead


def priority_window(ms=None):
    """Sets and returns the window in ms (int, 1 to 2**20; at first 1000): how far a priority
    wake-up is put ahead. It bounds starvation: a task that has been ready for longer than the
    window runs before newer priority wake-ups."""
    if ms is not None:
        if not isinstance(ms, int):
            raise TypeError("priority_window: ms must be an int")
        if not 1 <= ms <= 1048576:
            raise ValueError("priority_window: ms must be 1 to 2**20")
        core.ahead = -ms
    return -core.ahead


class _NoPoller:
    # Stands for the poller that a failed register() has left broken, so that a poll would crash,
    # until there is memory for another.

    def ipoll(self, dt):
        core.poller = self
        try:
            core.new_poller()
            for e in core.streams.values():
                core.poller.register(e[_STREAM], 0)
                core._io_queue._update(e)
        except MemoryError:
            core.poller = self
            return ()
        return core.poller.ipoll(dt)

    def register(self, s, ev=0):
        pass

    modify = unregister = register


_no_poller = _NoPoller()


class IOQueue:
    """The streams that are waited for. The loop has one; programs need it to wait in a way that no
    stream class offers."""

    octets = staticmethod(octets)  # for modules that load this one with their first wait
    opened = opened

    def __init__(self):
        self.map = core.streams  # _key(stream) -> an entry
        self.soft = 0  # how many are written in Python
        self._start()

    def _update(self, e):
        # Poll for the events that are still waited for.
        ev = e[_EVENTS] if e[_READER] else 0
        if e[_WRITER]:
            ev |= _POLLOUT
        if ev:
            core.poller.modify(e[_STREAM], ev)
        else:
            s = e[_STREAM]
            core.poller.unregister(s)
            del self.map[_key(s)]
            if e[_SOFT]:
                self.soft -= 1

    def enqueue(self, s, side, ev, t, w=None):
        """As queue_read() (side 0) or queue_write() (1) for the task t; ev: the events to poll
        for; w: for watch()."""
        e = self.map.get(_key(s))
        if e is None:
            soft = _hasattr(s, "ioctl")
            if not soft and _hasattr(s, "fileno") and s.fileno() < 0:
                raise OSError(9)  # EBADF: a closed socket, which the kernel polls in silence
            self.map[_key(s)] = e = [None, None, s, ev, soft, w, 0, None]
            try:
                core.poller.register(s, ev)
            except Exception as er:
                del self.map[_key(s)]
                _no_poller.ipoll(0)
                if isinstance(er, MemoryError):
                    raise
                raise TypeError("stream cannot be polled: %r (%r)" % (s, er))
            if soft:
                self.soft += 1
        elif e[side] or e[_WATCHER]:
            raise RuntimeError("another task waits to %s it" % ("write" if side else "read"))
        else:
            # It may have no one that waits, if a KeyboardInterrupt came in here.
            core.poller.register(
                s, ev | (e[_EVENTS] if e[_READER] else 0) | (_POLLOUT if e[_WRITER] else 0)
            )
            if side == _READER:
                e[_EVENTS] = ev
        # From here on to the yield is no jump, at which a KeyboardInterrupt would come.
        e[side] = t
        t.data = self  # so that Task.cancel() calls remove()

    def queue_read(self, s, priority=False):
        """Has the loop wake the current task when the stream s can be read; the caller then
        yields. priority: to run next. RuntimeError if another task waits to read s."""
        self.enqueue(
            s,
            _READER,
            _POLLIN | _POLLPRI if priority else _POLLIN,
            core.cur_task or core.current_task(),
        )

    def queue_write(self, s):
        """Has the loop wake the current task when the stream s can be written; the caller then
        yields. RuntimeError if another task waits to write s."""
        self.enqueue(s, _WRITER, _POLLOUT, core.cur_task or core.current_task())

    def watch(self, s, ev, w):
        """Has w._ready(events) called after each poll in which the stream s had one of the events
        ev (int; 0: no more), w._raised(exc) if that raised, and w._fail(exc) if the poll raised
        because of s. w.data is set, and means nothing. RuntimeError if a task waits for s."""
        e = self.map.get(_key(s))
        if e and e[_WATCHER] is w:
            e[_EVENTS] = ev
            self._update(e)
        elif e:
            raise RuntimeError("a task waits for it")
        elif ev:
            w.data = self  # before the loop knows of w: there may be no memory
            self.enqueue(s, _READER, ev, w, w)

    @property
    def poller(self):
        """The loop's poller, as in stock."""
        return core.poller

    def _dequeue(self, s):
        # As in stock: forget the stream, whoever waits for it.
        e = self.map.get(_key(s))
        if e:
            e[_READER] = e[_WRITER] = None
            self._update(e)

    def remove(self, task):
        # Called by Task.cancel(). The other side of the stream goes on waiting.
        for k in self.map:
            e = self.map[k]
            if e[_READER] is task:
                e[_READER] = None
            elif e[_WRITER] is task:
                e[_WRITER] = None
            else:
                continue
            self._update(e)
            break

    def fail(self, s, exc):
        """Raises exc (None: OSError, EBADF) in the tasks that wait for the stream s, and forgets
        s."""
        e = self.map.get(_key(s))
        if not e:
            return
        exc = exc or OSError(9)
        if e[_WATCHER]:
            e[_WATCHER]._fail(exc)
        else:
            for i in (_READER, _WRITER):
                if e[i]:
                    core.wake(e[i])
                    e[i].data = exc
                    e[i] = None
            self._update(e)

    def _blame(self):
        # The poll raised: raise it in the tasks that wait for the streams at fault. Returns how
        # many streams that were.
        n = 0
        for e in list(self.map.values()):
            try:
                p = select.poll()
                p.register(
                    e[_STREAM], (e[_EVENTS] if e[_READER] else 0) | (_POLLOUT if e[_WRITER] else 0)
                )
                p.poll(0)
            except MemoryError:
                pass
            except Exception as er:
                self.fail(e[_STREAM], er)
                n += 1
        return n

    def _waiter(self):
        # wait_io_event(dt) is this generator's send(): polls for dt ms (0: a look; -1: no limit)
        # and queues the tasks that can go on. It returns False if a callback may have taken tasks
        # out of the queue. MicroPython puts the frame of a function with so
        # many locals on the heap at each call; a generator's stays. Where callbacks allocate
        # inside such a frame it is worse: the search for free memory begins at the gap that the
        # frame leaves, so each time it goes through all that was allocated since.
        streams = self.map
        get = streams.get
        rung = hurry = False
        calm = True
        due = None  # an entry with a watcher to be called, and in it the next
        try:
            dt = yield
            while True:
                if self.soft:
                    if not dt:
                        hurry = core.bell.hurry
                        if hurry:
                            core.poller.modify(core.bell.stream, _POLLIN | _POLLOUT)
                    elif not 0 < dt < _LOOK_MS:
                        dt = _LOOK_MS  # no interrupt tells of them
                try:
                    t = dt and core._task_queue.peek()
                    # As in the loop: the time is reckoned last.
                    for s, ev in core.poller.ipoll(
                        dt if not t else max(0, min(dt, core.ticks_diff(t.ph_key, core.ticks())))
                    ):
                        e = get(_key(s))
                        if e is None:
                            rung = ev & _POLLIN
                            continue
                        if e[_WATCHER]:
                            e[_SEEN] = ev
                            e[_NEXT] = due
                            due = e
                            continue
                        # An error or a hang-up wakes both sides.
                        t = e[_READER]
                        if t and ev & ~_POLLOUT:
                            e[_READER] = None
                            if (ev | e[_EVENTS]) & _POLLPRI or core.io_ahead:
                                core.push(t, core.ticks_add(core.ticks(), core.ahead))
                            else:
                                core.push(t)
                        t = e[_WRITER]
                        if t and ev & ~(_POLLIN | _POLLPRI):
                            e[_WRITER] = None
                            if core.io_ahead:
                                core.push(t, core.ticks_add(core.ticks(), core.ahead))
                            else:
                                core.push(t)
                        if e[_READER] or e[_WRITER] or e[_SOFT]:
                            self._update(e)
                        else:  # the same for what is most frequent, without a call
                            core.poller.unregister(s)
                            del streams[_key(s)]
                except Exception as er:
                    calm = False
                    if not self._blame():
                        core.report("Exception in a poll", er)  # it has passed
                if hurry:
                    hurry = False
                    core.poller.modify(core.bell.stream, _POLLIN)
                if rung:
                    calm = rung = False
                    core.answer()
                if due:
                    calm = False
                    if dt:
                        core.asleep = False
                    else:
                        core.cur_task = None
                    while due:
                        e = due
                        due = e[_NEXT]
                        e[_NEXT] = None
                        try:
                            e[_WATCHER]._ready(e[_SEEN])
                        except Exception as er:
                            try:
                                e[_WATCHER]._raised(er)
                            except MemoryError:
                                pass  # not even for that; it is called again
                dt = yield calm
                calm = True
        finally:
            self._start()  # KeyboardInterrupt or the like ends it; run() goes on for a while

    def _start(self):
        gen = self._waiter()
        next(gen)
        self.wait_io_event = gen.send
