"""monitor(): a broker's subscribers and the loop, as messages for the command page."""

import sys
from json import dumps

from .. import sleep
from .compat import const

_SIZE = const(400)  # bytes of a message, at most
_NAME = const(40)  # characters of a name that are told
_DAY = const(86400)  # s


def monitor(broker, seconds=1):
    """Returns a coroutine, for a task, which publishes every so many seconds (up to 86400), until
    it is cancelled:

        $board/sinks  the subscriptions, links and other sinks of the broker, each with its figures
        $board/trace  the newest events of the loop, if trace.start() was called before

    The messages are not retained. A Link sends them if its `send` has "$board/#". Once nobody has
    room, the rest of a report is left out. So is a sink of which the figures raise."""
    if not isinstance(seconds, (int, float)):
        raise TypeError("seconds must be a number")
    if not 0 < seconds <= _DAY:
        raise ValueError("seconds must be more than 0, and 86400 at most")
    return _monitor(broker, seconds)


async def _monitor(broker, seconds):
    number = 0
    before = {}
    while True:
        await sleep(seconds)
        number = number + 1 & 0xFFFF
        try:
            before = _tell_sinks(_Report(broker, "$board/sinks", number), before)
            trace = sys.modules.get(__name__.replace("pubsub.monitoring", "trace"))
            if trace:
                report = _Report(broker, "$board/trace", number)
                await trace.tell(report.put)
                report.send()
        except MemoryError:
            pass  # the next one may have more


class _Report:
    # Lines, in messages that each begin with the number of the report.
    def __init__(self, broker, topic, number):
        self.broker = broker
        self.topic = topic
        self.head = b"%d" % number
        self.lines = [self.head]
        self.size = len(self.head)
        self.full = False

    def put(self, line):
        line = line.encode()
        if self.full or len(line) > _SIZE // 2:
            return
        if self.size + len(line) >= _SIZE:
            self.send()
        self.lines.append(line)
        self.size += 1 + len(line)

    def send(self):
        if len(self.lines) > 1 and not self.full:
            self.full = self.broker.publish(self.topic, b"\n".join(self.lines)) == 1
        self.lines = [self.head]
        self.size = len(self.head)


def _tell_sinks(report, before):
    # before: what this returned for the last report.
    seen = {}  # id of a sink: its delivered and dropped messages
    for filter, sink in report.broker.sinks():
        if id(sink) not in seen:
            try:
                figures = _figures(sink)
                seen[id(sink)] = figures[2:4]
                line = _line(sink, filter, figures, before.get(id(sink), (0, 0)))
            except Exception:
                continue
            report.put(line)
    report.put("end")
    report.send()
    return seen


def _figures(sink):
    # How many messages are queued, how many may be; are delivered, are dropped.
    window = getattr(sink, "window", None)  # a link's
    if window:
        queue = len(window.frames), window.most
    else:
        queue = getattr(sink, "queued", 0), getattr(sink, "maxlen", 0)
    return queue + (getattr(sink, "delivered", 0), getattr(sink, "dropped", 0))


def _line(sink, filter, figures, before):
    lost = figures[3] - before[1]
    taken = figures[2] - before[0]
    rating = 1 if sink.full() else round(lost / (lost + taken), 2) if lost > 0 else 0
    name = str(getattr(sink, "name", type(sink).__name__))
    policy = str(getattr(sink, "policy", ""))
    return dumps([name[:_NAME], filter[:_NAME], policy] + list(figures) + [rating])
