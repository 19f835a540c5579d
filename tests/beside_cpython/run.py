# Runs programs on a virtual clock, and prints what they have done: on CPython and on MicroPython.
#
#     python run.py PROGRAMS          micropython run.py PROGRAMS [py]
#
# PROGRAMS is a JSON file: a list of programs' sources. A line of JSON is printed for each: the
# list of what it has logged, and a list of the known differences that it has met.

import json
import sys

MICROPYTHON = sys.implementation.name == "micropython"
if "py" in sys.argv:
    sys.modules["_asyncio"] = sys  # tasks in Python

if MICROPYTHON:
    import asyncio_alt as asyncio
else:
    import asyncio

    import oracle

    asyncio.Future = oracle.Future

UNIT = 0.125  # seconds, exact as a float: delays in programs are whole numbers of these
END = 60  # units until a program has ended, or hangs


class V(Exception):
    """What programs raise; its argument is a number."""


def name(value):
    # As it stands in the log.
    if isinstance(value, (list, tuple)):
        return [name(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if not isinstance(value, BaseException):
        return "object"
    if isinstance(value, V):
        return "V" + str(value.args[0])
    if hasattr(value, "exceptions"):
        return [type(value).__name__] + [name(exc) for exc in value.exceptions]
    return type(value).__name__


class Program:
    """One run of a program, and the functions that it calls."""

    def __init__(self):
        self.log_ = []
        self.over = False
        self.known = set()
        self.tasks = {}  # number of the function to its latest task
        self.started = {}  # number of the function to how many tasks it had
        self.begin = now()
        self.names = {
            "asyncio": asyncio,
            "V": V,
            "call": self.call,
            "callback": self.callback,
            "cancel": self.cancel,
            "done": self.done,
            "gather": self.gather,
            "log": self.log,
            "moment": moment,
            "nap": nap,
            "results": results,
            "spawn": self.spawn,
            "task": self.task,
            "UNIT": UNIT,
            "wait_for": self.wait_for,
        }

    def log(self, me, n, value=None):
        if not self.over:
            self.log_.append([me, n, name(value), since(self.begin)])

    def call(self, me, n, fn, *args):
        # A function that neither waits nor ends the task.
        try:
            value = fn(*args)
        except Exception as exc:
            value = exc
        self.log(me, n, value)

    def callback(self, me, n):
        return lambda future: self.log(me, n, result(future))

    def spawn(self, k):
        t = self.tasks.get(k)
        n = self.started.get(k, 0) + 1
        if t is None or t.done() and n < 4:
            self.started[k] = n
            self.tasks[k] = asyncio.create_task(self.body(k, n))
            return "started"

    async def body(self, k, n):
        me = f"t{k}" if n == 1 else f"t{k}#{n}"
        try:
            value = await self.names[f"t{k}"](me)
        except BaseException as exc:
            self.log(me, "end", exc)
            raise
        self.log(me, "end", value)
        if not MICROPYTHON and asyncio.current_task()._must_cancel:
            self.known.add("cancelled while it ended")
        return me

    def task(self, k):
        self.spawn(k)
        return self.tasks[k]

    def done(self, k):
        return k in self.tasks and self.tasks[k].done()

    def cancel(self, k):
        # A task that cancels itself, or one that awaits it: docs/cpython.md.
        t = self.tasks.get(k)
        last = t
        while isinstance(last, type(asyncio.current_task())):
            if last is asyncio.current_task():
                return "no"
            last = waits_for(last)
        return t is not None and t.cancel()

    # They take another number of turns of the loop than CPython's.

    async def gather(self, *aws, return_exceptions=False):
        if not MICROPYTHON:
            begin = oracle.cancelling()
            try:
                return await asyncio.gather(*aws, return_exceptions=return_exceptions)
            except BaseException as exc:
                if isinstance(exc, asyncio.CancelledError) or oracle.cancelling() > begin:
                    self.known.add("gather cancelled")
                raise
        if not aws:
            return []
        running = [aw for aw in aws if not hasattr(aw, "done") or not aw.done()]
        try:
            return await asyncio.gather(*aws, return_exceptions=return_exceptions)
        finally:
            for _ in "1" if running else "12":
                await turn()

    async def wait_for(self, aw, delay):
        self.known.add("wait_for")
        return await asyncio.wait_for(aw, None if delay is None else delay * UNIT)

    async def main(self, source):
        exec(source, self.names)
        self.spawn(0)
        await nap(END)
        for _ in "123":
            for k in sorted(self.tasks):
                if not self.tasks[k].done():
                    self.log("main", "cancel", k)
                    self.tasks[k].cancel()
            await nap(END // 4)
        self.log("main", "end", [[k, result(self.tasks[k])] for k in sorted(self.tasks)])
        self.over = True


def result(future):
    # Of a task or future that has ended.
    if not future.done():
        return "pending"
    if MICROPYTHON:
        er = future.data
        return name(er.value if isinstance(er, StopIteration) else er)
    if future.cancelled():
        return "CancelledError"
    return name(future.exception() or future.result())


def results(parts):
    # Of wait(): a set has no order.
    return [sorted([str(result(f)) for f in part]) for part in parts]


def waits_for(task):
    if not MICROPYTHON:
        return task._fut_waiter
    waits = task.data
    return waits.aws[0] if getattr(waits, "queue", None) else waits  # wait_for()


def turn():
    return asyncio.sleep(0)


if MICROPYTHON:
    import time

    now = time.ticks_ms
    core = sys.modules["asyncio_alt.core"]
    asyncio.Loop.set_exception_handler(lambda loop, context: None)

    def since(begin):
        return time.ticks_diff(time.ticks_ms(), begin) / 125

    def moment(n):
        return asyncio.Loop.time() + n * UNIT

    async def nap(n):
        # CPython's sleep() ends a turn later.
        end = time.ticks_add(now(), int(n * 125))
        try:
            await asyncio.sleep(n * UNIT)
        finally:
            if n > 0 and time.ticks_diff(end, now()) <= 0:
                await turn()

    run = asyncio.run
else:

    def now():
        return oracle.clock

    def since(begin):
        return (oracle.clock - begin) / UNIT

    def moment(n):
        return oracle.clock + n * UNIT

    async def nap(n):
        await asyncio.sleep(n * UNIT)

    run = oracle.run


with open(sys.argv[1]) as file:
    programs = json.load(file)
for source in programs:
    program = Program()
    if not MICROPYTHON:
        oracle.known = program.known
    try:
        run(program.main(source))
    except Exception as exc:
        program.log("main", "error", str(exc))
        sys.print_exception(exc) if MICROPYTHON else None
    print(json.dumps([program.log_, sorted(program.known)]))
