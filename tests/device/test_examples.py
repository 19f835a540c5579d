# The uses of asyncio in MicroPython's documentation, written anew: blinking LEDs, an audio
# stream, messages by radio, a task for each interrupt, an endless loop.

import io

import asyncio_alt

asyncio_alt.install()

import asyncio  # noqa: E402


class Led:
    def __init__(self):
        self.states = []

    def on(self):
        self.states.append(1)

    def off(self):
        self.states.append(0)


def test_leds_blink_each_with_its_period():
    async def blink(led, period_ms):
        while True:
            led.on()
            await asyncio.sleep_ms(5)
            led.off()
            await asyncio.sleep_ms(period_ms)

    async def main(led1, led2):
        asyncio.create_task(blink(led1, 35))
        asyncio.create_task(blink(led2, 15))
        while led2.states.count(1) < 8:
            await asyncio.sleep_ms(5)

    slow, fast = Led(), Led()
    asyncio.run(main(slow, fast))
    assert 1 <= slow.states.count(1) < fast.states.count(1)
    for led in (slow, fast):
        assert led.states == ([1, 0] * 11)[: len(led.states)]


class Audio(io.IOBase):
    # As an I2S bus: takes and gives some bytes at a time, when it is polled ready.
    def __init__(self):
        self.played = bytearray()
        self.polls = 0

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        self.polls += 1
        return arg & 5 if self.polls % 3 == 0 else 0

    def write(self, buf):
        n = min(len(buf), 100)
        self.played.extend(bytes(buf[:n]))
        return n

    def readinto(self, buf):
        n = min(len(buf), 64, len(self.played))
        buf[:n] = self.played[:n]
        self.played = self.played[n:]
        return n


def test_audio_is_played_and_recorded_whole():
    async def main():
        audio = Audio()
        writer = asyncio.StreamWriter(audio)
        samples = bytes(range(250)) * 4
        writer.write(samples)
        await writer.drain()
        assert audio.played == samples
        reader = asyncio.StreamReader(audio)
        buf = bytearray(128)
        recorded = bytearray()
        while len(recorded) < len(samples):
            n = await reader.readinto(buf)
            recorded.extend(buf[:n])
        assert recorded == samples

    asyncio.run(main())


class Radio(io.IOBase):
    # As aioespnow.AIOESPNow, which waits with the loop's own queue of streams.
    def __init__(self):
        self.inbox = []
        self.peer = None

    def ioctl(self, req, arg):
        if req != 3:
            return -1
        return arg & (5 if self.inbox else 4)

    def arecv(self):
        yield asyncio.core._io_queue.queue_read(self)
        return self.inbox.pop(0)

    def asend(self, message):
        yield asyncio.core._io_queue.queue_write(self)
        self.peer.inbox.append(message)
        return True

    def __aiter__(self):
        return self

    async def __anext__(self):
        return await self.arecv()


def test_radio_echoes_every_ping():
    async def heartbeat(radio, echoes):
        for n in range(5):
            assert await radio.asend(b"ping %d" % n)
            echoes.append(await radio.arecv())
            await asyncio.sleep_ms(2)

    async def echo_server(radio):
        async for message in radio:
            await radio.asend(message)

    async def main():
        near, far = Radio(), Radio()
        near.peer, far.peer = far, near
        echoes = []
        asyncio.create_task(echo_server(far))
        await asyncio.wait_for(heartbeat(near, echoes), 5)
        assert echoes == [b"ping %d" % n for n in range(5)]

    asyncio.run(main())


@needs("schedule")
def test_a_task_for_each_interrupt():
    import micropython

    async def main():
        flag = asyncio.ThreadSafeFlag()
        done = asyncio.Event()
        ran = []

        def isr(n):
            flag.set()

        async def bar(n):
            ran.append(n)
            if n == 3:
                done.set()

        async def foo():
            n = 0
            while True:
                await flag.wait()
                n += 1
                asyncio.create_task(bar(n))

        asyncio.create_task(foo())
        for _ in range(3):
            micropython.schedule(isr, 0)
            await asyncio.sleep_ms(5)
        await asyncio.wait_for(done.wait(), 5)
        assert ran == [1, 2, 3]

    asyncio.run(main())


def test_a_loop_that_is_run_for_ever_until_it_is_stopped():
    async def dim(led):
        while True:
            for on_ms in (0, 1, 2):
                led.on()
                await asyncio.sleep_ms(on_ms)
                led.off()
                await asyncio.sleep_ms(2 - on_ms)

    async def stop(loop):
        await asyncio.sleep_ms(50)
        loop.stop()

    led = Led()
    loop = asyncio.get_event_loop()
    loop.create_task(dim(led))
    loop.create_task(stop(loop))
    loop.run_forever()
    assert len(led.states) > 10
    loop.close()
