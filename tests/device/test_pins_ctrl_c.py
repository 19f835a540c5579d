# Interrupts of pins that come just after a Ctrl-C, driven by the emulator.

import time


@needs("emu", "pin-irq")
def test_an_interrupt_just_after_ctrl_c_leaves_the_pin_its_handler():
    from machine import Pin

    from asyncio_alt.devices import Button, Edges, Encoder

    def drive(pin, count, every_us):
        text = '#EMU {"pin": %d, "value": %d, "after_us": 1000, "count": %d, "every_us": %d}'
        print(text % (pin.n, 1 - pin.pin(), count, every_us))

    class Driven:
        def __init__(self, n):
            self.n = n
            self.pin = Pin(n, Pin.IN)

    def work(ms):
        # The interpreter does not look for a Ctrl-C while it copies.
        begin = time.ticks_ms()
        while time.ticks_diff(time.ticks_ms(), begin) < ms:
            bytes(room)

    room = bytearray(8000)
    pins = [Driven(n) for n in (5, 6, 8)]
    edges = Edges(pins[0].pin, size=4000)
    encoder = Encoder(pins[1].pin, Pin(7, Pin.IN))
    button = Button(pins[2].pin)
    came = 0
    for n, pin in enumerate(pins):
        for us in range(1000, 4000, 197):
            drive(pin, 20, 90)
            print('#EMU {"uart": 0, "data": "\\u0003", "after_us": %d}' % us)
            try:
                work(5)
            except KeyboardInterrupt:
                came += 1
            before = edges._in, encoder._phase, button._ms
            drive(pin, 1, 1)
            work(3)
            after = edges._in, encoder._phase, button._ms
            assert before[n] != after[n], (us, pin.n, "no edge is heard of any more")
    assert came, "no Ctrl-C came"
