"""IOQueue: the streams that tasks wait for; the priority of I/O; and buffers as bytes."""

import select
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


_sink = BytesIO(1)

# Servers and transports, as keys: each has a _fail(exc), which is called when run() ends.
opened = {}


def _drop():
    # Called by core when it forgets all that waits.
    while opened:
        opened.popitem()[0]._fail(None)


core._drop = _drop


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
        core._io_ahead = None if on else core._ahead
    return core._io_ahead is None


def priority_window(ms=None):
    """Sets and returns the window in ms (int, 1 to 2**20; at first 1000): how far a priority
    wake-up is put ahead. It bounds starvation: a task that has been ready for longer than the
    window runs before newer priority wake-ups."""
    if ms is not None:
        if not isinstance(ms, int):
            raise TypeError("priority_window: ms must be an int")
        if not 1 <= ms <= 1048576:
            raise ValueError("priority_window: ms must be 1 to 2**20")
        core._ahead = -ms
        if core._io_ahead is not None:
            core._io_ahead = -ms
    return -core._ahead


class _NoPoller:
    # Stands for the poller that a failed register() has left broken, so that a poll would crash,
    # until there is memory for another.

    def ipoll(self, dt):
        core._poller = self
        try:
            core._new_poller()
            for e in core._streams.values():
                core._poller.register(e[2], 0)
                core._io_queue._update(e)
        except MemoryError:
            core._poller = self
            return ()
        return core._poller.ipoll(dt)

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
        # id(stream) -> [reader, writer, stream, events, soft, watcher, and two more]
        #   reader, writer: the task that waits, or None
        #   events: to poll for the reader, with _POLLPRI if it has priority
        #   soft: the stream is written in Python
        #   watcher: None, or the w of watch(); then it is the reader too
        #   two more: for wait_io_event()
        self.map = core._streams
        self.soft = 0  # how many are written in Python
        self._start()

    def _update(self, e):
        # Poll for the events that are still waited for.
        ev = e[3] if e[0] else 0
        if e[1]:
            ev |= _POLLOUT
        if ev:
            core._poller.modify(e[2], ev)
        else:
            core._poller.unregister(e[2])
            del self.map[id(e[2])]
            self.soft -= e[4]

    def enqueue(self, s, idx, ev, t):
        """As queue_read() (idx 0) or queue_write() (1) for the task t; ev: the events to poll
        for."""
        e = self.map.get(id(s))
        if e is None:
            if hasattr(s, "fileno") and s.fileno() < 0:
                raise OSError(9)  # EBADF: a closed socket, which the kernel polls in silence
            self.map[id(s)] = e = [None, None, s, ev, hasattr(s, "ioctl"), None, 0, None]
            try:
                core._poller.register(s, ev)
            except Exception as er:
                del self.map[id(s)]
                _no_poller.ipoll(0)
                if isinstance(er, MemoryError):
                    raise
                raise TypeError("stream cannot be polled: %r (%r)" % (s, er))
            self.soft += e[4]
        elif e[idx] or e[5]:
            raise RuntimeError("another task waits to %s it" % ("write" if idx else "read"))
        e[idx] = t
        if not idx:
            e[3] = ev
        if e[1 - idx]:
            self._update(e)
        t.data = self  # so that Task.cancel() calls remove()

    def queue_read(self, s, priority=False):
        """Has the loop wake the current task when the stream s can be read; the caller then
        yields. priority: to run next. RuntimeError if another task waits to read s."""
        self.enqueue(
            s,
            0,
            _POLLIN | _POLLPRI if priority else _POLLIN,
            core.cur_task or core.current_task(),
        )

    def queue_write(self, s):
        """Has the loop wake the current task when the stream s can be written; the caller then
        yields. RuntimeError if another task waits to write s."""
        self.enqueue(s, 1, _POLLOUT, core.cur_task or core.current_task())

    def watch(self, s, ev, w):
        """Has w._ready(events) called after each poll in which the stream s had one of the events
        ev (int; 0: no more), w._raised(exc) if that raised, and w._fail(exc) if the poll raised
        because of s. w.data is set, and means nothing. RuntimeError if a task waits for s."""
        e = self.map.get(id(s))
        if e and e[5] is w:
            e[3] = ev
            self._update(e)
        elif e:
            raise RuntimeError("a task waits for it")
        elif ev:
            self.enqueue(s, 0, ev, w)
            self.map[id(s)][5] = w

    @property
    def poller(self):
        """The loop's poller, as in stock."""
        return core._poller

    def _dequeue(self, s):
        # As in stock: forget the stream, whoever waits for it.
        e = self.map.get(id(s))
        if e:
            e[0] = e[1] = None
            self._update(e)

    def remove(self, task):
        # Called by Task.cancel(). The other side of the stream goes on waiting.
        for k in self.map:
            e = self.map[k]
            if e[0] is task:
                e[0] = None
            elif e[1] is task:
                e[1] = None
            else:
                continue
            self._update(e)
            break

    def fail(self, s, exc):
        """Raises exc in the tasks that wait for the stream s, and forgets s."""
        e = self.map.get(id(s))
        if e and e[5]:
            e[5]._fail(exc)
        elif e:
            for i in (0, 1):
                if e[i]:
                    core._wake(e[i])
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
                p.register(e[2], (e[3] if e[0] else 0) | (_POLLOUT if e[1] else 0))
                p.poll(0)
            except MemoryError:
                pass
            except Exception as er:
                self.fail(e[2], er)
                n += 1
        return n

    def _waiter(self):
        # wait_io_event(dt) is this generator's send(): polls for dt ms (0: a look; -1: no limit)
        # and queues the tasks that can go on. MicroPython puts the frame of a function with so
        # many locals on the heap at each call; a generator's stays. Where callbacks allocate
        # inside such a frame it is worse: the search for free memory begins at the gap that the
        # frame leaves, so each time it goes through all that was allocated since.
        try:
            dt = yield
            while True:
                rung = False
                hurry = False
                if self.soft:
                    if not dt:
                        hurry = core._bell.hurry
                        if hurry:
                            core._poller.modify(core._bell.stream, _POLLIN | _POLLOUT)
                    elif not 0 < dt < _LOOK_MS:
                        dt = _LOOK_MS  # no interrupt tells of them
                push = core._push
                due = None  # an entry with a watcher to be called, and in it the next
                try:
                    t = dt and core._task_queue.peek()
                    # As in the loop: the time is reckoned last.
                    for s, ev in core._poller.ipoll(
                        dt if not t else max(0, min(dt, core.ticks_diff(t.ph_key, core.ticks())))
                    ):
                        e = self.map.get(id(s))
                        if e is None:
                            rung = ev & _POLLIN
                            continue
                        if e[5]:
                            e[6] = ev
                            e[7] = due
                            due = e
                            continue
                        # An error or a hang-up wakes both sides.
                        t = e[0]
                        if t and ev & ~_POLLOUT:
                            e[0] = None
                            ahead = core._ahead if (ev | e[3]) & _POLLPRI else core._io_ahead
                            if ahead is None:
                                push(t)
                            else:
                                push(t, core.ticks_add(core.ticks(), ahead))
                        t = e[1]
                        if t and ev & ~(_POLLIN | _POLLPRI):
                            e[1] = None
                            if core._io_ahead is None:
                                push(t)
                            else:
                                push(t, core.ticks_add(core.ticks(), core._io_ahead))
                        self._update(e)
                except Exception as er:
                    if not self._blame():
                        core._report("Exception in a poll", er)  # it has passed
                if hurry:
                    core._poller.modify(core._bell.stream, _POLLIN)
                if rung:
                    core._answer()
                if due:
                    if dt:
                        core._asleep = False
                    else:
                        core.cur_task = None
                    while due:
                        e = due
                        due = e[7]
                        e[7] = None
                        try:
                            e[5]._ready(e[6])
                        except Exception as er:
                            try:
                                e[5]._raised(er)
                            except MemoryError:
                                pass  # not even for that; it is called again
                dt = yield
        finally:
            self._start()  # KeyboardInterrupt or the like ends it; run() goes on for a while

    def _start(self):
        gen = self._waiter()
        next(gen)
        self.wait_io_event = gen.send
