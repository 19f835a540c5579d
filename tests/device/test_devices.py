# Pins that tasks await, driven by the emulator.

import time

import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms


def drive(pin, value, after_ms, count=1, every_us=0):
    text = '#EMU {"pin": %d, "value": %d, "after_us": %d, "count": %d, "every_us": %d}'
    print(text % (pin, value, after_ms * 1000, count, every_us))


async def take(source, n):
    got = []
    for _ in range(n):
        got.append(await source.__anext__())
    return got


@needs("emu", "pin-irq")
async def test_button_tells_of_each_steady_level_whatever_the_loop_does():
    from machine import Pin

    from asyncio_alt.devices import Button
    from asyncio_alt.pubsub import Broker

    async def count(wait, kind):
        while True:
            await wait()
            awaited.append(kind)

    awaited = []
    topics = []
    broker = Broker()
    broker.subscribe_call("door/#", lambda topic, payload: topics.append(topic[5:]))
    pin = Pin(5, Pin.IN)
    drive(5, 1, 0)
    await sleep_ms(2)
    button = Button(pin, debounce_ms=5, double_ms=100, long_ms=150)
    for kind in ("press", "release", "double", "long"):
        create_task(count(getattr(button, kind), kind))
    feeding = button.feed(broker, "door")
    await sleep_ms(1)
    drive(5, 0, 2, 2, 500)  # a glitch
    drive(5, 0, 10, 7, 300)  # bounces, and stays down
    drive(5, 1, 40, 5, 700)
    drive(5, 0, 70)  # the second of a double
    drive(5, 1, 90)
    drive(5, 0, 120)  # of the next double only the first
    await sleep_ms(125)
    begin = time.ticks_ms()
    while time.ticks_diff(time.ticks_ms(), begin) < 20:
        pass
    assert button.is_pressed() is False
    await sleep_ms(200)
    assert button.is_pressed() is True
    drive(5, 1, 0)
    await sleep_ms(10)
    # Pressed and released while the loop is busy.
    drive(5, 0, 10)
    drive(5, 1, 30)
    begin = time.ticks_ms()
    while time.ticks_diff(time.ticks_ms(), begin) < 50:
        pass
    await sleep_ms(10)
    expected = "press release press double release press long release press release".split()
    assert topics == expected, topics
    assert awaited == expected, awaited
    button.close()
    await feeding
    Button(pin).close()
    assert button.overruns == 0


@needs("emu", "pin-irq")
async def test_pulses_are_measured_and_one_with_a_lost_edge_is_left_out():
    from machine import Pin

    from asyncio_alt.devices import Edges, Pulse

    pin = Pin(5, Pin.IN)
    async with Pulse(pin, size=2) as pulses:
        drive(5, 1, 20, 2, 400)
        drive(5, 1, 21, 2, 300)
        us = await take(pulses, 2)
        assert 395 <= us[0] <= 405 and 295 <= us[1] <= 305, us
        # Six edges for room of four, then one more pulse.
        drive(5, 1, 0, 5, 300)
        time.sleep_ms(3)
        drive(5, 0, 10)
        drive(5, 1, 12, 2, 1000)
        us = await take(pulses, 3)
        assert abs(us[0] - 300) < 6 and abs(us[1] - 300) < 6 and abs(us[2] - 1000) < 6, us
        assert pulses.overruns == 1
    async with Edges(pin, pin.IRQ_RISING, size=3) as edges:
        drive(5, 1, 0, 8, 200)
        time.sleep_ms(4)
        assert [level for _, level in await take(edges, 3)] == [1, 1, 1]
        assert edges.overruns == 1
    # Shorter than the interrupt's way to the pin: an edge is counted as lost.
    async with Edges(pin) as edges:
        drive(5, 1, 2, 2, 1)
        got = await take(edges, 1)
        assert got[0][1] == 0 and edges.overruns >= 1, (got, edges.overruns)


@needs("emu", "pin-irq")
async def test_encoder_has_steps_limits_and_ends():
    from machine import Pin

    from asyncio_alt.devices import Encoder

    async def follow():
        async for position in encoder:
            seen.append(position)

    a, b = Pin(5, Pin.IN), Pin(6, Pin.IN)
    seen = []
    encoder = Encoder(a, b, div=4, limits=(-2, 1))
    raises(ValueError, Encoder, a, Pin(7), match="pin_a: Encoder has it")
    task = create_task(follow())
    await sleep_ms(1)
    drive(5, 1, 10, 6, 4000)  # a first: three turns of four edges
    drive(6, 1, 12, 6, 4000)
    await sleep_ms(60)
    assert seen == [1], seen
    drive(6, 1, 10, 12, 4000)
    drive(5, 1, 12, 12, 4000)
    await sleep_ms(90)
    assert seen == [1, 0, -1, -2] and encoder.position == -2, seen
    encoder.position = 0
    await sleep_ms(5)
    assert seen[-1] == 0 and encoder.errors == 0, (seen, encoder.errors)
    raises(ValueError, setattr, encoder, "position", 2, match="position")
    encoder.close()
    await task
    Encoder(a, b).close()
    raises(ValueError, Encoder, a, a, match="two pins")
    raises(ValueError, Encoder, a, b, 0, match="div")
    raises(TypeError, Encoder, a, b, 1, 5, match="limits")
    raises(TypeError, Encoder, a, 6, match="pin_b")


@needs("emu", "pin-irq")
async def test_cancelled_task_gives_the_pin_back_and_a_second_one_is_refused():
    from machine import Pin

    from asyncio_alt.devices import Edges

    async def follow():
        async with Edges(pin, size=4) as edges:
            create_task(second(edges))
            async for _ in edges:
                pass

    async def second(edges):
        await araises(RuntimeError, edges.__anext__(), match="another task")

    pin = Pin(5, Pin.IN)
    task = create_task(follow())
    await sleep_ms(5)
    raises(ValueError, Edges, pin, match="Edges has it")
    task.cancel()
    await araises(asyncio.CancelledError, task)
    edges = Edges(pin, size=4)
    edges.close()
    drive(5, 1, 0)
    await sleep_ms(2)
    await araises(StopAsyncIteration, edges.__anext__())
    for args in ((pin, 0), (pin, "1"), (pin, 3)):
        raises(ValueError, Edges, *args, match="trigger")
    raises(ValueError, Edges, pin, pin.IRQ_RISING, 0, match="size")
    Edges(pin).close()
