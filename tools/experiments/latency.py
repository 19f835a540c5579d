# How late a task is resumed among others that work, in ms, one value a repeat.

import io
import time

_TIMER_MS = 100
_SLOT_MS = 5  # how long a busy task works before it lets the others run


class Timer(io.IOBase):
    # A stream that can be read once, _TIMER_MS after start().
    def start(self):
        self.begin = time.ticks_us()

    def elapsed(self):
        return time.ticks_diff(time.ticks_us(), self.begin)

    def ioctl(self, req, arg):
        due = self.elapsed() >= _TIMER_MS * 1000
        return arg & 1 if req == 3 and due else 0  # MP_STREAM_POLL

    def read(self, n):
        return b"."


def measure(package, mode, source, busy, repeats):
    # mode: "", "roundrobin(False)", or "priority" for this one wait only
    # source: "timer", a stream that is polled; "flag", which a thread sets
    # busy: the number of busy tasks
    aio = __import__(package)
    priority = (True,) if mode == "priority" else ()
    if mode == "roundrobin(False)":
        aio.roundrobin(False)
    late = []

    async def work():
        while True:
            begin = time.ticks_us()
            while time.ticks_diff(time.ticks_us(), begin) < _SLOT_MS * 1000:
                pass
            await aio.sleep_ms(0)

    async def timer():
        stream = Timer()
        reader = aio.StreamReader(stream, {}, *priority)
        for _ in range(repeats):
            stream.start()
            await reader.read(1)
            late.append(stream.elapsed() / 1000 - _TIMER_MS)

    async def flag():
        import _thread

        flag = aio.ThreadSafeFlag()
        at = 0

        def thread():
            nonlocal at
            for i in range(repeats):
                # At another moment of a busy task's work each time.
                time.sleep_us(_TIMER_MS * 1000 + i * 1700 % (_SLOT_MS * 1000))
                at = time.ticks_us()
                flag.set()

        _thread.start_new_thread(thread, ())
        for _ in range(repeats):
            await flag.wait(*priority)
            late.append(time.ticks_diff(time.ticks_us(), at) / 1000)

    async def main():
        tasks = [aio.create_task(work()) for _ in range(busy)]
        await {"timer": timer, "flag": flag}[source]()
        for task in tasks:
            task.cancel()

    aio.run(main())
    return {"late": late}
