# Bytes that come in at a UART, each with a rising edge on a pin; their handler writes another pin.
# It is a task that reads from a stream, or a protocol. The emulator tells when both happened.

from machine import UART, Pin

_IN, _OUT = 6, 16


def measure(package, count, busy=0, mode=""):
    # busy: tasks that are always ready; mode: "priority" for a priority stream, or "protocol"
    aio = __import__(package)
    uart = UART(1, 115200, tx=Pin(4), rx=Pin(5))
    Pin(_IN, Pin.IN)
    out = Pin(_OUT, Pin.OUT, value=0)
    handled = aio.Event()

    def handle(data):
        out(1)
        out(0)
        assert len(data) == 1
        handled.set()

    async def read():
        reader = aio.StreamReader(uart, {}, True) if mode == "priority" else aio.StreamReader(uart)
        while True:
            handle(await reader.read(1))

    async def work():
        while True:
            await aio.sleep_ms(0)

    async def main():
        if mode == "protocol":
            protocol = aio.Protocol()
            protocol.data_received = handle
            aio.connect_stream(protocol, uart)
        else:
            aio.create_task(read())
        for _ in range(busy):
            aio.create_task(work())
        print('#EMU {"watch": %d}' % _OUT)
        some = 1
        for _ in range(count):
            # Bytes come at any moment of a turn.
            some = some * 1103515245 + 12345 & 0xFFFFFF
            after = 10000 + some % 10000
            print('#EMU {"pin": %d, "value": 1, "after_us": %d}' % (_IN, after))
            print('#EMU {"pin": %d, "value": 0, "after_us": %d}' % (_IN, after + 50))
            print('#EMU {"uart": 1, "data": "x", "after_us": %d}' % after)
            handled.clear()
            await handled.wait()

    aio.run(main())
    return {}
