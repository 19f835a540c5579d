"""Broker: topics, filters, and the way of a message to all who subscribe."""

from .channel import Call, Subscription
from .waiter import Waiter, report, wake

_ROUTES = 32  # how many topics' subscribers are remembered
_SHARES = 16  # up to how many subscribers the ratings are made in advance

_Lease = None  # pool.Lease, once there is a pool
_shares = {}  # number of subscribers: the ratings when 0, 1, ... of them are full


def _check(text, what):
    if not isinstance(text, str):
        raise TypeError(what + " must be a str")
    # A character has up to 4 bytes.
    if not text or "\0" in text or len(text) > 16383 and len(text.encode()) > 65535:
        raise ValueError(what + " must have 1 to 65535 bytes, none of them 0")


def _levels(filter):
    # The levels of a filter, which has to be a good one.
    _check(filter, "filter")
    levels = filter.split("/")
    for i, level in enumerate(levels):
        if level == "#" and i == len(levels) - 1 or level == "+":
            continue
        if "#" in level or "+" in level:
            raise ValueError("filter: + and # stand for whole levels, # for the last ones")
    return levels


def matches(filter, topic):
    """Whether a filter (str), as of MQTT 3.1.1, matches a topic (str). ValueError or TypeError if
    either is none."""
    levels = _levels(filter)
    parts = _topic(topic)
    if levels[0] in ("#", "+") and topic[0] == "$":
        return False
    if levels[-1] == "#":
        levels.pop()
        if len(parts) < len(levels):
            return False
    elif len(parts) != len(levels):
        return False
    for level, part in zip(levels, parts):
        if level != part and level != "+":
            return False
    return True


def _topic(topic):
    _check(topic, "topic")
    if "+" in topic or "#" in topic:
        raise ValueError("topic must not have + or #")
    return topic.split("/")


class _Ticket(Waiter):
    # One publish_wait() that waits for room.
    def __init__(self):
        self.sinks = []  # those that have no room yet

    def wait(self, sink):
        self.sinks.append(sink)

    def done(self, sink):
        self.sinks.remove(sink)
        if not self.sinks and self.task:
            wake(self)


class Broker:
    """Hands each message that is published to all who subscribe to its topic, in the order in
    which they subscribed. To be used by the tasks and callbacks of one loop; interrupts and other
    threads publish by an isr.Publisher.

    published: how many messages were published."""

    def __init__(self):
        self.published = 0
        self._delivered = 0  # by those that are closed
        self._dropped = 0
        # A tree of the filters' levels: a dict with the next levels; None: the (number, sink) of
        # the filter that ends here, "#": of the one that ends with a #.
        self._root = {}
        self._number = 0  # of the last sink
        self._routes = {}  # topic: the sinks that it goes to
        self._retained = {}  # topic: payload
        self._plain = []  # the attached sinks that have no put_wait()
        self._ticket = None  # the next _Ticket that somebody waits with

    # Subscribing

    def subscribe(self, filter, *, maxlen=None, policy="drop_old", priority=False):
        """Makes a Subscription.

        filter: the topics (str), with + for one level and # for all further ones; maxlen: how
        many messages it queues (int; default 8, with "latest" 1; 0: it takes one only while a
        task waits for it); policy: what to do when it is full: "block": publish() drops the new
        message, publish_wait() waits; "drop_old", "drop_new"; "latest": drop all but the new one;
        priority: True to have the task that waits run next, ahead of the ready tasks. Retained
        messages are queued at once."""
        return self._add(Subscription(self, filter, maxlen, policy, priority))

    def subscribe_call(self, filter, fn):
        """Has fn(topic, payload) called inside publish(), at once for retained messages. Returns
        an object to close(). An exception that fn raises is reported."""
        return self._add(Call(self, filter, fn))

    def _add(self, sink):
        self.attach(sink.filter, sink)
        return sink

    def attach(self, filter, sink):
        """Hands the messages for a filter (str) to a sink: any object with put(topic, payload,
        retain), which returns its part of the rating, from 0 (took it, with room to spare) to 1
        (could not), and full(). It gets a message once, also if several of its filters match, and
        the retained ones at once."""
        node, end = self._walk(_levels(filter))
        if not hasattr(sink, "put_wait"):
            self._plain.append(sink)
        self._number += 1
        node.setdefault(end, []).append((self._number, sink))
        self._routes.clear()
        if self._retained:
            for topic, payload in self.retained(filter):
                self._put(sink, topic, payload, True)

    def detach(self, filter, sink):
        """Ends that. ValueError if it was not attached."""
        levels = _levels(filter)
        node, end = self._walk(levels)
        sinks = node.get(end, ())
        for entry in sinks:
            if entry[1] is sink:
                break
        else:
            entry = None
        if entry:
            sinks.remove(entry)
            if not sinks:
                del node[end]
        self._prune(levels)
        if not entry:
            raise ValueError("sink is not attached to that filter")
        if sink in self._plain:
            self._plain.remove(sink)
        self._routes.clear()

    def _walk(self, levels):
        # The tree's node where a filter ends, and the key of its sinks there.
        end = levels[-1] if levels[-1] == "#" else None
        node = self._root
        for level in levels[:-1] if end else levels:
            node = node.setdefault(level, {})
        return node, end

    def _prune(self, levels):
        # Take what is empty off the tree.
        path = []
        node = self._root
        for level in levels:
            if level != "#":
                path.append((node, level))
                node = node[level]
        for node, level in reversed(path):
            if node[level]:
                break
            del node[level]

    def _forget(self, sink):
        # A Subscription or Call has been closed.
        self._delivered += sink.delivered
        self._dropped += sink.dropped
        self.detach(sink.filter, sink)

    # Publishing

    def _route(self, topic):
        # Find the sinks for a topic, in the order in which they subscribed.
        found = []
        nodes = [self._root]
        levels = _topic(topic)
        wild = topic[0] != "$"
        for level in levels:
            below = []
            for node in nodes:
                if wild:
                    found.extend(node.get("#", ()))
                    if "+" in node:
                        below.append(node["+"])
                if level in node:
                    below.append(node[level])
            nodes = below
            wild = True
        for node in nodes:
            found.extend(node.get("#", ()))
            found.extend(node.get(None, ()))
        found.sort(key=lambda entry: entry[0])
        sinks = []
        for _, sink in found:
            if type(sink) in (Call, Subscription) or sink not in sinks:
                sinks.append(sink)
        n = len(sinks)
        if 1 < n <= _SHARES and n not in _shares:
            _shares[n] = tuple(i / n for i in range(n + 1))
        if len(self._routes) >= _ROUTES:
            self._routes.popitem()
        self._routes[topic] = sinks = tuple(sinks)
        return sinks

    def publish(self, topic, payload, retain=False, skip=None):
        """Hands a message to all who subscribe to its topic, and returns the rating: the share of
        them that had no room for it, from 0.0 to 1.0.

        topic: str; payload: any object; retain: True to keep it for those who subscribe later,
        None, b"" or "" to forget what was kept; skip: a sink that does not get it."""
        try:
            sinks = self._routes[topic]
        except (KeyError, TypeError):
            sinks = self._route(topic)
        if _Lease and isinstance(payload, _Lease):
            return self._publish_lease(sinks, topic, payload, retain, skip)
        self.published += 1
        if retain:
            self._retain(topic, payload)
        full = 0
        for sink in sinks:
            if sink is not skip:
                try:
                    full += sink.put(topic, payload, retain)
                except Exception as er:
                    self._raised(sink, er)
        return self._share(full, sinks, skip) if full else 0.0

    def _publish_lease(self, sinks, topic, lease, retain, skip):
        lease._begin()
        self.published += 1
        if retain:
            self._retain(topic, lease)
        full = 0
        for sink in sinks:
            if sink is not skip:
                full += self._put(sink, topic, lease._for(sink), retain)
        return lease._end(self._share(full, sinks, skip) if full else 0.0)

    def _share(self, full, sinks, skip):
        n = len(sinks)
        if skip in sinks:
            n -= 1
        if full == n:
            return 1.0
        try:
            return _shares[n][full]
        except (KeyError, TypeError):
            return full / n  # allocates, on a microcontroller

    def _put(self, sink, topic, payload, retain):
        try:
            return sink.put(topic, payload, retain)
        except Exception as er:
            self._raised(sink, er)
            return 0

    def _raised(self, sink, er):
        report("Exception in subscriber " + getattr(sink, "name", str(sink)), er)

    async def publish_wait(self, topic, payload, retain=False, skip=None):
        """Like publish(), but waits until all who subscribe with policy "block" have room for the
        message. Those that have room get it at once; several calls that wait for the same
        subscriber go on in the order in which they came. If one is cancelled, those who had no
        room yet do not get the message."""
        try:
            sinks = self._routes[topic]
        except (KeyError, TypeError):
            sinks = self._route(topic)
        lease = None
        if _Lease and isinstance(payload, _Lease):
            lease = payload
            lease._begin()
        self.published += 1
        if retain:
            self._retain(topic, payload)
        ticket = self._ticket
        if ticket is None:
            ticket = self._ticket = _Ticket()
        plain = self._plain
        full = 0
        for sink in sinks:
            if sink is skip:
                continue
            if lease:
                payload = lease._for(sink)
            try:
                if plain and sink in plain:
                    full += sink.put(topic, payload, retain)
                else:
                    full += sink.put_wait(topic, payload, retain, ticket)
            except Exception as er:
                self._raised(sink, er)
        rating = self._share(full, sinks, skip) if full else 0.0
        if lease:
            rating = lease._end(rating)
        if ticket.sinks:
            self._ticket = None
            try:
                await ticket._wait()
            finally:
                for sink in ticket.sinks:  # none, unless it was cancelled
                    sink.unqueue(ticket)
        return rating

    def _retain(self, topic, payload):
        if _Lease and isinstance(payload, _Lease):
            payload = bytes(payload.view)
        if payload is None or isinstance(payload, (bytes, str)) and not payload:
            if topic in self._retained:
                self._retained[topic] = None  # a dict of MicroPython's holds on to what it had
                del self._retained[topic]
        else:
            self._retained[topic] = payload

    def retained(self, filter="#"):
        """List of the (topic, payload) that are retained for a filter (str), in any order."""
        return [item for item in self._retained.items() if matches(filter, item[0])]

    # The status page

    @property
    def delivered(self):
        """How many messages subscriptions' tasks and functions have got."""
        return self._delivered + self._sum("delivered")

    @property
    def dropped(self):
        """How many messages subscriptions have lost."""
        return self._dropped + self._sum("dropped")

    def _sum(self, name):
        counted = (Call, Subscription)
        sinks = {sink for _, sink in self.sinks() if isinstance(sink, counted)}
        return sum(getattr(sink, name) for sink in sinks)

    def snapshot(self):
        """Dict of what is to be seen on a status page: the counters, how many messages are
        retained, and a list of the subscribers, as dicts, with what is known of each."""
        subscribers = []
        for filter, sink in self.sinks():
            seen = {"filter": filter, "full": bool(sink.full())}
            for name in ("name", "policy", "maxlen", "queued", "delivered", "dropped"):
                if hasattr(sink, name):
                    seen[name] = getattr(sink, name)
            subscribers.append(seen)
        return {
            "published": self.published,
            "delivered": self.delivered,
            "dropped": self.dropped,
            "retained": len(self._retained),
            "subscribers": subscribers,
        }

    def sinks(self):
        """List of the (filter, sink) there are, in the order in which they subscribed."""
        found = []
        nodes = [("", self._root)]
        while nodes:
            path, node = nodes.pop()
            for level, below in node.items():
                if isinstance(below, dict):
                    nodes.append((path + level + "/", below))
                else:
                    filter = path + level if level else path[:-1]
                    found.extend((number, filter, sink) for number, sink in below)
        found.sort(key=lambda entry: entry[0])
        return [entry[1:] for entry in found]
