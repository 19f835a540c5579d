# The time that the trace adds to a pass of the loop: while it is on, and after it was on.
# Stock has no trace.

import gc
import time

_TASKS = 10  # that are ready all the time
_TURNS = 100


def measure(package, module=None):
    # module: of the trace
    aio = __import__(package)

    async def ready():
        for _ in range(_TURNS):
            await aio.sleep_ms(0)

    async def timed():
        gc.collect()  # so that none comes in one measurement only
        tasks = [aio.create_task(ready()) for _ in range(_TASKS)]
        begin = time.ticks_us()
        for task in tasks:
            await task
        return time.ticks_diff(time.ticks_us(), begin) / _TURNS / _TASKS

    before = aio.run(timed())
    if not module:
        return {"us": before}
    trace = __import__(module, None, None, (package,))
    trace.start()
    on = aio.run(timed())
    trace.stop()
    return {"us": before, "times": on / before, "differs by": abs(aio.run(timed()) - before)}
