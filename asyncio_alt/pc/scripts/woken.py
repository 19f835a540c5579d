# How long after its flag was set a task goes on, in us. The flag is set by a machine.Timer, in its
# hard interrupt where the port can; without Timer by a thread.

import time

_EVENTS = 30
_TURN_US = 5000  # how long a busy task works before it lets the others run


def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass


def start_timer(handler):
    # Returns a function that stops it.
    from machine import Timer

    for number in -1, 0:
        for options in {"hard": True}, {}:
            try:
                timer = Timer(number)
                timer.init(mode=Timer.PERIODIC, period=7, callback=handler, **options)
                return timer.deinit
            except (TypeError, ValueError, OSError):
                pass
    raise RuntimeError("no machine.Timer")


def start_thread(handler):
    import _thread

    def thread():
        while running:
            time.sleep_us(4000 + time.ticks_us() % 4999)
            handler(None)

    running = [True]
    _thread.start_new_thread(thread, ())
    return running.clear


def measure(package, busy=0, mode=""):
    # busy: tasks that work; mode: "priority" to wait with priority
    aio = __import__(package)
    priority = (True,) if mode == "priority" else ()
    flag = aio.ThreadSafeFlag()
    at = [0]  # when it was set; 0: its task has gone on since
    us = []

    def handler(timer):
        if not at[0]:
            at[0] = time.ticks_us()
            flag.set()

    async def work():
        while True:
            spin(_TURN_US)
            await aio.sleep_ms(0)

    async def main():
        for _ in range(busy):
            aio.create_task(work())
        for _ in range(_EVENTS):
            await flag.wait(*priority)
            us.append(time.ticks_diff(time.ticks_us(), at[0]))
            at[0] = 0

    try:
        from machine import Timer  # noqa: F401

        stop = start_timer(handler)
    except ImportError:
        stop = start_thread(handler)
    try:
        aio.run(main())
    finally:
        stop()
    return {"us": us}
