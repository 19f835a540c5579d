"""Measure asyncio_alt, and gather the figures.

A tool writes its figures to benchmarks/ as JSON, with a picture beside them where that helps, and
brings the tables in docs/ up to date.
"""

# As those of tools/__main__.py.
TOOLS = {
    "stock": ("tools.bench.stock", "the loop, beside stock asyncio, on a PC or a Pico"),
    "frames": ("tools.bench.frames", "FramedProtocol on CPython, beside its streams"),
    "messages": ("tools.bench.messages", "messages to another process, beside streams"),
    "shared": ("tools.bench.shared", "large payloads to another process: TCP, shared memory"),
    "pubsub": ("tools.bench.pubsub", "publish/subscribe, beside trio and a set of queues"),
    "hops": ("tools.bench.hops", "each hop from a pin of an emulated board to MQTT, and back"),
    "power": ("tools.bench.power", "an estimate of the current of a board that sleeps"),
    "soak": ("tools.bench.soak", "what clients that behave badly leave of a server"),
    "report": ("tools.bench.report", "gather the figures of all of them into one page"),
}
