# How long two buses stand still, in % of the time: the worse of the two. A transfer takes 2 ms and
# ends in a hard interrupt. The bus's task starts the next one, among ten tasks of 1 ms each.

import time

from machine import PWM, Pin, mem32

# A transfer is a running timer: a PWM slice. Its output rises when its counter wraps.
_TRANSFER_US = 2000
_PINS = 2, 4
_PWM = 0x40050000
_DIV, _CTR, _CC, _TOP = 4, 8, 12, 16  # registers of a slice
_BEGIN = 0x10000 - _TRANSFER_US // 2  # the counter takes 2 us a step


def spin(us):
    begin = time.ticks_us()
    while time.ticks_diff(time.ticks_us(), begin) < us:
        pass


def counter(number):
    # Returns the address of the counter that ends transfers on this pin when it wraps.
    PWM(Pin(number), freq=1000, duty_u16=100)
    registers = _PWM + number // 2 * 20
    mem32[registers] = 0  # stop
    mem32[registers + _DIV] = 250 << 4
    mem32[registers + _TOP] = 0xFFFF
    mem32[registers + _CC] = 1
    mem32[registers + _CTR] = 2
    mem32[registers] = 1
    return registers + _CTR


def measure(package, ms, mode=""):
    # mode: "priority" for flags that are waited for with priority, "block" for interrupt blocks
    aio = __import__(package)
    counts = [0, 0]

    async def work():
        while True:
            spin(1000)
            await aio.sleep_ms(0)

    async def by_flag(i, pin, start):
        flag = aio.ThreadSafeFlag()
        pin.irq(lambda pin: flag.set(), Pin.IRQ_RISING, hard=True)
        wait = (lambda: flag.wait(priority=True)) if mode == "priority" else flag.wait
        while True:
            mem32[start] = _BEGIN
            await wait()
            counts[i] += 1

    async def by_block(i, pin, start):
        ended = aio.Interrupt(priority=True)
        pin.irq(ended, Pin.IRQ_RISING, hard=True)
        mem32[start] = _BEGIN
        while True:
            async with ended:
                mem32[start] = _BEGIN
            counts[i] += 1

    async def main():
        for _ in range(10):
            aio.create_task(work())
        for i, number in enumerate(_PINS):
            start = counter(number)
            drive = by_block if mode == "block" else by_flag
            aio.create_task(drive(i, Pin(number, Pin.ALT, alt=Pin.ALT_PWM), start))
        await aio.sleep_ms(50)
        before = counts[:]
        begin = time.ticks_us()
        await aio.sleep_ms(ms)
        us = time.ticks_diff(time.ticks_us(), begin)
        done = min(after - n for after, n in zip(counts, before))
        return {"idle": 100 - 100 * done * _TRANSFER_US / us}

    return aio.run(main())
