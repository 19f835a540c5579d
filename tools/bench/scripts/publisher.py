# The time in a hard interrupt handler to hand a value to the loop, in us: isr.Publisher.put();
# with stock, a flag that is set beside a value that is overwritten.

import time

from machine import PWM, Pin


def measure(package, count):
    aio = __import__(package)
    us = []
    begin = end = 0
    pin = Pin(15, Pin.OUT)

    def handler(_):
        nonlocal begin, end
        begin = time.ticks_us()
        put(7)
        end = time.ticks_us()

    async def main():
        nonlocal put
        flag = aio.ThreadSafeFlag()
        if package == "asyncio_alt":
            broker = aio.pubsub.Broker()
            broker.subscribe_call("a", lambda topic, payload: flag.set())
            put = aio.pubsub.Publisher(broker, "a", 8).put
        else:

            def put(value):
                flag.value = value
                flag.set()

        pin.irq(handler, Pin.IRQ_RISING, hard=True)
        pwm = PWM(pin, freq=200, duty_u16=32768)
        for _ in range(count):
            await flag.wait()
            us.append(time.ticks_diff(end, begin))
        pwm.deinit()

    put = None
    aio.run(main())
    return {"us": us}
