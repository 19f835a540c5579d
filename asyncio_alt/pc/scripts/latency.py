# How late a task is resumed among others that work: in ms, and in turns that they had before it;
# one value a repeat each.

import io
import random
import time

_TIMER_MS = 100
_TURN_MS = 5  # how long a busy task works before it lets the others run


def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass


def some_us():
    # Less than a turn, so that events come at any moment of a turn.
    return random.randrange(_TURN_MS * 1000)


class Timer(io.IOBase):
    # A stream that can be read _TIMER_MS after start().
    def start(self):
        self.begin = time.ticks_us()

    def late(self):
        # In us.
        return time.ticks_diff(time.ticks_us(), self.begin) - _TIMER_MS * 1000

    def ioctl(self, req, arg):
        if req != 3:  # MP_STREAM_POLL
            return -1
        return arg & 1 if self.late() >= 0 else 0

    def read(self, n):
        return b"."


class Flag:
    # A ThreadSafeFlag that a thread sets.
    def __init__(self, aio, repeats):
        import _thread

        self.flag = aio.ThreadSafeFlag()
        self.at = None  # when it was set, in us; None: its task has noticed
        _thread.start_new_thread(self._set, (repeats,))

    def _set(self, repeats):
        for _ in range(repeats):
            time.sleep_us(_TIMER_MS * 1000 + some_us())
            while self.at is not None:
                time.sleep_ms(1)
            self.at = time.ticks_us()
            self.flag.set()

    def late(self):
        return -1 if self.at is None else time.ticks_diff(time.ticks_us(), self.at)


def measure(package, source, busy, repeats, mode=""):
    # source: "timer", a stream that is polled; "flag", which a thread sets
    # busy: the number of tasks that work
    # mode: "roundrobin(False)"; "priority" for this one task's waits; "" for neither
    aio = __import__(package)
    priority = (True,) if mode == "priority" else ()
    if mode == "roundrobin(False)":
        aio.roundrobin(False)
    result = {"late": [], "ms": [], "turns": []}
    turns = 0

    async def work():
        nonlocal turns
        while True:
            if event.late() >= 0:
                turns += 1
            spin(_TURN_MS * 1000)
            await aio.sleep_ms(0)

    def resumed():
        nonlocal turns
        late = event.late() / 1000
        result["late"].append(late)
        result["ms"].append(_TIMER_MS + late)
        result["turns"].append(turns)
        turns = 0

    async def timer():
        reader = aio.StreamReader(event, {}, *priority)
        for _ in range(repeats):
            event.start()
            spin(some_us())
            await reader.read(1)
            resumed()

    async def flag():
        for _ in range(repeats):
            await event.flag.wait(*priority)
            resumed()
            event.at = None

    async def main():
        nonlocal event
        if source == "timer":
            event = Timer()
            event.start()
        else:
            event = Flag(aio, repeats)
        tasks = [aio.create_task(work()) for _ in range(busy)]
        await {"timer": timer, "flag": flag}[source]()
        for task in tasks:
            task.cancel()

    event = None
    aio.run(main())
    return result
