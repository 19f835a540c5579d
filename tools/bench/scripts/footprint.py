# The heap that publish/subscribe takes: a list of parts and their bytes.

import gc


def measure(package):
    aio = __import__(package)

    def taken(make, n=1):
        gc.collect()
        before = gc.mem_alloc()
        kept.append(make())
        gc.collect()
        return (gc.mem_alloc() - before) // n

    kept = []
    aio.Event  # loads modules that are not counted here
    modules = [
        ["modules broker, subscription, compat", taken(lambda: aio.pubsub.Broker)],
        ["module publisher", taken(lambda: aio.pubsub.Publisher)],
        ["module pool", taken(lambda: aio.pubsub.Pool)],
    ]
    aio.pubsub.Broker().subscribe("a")  # names that are new
    empty = taken(aio.pubsub.Broker)
    broker = kept[-1]
    broker.subscribe("a/0", maxlen=1)

    def subscribe(maxlen):
        return lambda: [broker.subscribe("a/0", maxlen=maxlen) for _ in range(16)]

    def calls():
        return [broker.subscribe_call("a/0", print) for _ in range(16)]

    of_8, of_2, of_34 = [taken(subscribe(n), 16) for n in (8, 2, 34)]
    return {
        "bytes": modules
        + [
            ["an empty broker", empty],
            ["a function that subscribes", taken(calls, 16)],
            ["a subscription for 8 messages", of_8],
            ["room for a message more in it", (of_34 - of_2) / 32],
        ]
    }
