# Publishing from interrupts and threads.

import struct
import time
from array import array

import asyncio_alt as asyncio
from asyncio_alt import create_task, sleep_ms
from asyncio_alt.pubsub import Broker, Pool, Publisher

try:
    import _thread
except ImportError:
    pass


def start(us, handler):
    # Has handler(x) called by a hard interrupt every so many us; returns a function that stops it.
    try:
        import hwirq

        hwirq.irq(hwirq.TIMER, handler, hard=True)
        hwirq.timer(us)
        return lambda: hwirq.timer(0)
    except ImportError:
        # A pin that sees its own PWM.
        from machine import PWM, Pin

        pin = Pin(15, Pin.OUT)
        pin.irq(handler, Pin.IRQ_RISING, hard=True)
        return PWM(pin, freq=1000000 // us, duty_u16=32768).deinit


class Source:
    # An interrupt that calls put(n) for n = 1, 2, ..., with the heap locked as it has to be.
    def __init__(self, put):
        self.put = put
        self.n = 0
        self.unlocked = 0
        self.failed = 0

    def handler(self, _):
        try:
            bytearray(100)
            self.unlocked += 1
        except MemoryError:
            pass
        self.n += 1
        try:
            self.put(self.n)
        except Exception:
            self.failed += 1

    async def run(self, us, ms):
        stop = start(us, self.handler)
        await sleep_ms(ms)
        stop()
        await sleep_ms(20)
        assert self.n > 5 and not self.unlocked and not self.failed, (self.n, self.failed)


@needs("hwirq")
async def test_values_from_a_hard_interrupt_of_the_cortex_m():
    await values_in_order()


@needs("pin-irq", "emu")
async def test_values_from_a_hard_interrupt_of_the_pico():
    await values_in_order()


async def values_in_order():
    broker = Broker()
    got = []
    broker.subscribe_call("a/b", lambda topic, payload: got.append(payload))
    publisher = Publisher(broker, "a/b", 8)
    source = Source(publisher.put)
    await source.run(2000, 100)
    assert got == list(range(1, source.n + 1)), got
    assert publisher.overruns == 0


@needs("hwirq")
async def test_copies_and_leases_from_a_hard_interrupt_of_the_cortex_m():
    await copies_and_leases()


@needs("pin-irq", "emu")
async def test_copies_and_leases_from_a_hard_interrupt_of_the_pico():
    await copies_and_leases()


async def copies_and_leases():
    broker = Broker()
    got = []
    broker.subscribe_call("#", lambda topic, payload: got.append(payload))
    sub = broker.subscribe("#", maxlen=100)
    publisher = Publisher(broker, "a", 8, 4)
    pool = Pool(4, 4)
    data = array("H", [0])

    def put(n):
        if n % 3 == 0:
            lease = pool.lease()
            if lease:
                lease.buf[0] = n
                publisher.put(lease)
        elif n % 3 == 1:
            data[0] = n
            publisher.put_from(data, 2)
        else:
            publisher.put(n)

    async def take():
        async for _, payload in sub:
            if isinstance(payload, memoryview):
                payload = bytes(payload)
            taken.append(payload)

    taken = []
    create_task(take())
    source = Source(put)
    await source.run(2000, 60)
    sub.release()
    assert pool.leased() == 0 and pool.refused == 0 and publisher.overruns == 0
    for n, payload in enumerate(taken, 1):
        if n % 3 == 0:
            assert payload[0] == n
        elif n % 3 == 1:
            assert payload == bytes([n, 0])
        else:
            assert payload == n
    assert len(taken) == len(got) == source.n


@needs("hwirq")
async def test_overruns_are_counted_on_the_cortex_m():
    await overruns()


@needs("pin-irq", "emu")
async def test_overruns_are_counted_on_the_pico():
    await overruns()


async def overruns():
    broker = Broker()
    got = []
    broker.subscribe_call("a", lambda topic, payload: got.append(payload))
    publisher = Publisher(broker, "a", 4)
    source = Source(publisher.put)

    async def hog():
        for _ in range(4):
            begin = time.ticks_ms()
            while time.ticks_diff(time.ticks_ms(), begin) < 20:
                pass
            await sleep_ms(3)

    create_task(hog())
    await source.run(2000, 100)
    assert publisher.overruns > 5
    assert len(got) + publisher.overruns == source.n
    assert got == sorted(got) and got[:4] == [1, 2, 3, 4]


@needs("schedule", "pin-irq")
async def test_publish_in_a_scheduled_callback_ends_the_sleep():
    import micropython

    def publish(n):
        if n == 3:
            broker.publish("a", n)

    def handler(_):
        source[0] += 1
        micropython.schedule(publish, source[0])

    source = [0]
    broker = Broker()
    sub = broker.subscribe("a")
    stop = start(3000, handler)
    assert await sub.get() == ("a", 3)
    stop()


async def test_values_go_ahead_of_the_ready_tasks():
    broker = Broker()
    order = []

    async def busy(n):
        while True:
            order.append(n)
            await sleep_ms(0)

    async def take():
        async for _, payload in sub:
            order.append(payload)

    sub = broker.subscribe("a", priority=True)
    publisher = Publisher(broker, "a", 4)
    tasks = [create_task(busy(n)) for n in range(5)] + [create_task(take())]
    await sleep_ms(1)
    order.clear()
    publisher.put("urgent")
    await sleep_ms(0)
    await sleep_ms(0)
    assert order[0] == "urgent", order
    for t in tasks:
        t.cancel()


async def test_order_room_and_overruns():
    broker = Broker()
    got = []
    broker.subscribe_call("a", lambda topic, payload: got.append(payload))
    publisher = Publisher(broker, "a", 3, 5)
    for n in range(5):
        assert publisher.put(n) == (n < 3)
    assert publisher.overruns == 2
    await sleep_ms(5)
    assert got == [0, 1, 2]
    buf = bytearray(b"abc")
    assert publisher.put_from(buf) and publisher.put(None) and publisher.put_from(b"12345", 4)
    buf[0] = 0
    assert not publisher.put_from(b"") and publisher.overruns == 3
    raises(ValueError, publisher.put_from, b"123456", match="nbytes")
    await sleep_ms(5)
    assert got[3:] == [b"abc", None, b"1234"], got
    assert not any(publisher._values)  # it holds on to nothing
    publisher.close()
    await sleep_ms(1)
    publisher.put(7)
    await sleep_ms(5)
    assert len(got) == 6


async def test_invalid_count_in_an_interrupt_is_refused_and_counted():
    import micropython

    publisher = Publisher(Broker(), "a", 3, 4)
    values = (-1, 5, "2", None)
    buf = bytearray(5)
    micropython.heap_lock()  # as in a hard interrupt
    try:
        took = 0
        for n in values:
            if publisher.put_from(buf, n):
                took += 1
        if publisher.put_from(7, 1):
            took += 1
    finally:
        micropython.heap_unlock()
    assert took == 0 and publisher.overruns == 5
    publisher.close()


def test_publisher_ends_with_the_run_also_if_its_task_never_ran():
    pool = Pool(2, 4)
    for passes in (0, 3):
        publisher = None

        async def main():
            nonlocal publisher
            publisher = Publisher(Broker(), "a", 3)
            for _ in range(passes):
                await sleep_ms(0)
            publisher.put(pool.lease())

        asyncio.run(main())
        assert pool.leased() == 0
        assert not publisher.put(1) and publisher.overruns == 1


async def test_bad_arguments_are_named():
    broker = Broker()
    raises(ValueError, Publisher, broker, "a/+", 3, match="topic")
    raises(ValueError, Publisher, broker, "a", 0, match="size")
    raises(ValueError, Publisher, broker, "a", 3, -1, match="nbytes")
    raises(ValueError, Publisher(broker, "a", 3).put_from, b"x", match="nbytes")


async def test_values_that_come_for_ever_do_not_starve_the_tasks():
    broker = Broker()
    broker.subscribe_call("a", lambda topic, payload: publisher.put(payload + 1))
    publisher = Publisher(broker, "a", 2)
    publisher.put(0)
    for _ in range(5):
        await sleep_ms(0)
    assert 5 <= broker.published < 50
    publisher.close()


async def test_made_before_the_loop_runs_and_with_no_subscriber():
    broker = Broker()
    publisher = Publisher(broker, "a", 2)
    publisher.put(1)
    await sleep_ms(1)
    assert broker.published == 1


@needs("threads")
async def test_values_from_threads_are_complete_and_in_order():
    broker = Broker()
    total = 2000
    # Publishing goes first, and may leave follow() all messages for the end.
    sub = broker.subscribe("#", maxlen=2 * total, policy="drop_new")
    publishers = [Publisher(broker, topic, 10, 4) for topic in "ab"]

    def thread(publisher):
        buf = bytearray(4)
        for n in range(total):
            struct.pack_into("<i", buf, 0, n)
            while not (publisher.put(n) if n % 2 else publisher.put_from(buf)):
                time.sleep_us(50)

    async def follow():
        seen = {"a": 0, "b": 0}
        while seen != {"a": total, "b": total}:
            topic, payload = await sub.get()
            n = seen[topic]
            assert payload == (n if n % 2 else struct.pack("<i", n))
            seen[topic] = n + 1

    for publisher in publishers:
        _thread.start_new_thread(thread, (publisher,))
    await asyncio.wait_for(follow(), 15)
    assert sub.dropped == 0 and sub.delivered == 2 * total


@needs("threads")
async def test_value_from_a_thread_ends_the_sleep_at_once():
    broker = Broker()
    sub = broker.subscribe("a")
    publisher = Publisher(broker, "a", 2)

    def thread():
        time.sleep_ms(30)
        publisher.put(1)

    begin = time.ticks_ms()
    _thread.start_new_thread(thread, ())
    assert await asyncio.wait_for(sub.get(), 2) == ("a", 1)
    assert time.ticks_diff(time.ticks_ms(), begin) < 1000
