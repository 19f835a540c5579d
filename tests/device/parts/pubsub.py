# Looks into a broker and its subscriptions.

import asyncio_alt as asyncio


def taken(sub):
    # The payloads that are queued.
    got = []
    while sub.queued:
        got.append(sub.get_nowait()[1])
    return got


def drops(broker):
    return [s["dropped"] for s in broker.snapshot()["subscribers"]]


class Reports:
    # Collects the calls of the loop's exception handler.
    def __enter__(self):
        self.got = []
        self.loop = asyncio.get_event_loop()
        self.loop.set_exception_handler(lambda loop, context: self.got.append(context))
        return self

    def __exit__(self, *exc):
        self.loop.set_exception_handler(None)
