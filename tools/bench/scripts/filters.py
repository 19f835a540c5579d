# publish() with a number of subscriptions that do not match, in us: the first one to a topic,
# which looks for its subscribers, and the next ones.

import gc
import time


def measure(package, counts, repeats=100):
    broker = __import__(package).pubsub.Broker()
    first = []
    next_ = []
    made = 0

    def function(topic, payload):
        pass

    broker.subscribe_call("home/kitchen/temperature", function)
    broker.subscribe_call("home/+/temperature", function)
    for count in counts:
        while made < count:
            filters = ("home/%d/temperature", "room/%d/+", "+/%d/temperature", "home/%d/#")
            broker.subscribe_call(filters[made & 3] % made, function)
            made += 1
        gc.collect()
        for _ in range(500):
            [0]  # so that the search for free memory does not start at the heap's beginning
        for us, forget in ((first, True), (next_, False)):
            best = 1000000
            for _ in range(5):
                begin = time.ticks_us()
                for _ in range(repeats):
                    if forget:
                        broker._routes.clear()
                    broker.publish("home/kitchen/temperature", 1)
                best = min(best, time.ticks_diff(time.ticks_us(), begin))
            us.append(best / repeats)
    return {"first": first, "next": next_}
