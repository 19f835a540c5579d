"""Broker: topics, filters, and the way of a message to its subscribers."""

from .compat import FAULTS, Waiter, report, wake
from .subscription import Call, Subscription

_ROUTES = 32  # how many topics' subscribers are remembered
_SHARES = 16  # up to how many subscribers the ratings are made in advance

_Lease = None  # pool.Lease, once there is a pool
_shares = {}  # number of subscribers: the ratings when 0, 1, ... of them are full

# The first byte of a character in UTF-8: bounds of the second one, where they are narrower.
_EDGES = {0xE0: (160, 191), 0xED: (128, 159), 0xF0: (144, 191), 0xF4: (128, 143)}


def _check(text, what):
    if not isinstance(text, str):
        raise TypeError(what + " must be a str")
    try:
        data = text.encode()
    except UnicodeError:
        data = b"\xff"
    if not 0 < len(data) < 65536 or 0 in data:
        raise ValueError(what + " must have 1 to 65535 bytes, none of them 0")
    if max(data) > 127 and not _utf8(data):
        raise ValueError(what + " must be UTF-8, without surrogates")


def _utf8(data):
    # MicroPython's str takes more: surrogates, overlong forms, numbers above 0x10FFFF.
    more = 0  # how many bytes of the character are to come
    least = most = 0  # bounds of the next one of these
    for b in data:
        if more:
            if not least <= b <= most:
                return False
            more -= 1
        elif b < 128:
            continue
        elif 0xC2 <= b <= 0xF4:
            more = 1 + (b > 0xDF) + (b > 0xEF)
            if b in _EDGES:
                least, most = _EDGES[b]
                continue
        else:
            return False
        least = 128
        most = 191
    return not more


def _levels(filter):
    # The levels of a filter, which must be valid.
    _check(filter, "filter")
    levels = filter.split("/")
    for i, level in enumerate(levels):
        if level == "#" and i == len(levels) - 1 or level == "+":
            continue
        if "#" in level or "+" in level:
            raise ValueError("filter: + and # stand for whole levels, # for the last ones")
    return levels


def _keys(filter):
    # A filter's way through the tree.
    keys = _levels(filter)
    if keys[-1] != "#":
        keys.append(None)
    return keys


def matches(filter, topic):
    """Whether a filter (str), as of MQTT 3.1.1, matches a topic (str). ValueError or TypeError if
    either is invalid."""
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


def _may_wait(sink):
    return hasattr(sink, "unqueue") and getattr(sink, "policy", "block") == "block"


class _Ticket(Waiter):
    # One publish_wait() that waits for room.
    def __init__(self):
        self.sinks = []  # those that have no room yet

    def wait(self, sink):
        self.sinks.append(sink)

    def done(self, sink):
        # A sink is not waited for after its put_wait() has raised.
        if sink in self.sinks:
            self.sinks.remove(sink)
            if not self.sinks and self.task:
                wake(self)


class Broker:
    """Hands each published message to all subscribers of its topic, in the order in which they
    subscribed. To be used by the tasks and callbacks of one loop; interrupts and other threads
    publish by a Publisher.

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
        self._waits = {}  # topic: those of them that publish_wait() waits for, if there are any
        self._plain = ()  # the sinks in _routes that have no put_wait()
        self._ticket = None  # a _Ticket that nobody has waited with
        self._untidy = False  # one that is closed is still in the tree

    # Subscribing

    def subscribe(self, filter, *, maxlen=None, policy="drop_old", priority=False):
        """Makes a Subscription.

        filter: the topics (str), with + for one level and # for all further ones; maxlen: how
        many messages it queues (int up to 16777215; default 8, with "latest" 1; 0: it takes one
        only while a task waits for it); policy: the rule when it is full: "block": publish()
        drops the new message, publish_wait() waits; "drop_old", "drop_new"; "latest": drop all but
        the new one; priority: True to have the task that waits run next, ahead of the ready tasks.
        Retained messages are queued at once."""
        return self._add(Subscription(self, filter, maxlen, policy, priority))

    def subscribe_call(self, filter, fn):
        """Has fn(topic, payload) called inside publish(), at once for retained messages. Returns
        an object to close(). An exception that fn raises is reported."""
        return self._add(Call(self, filter, fn))

    def _add(self, sink):
        try:
            self._attach(sink.filter, sink)
        except BaseException as er:
            # Nobody else could. Without memory MicroPython has one object for all exceptions: had
            # close() one of another type, it would be that which is raised here.
            sink.close()
            raise er
        return sink

    def attach(self, filter, sink):
        """Hands the messages for a filter (str) to a sink: any object with put(topic, payload,
        retain), which returns its part of the rating, from 0 (took it, with room to spare) to 1
        (could not), and full(). It gets a message once, also if several of its filters match, and
        the retained ones at once, each unless it was replaced or forgotten meanwhile. A
        subscription that is attached so ends with its close()."""
        if isinstance(sink, (Call, Subscription)):
            if sink._broker is None:
                raise ValueError("sink is closed")
            if (self, filter) not in sink._also:
                sink._also += ((self, filter),)
        self._attach(filter, sink)

    def _attach(self, filter, sink):
        keys = _keys(filter)
        self._number += 1
        below = [(self._number, sink)]
        kept = self.retained(filter) if self._retained else ()
        # Find the last node that is there, make the nodes below it, and join the two by one step:
        # if there is no memory for it, the tree is as it was.
        node = self._root
        n = 1
        for key in keys[:-1]:
            if key not in node:
                break
            node = node[key]
            n += 1
        key = keys.pop()
        while len(keys) >= n:
            below = {key: below}
            key = keys.pop()
        if key in node:
            node[key].append(below[0])
        else:
            node[key] = below
        self._forget_routes()
        for topic, payload in kept:
            # A function may have published another one, which it has got by now.
            if self._retained.get(topic) is payload:
                self._put(sink, topic, payload, True)

    def detach(self, filter, sink):
        """Ends that. ValueError if it was not attached."""
        if not self._detach(filter, sink):
            raise ValueError("sink is not attached to that filter")

    def _detach(self, filter, sink):
        keys = _keys(filter)
        path = []
        node = self._root
        for key in keys:
            path.append(node)
            node = node.get(key, ())
            if not node:
                break
        for entry in node:
            if entry[1] is sink:
                break
        else:
            return False
        # From here on no memory is needed.
        node.remove(entry)
        while path and not node:
            node = path.pop()
            del node[keys.pop()]
        self._forget_routes()
        return True

    def _forget_routes(self):
        self._plain = ()
        self._routes.clear()
        self._waits.clear()

    def _forget(self, sink):
        # A Subscription or Call has been closed.
        self._delivered += sink.delivered
        self._dropped += sink.dropped
        self._let_go(sink.filter, sink)
        for broker, filter in sink._also:
            broker._let_go(filter, sink)

    def _let_go(self, filter, sink):
        try:
            while self._detach(filter, sink):
                pass
        except MemoryError:
            self._untidy = True
            self._forget_routes()
        except (TypeError, ValueError):
            pass  # no filter: it is not attached

    # Publishing

    def _route(self, topic):
        # Find the sinks for a topic, in the order in which they subscribed.
        if self._untidy:
            self.sinks()
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
            if type(sink) in (Call, Subscription):
                if sink._also and sink in sinks:
                    continue
            elif sink in sinks:
                continue
            elif not hasattr(sink, "put_wait"):
                self._plain += (sink,)
            sinks.append(sink)
        n = len(sinks)
        if 1 < n <= _SHARES and n not in _shares:
            _shares[n] = tuple(i / n for i in range(n + 1))
        if len(self._routes) >= _ROUTES:
            self._waits.pop(self._routes.popitem()[0], None)
        waits = [sink for sink in sinks if _may_wait(sink)]
        if waits:
            self._waits[topic] = waits
        self._routes[topic] = sinks = tuple(sinks)
        return sinks

    def publish(self, topic, payload, retain=False, skip=None):
        """Hands a message to all subscribers of its topic, and returns the rating: the share of
        them that had no room for it, from 0.0 to 1.0.

        topic: str; payload: any object; retain: True to keep it for later subscribers; then a
        payload of None, b"" or "" forgets the retained message; skip: a sink that does not get
        it."""
        try:
            sinks = self._routes[topic]
        except (KeyError, TypeError):
            sinks = self._route(topic)
        if _Lease and isinstance(payload, _Lease):
            return self._publish_lease(sinks, topic, payload, retain, skip)
        if retain:
            self._retain(topic, payload)
        self.published += 1
        full = 0
        for sink in sinks:
            if sink is not skip:
                try:
                    full += sink.put(topic, payload, retain)
                except FAULTS as er:
                    self._raised(sink, er)
        return self._share(full, sinks, skip) if full else 0.0

    def _publish_lease(self, sinks, topic, lease, retain, skip, ticket=None):
        # Steps that may raise come first: then the lease is still the caller's.
        lease._check()
        if retain:
            self._retain(topic, bytes(lease.view))
        lease._begin(self)
        self.published += 1
        full = 0
        try:
            for sink in sinks:
                if sink is not skip:
                    full += self._put_lease(sink, topic, lease, retain, ticket)
        finally:
            lease._return()
        return max(self._share(full, sinks, skip), lease._pool.pressure())

    def _put_lease(self, sink, topic, lease, retain, ticket):
        # A queue keeps the lease, and returns it when it is done with it.
        queues = type(sink) is Subscription
        if queues:
            lease._holders += 1
        payload = lease if queues else lease.view
        try:
            if ticket and hasattr(sink, "put_wait"):
                return sink.put_wait(topic, payload, retain, ticket)
            return sink.put(topic, payload, retain)
        except FAULTS as er:
            if queues:
                lease._return()
            self._raised(sink, er, ticket)
            return 0

    def _share(self, full, sinks, skip):
        if not full:
            return 0.0
        n = len(sinks)
        if skip in sinks:
            n -= 1
        if full >= n:
            return 1.0
        try:
            return _shares[n][full]
        except Exception:
            pass
        try:
            return full / n  # allocates, on a microcontroller
        except MemoryError:
            return 1.0

    def _put(self, sink, topic, payload, retain):
        try:
            sink.put(topic, payload, retain)
        except FAULTS as er:
            self._raised(sink, er)

    def _raised(self, sink, er, ticket=None):
        if ticket and sink in ticket.sinks:
            ticket.sinks.remove(sink)
        try:
            what = "Exception in subscriber " + getattr(sink, "name", str(sink))
        except Exception:  # no memory, or a name that is not a str
            what = "Exception in a subscriber"
        report(what, er)

    async def publish_wait(self, topic, payload, retain=False, skip=None):
        """Like publish(), but waits until all subscribers with policy "block" have room for the
        message. Those that have room get it at once; several calls that wait for the same
        subscriber go on in the order in which they came. If one is cancelled, subscribers that
        had no room yet do not get the message."""
        try:
            sinks = self._routes[topic]
        except (KeyError, TypeError):
            sinks = self._route(topic)
        # Nobody else may have it: a function that is called may publish and wait, too.
        ticket = self._ticket or _Ticket()
        self._ticket = None
        if _Lease and isinstance(payload, _Lease):
            rating = self._publish_lease(sinks, topic, payload, retain, skip, ticket)
        else:
            if retain:
                self._retain(topic, payload)
            self.published += 1
            plain = self._plain
            full = 0
            for sink in sinks:
                if sink is skip:
                    continue
                try:
                    if plain and sink in plain:
                        full += sink.put(topic, payload, retain)
                    else:
                        full += sink.put_wait(topic, payload, retain, ticket)
                except FAULTS as er:
                    self._raised(sink, er, ticket)
            rating = self._share(full, sinks, skip) if full else 0.0
        if not ticket.sinks:
            self._ticket = ticket
            return rating
        try:
            await ticket._wait()
        finally:
            while ticket.sinks:  # it was cancelled
                sink = ticket.sinks.pop()
                try:
                    sink.unqueue(ticket)
                except FAULTS as er:
                    self._raised(sink, er)
        return rating

    def would_wait(self, topic, skip=None):
        """Whether publish_wait() would have to wait for room now."""
        if topic not in self._routes:
            self._route(topic)
        return topic in self._waits and any(
            [sink.full() for sink in self._waits[topic] if sink is not skip]
        )

    def _retain(self, topic, payload):
        if payload is None or isinstance(payload, (bytes, str)) and not payload:
            if topic in self._retained:
                self._retained[topic] = None  # a dict of MicroPython's holds on to the old value
                del self._retained[topic]
        else:
            self._retained[topic] = payload

    def retained(self, filter="#"):
        """List of the (topic, payload) that are retained for a filter (str), in any order."""
        _levels(filter)
        if filter in self._retained:
            return [(filter, self._retained[filter])]
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
        # Of each once, however many filters it has.
        sinks = {sink for _, sink in self.sinks() if isinstance(sink, (Call, Subscription))}
        return sum(getattr(sink, name) for sink in sinks)

    def snapshot(self):
        """Dict for a status page: the counters, how many messages are retained, and a list of the
        subscribers, as dicts, with the known figures of each."""
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
        live = []
        for _, filter, sink in found:
            if isinstance(sink, (Call, Subscription)) and sink._broker is None:
                self.detach(filter, sink)  # for which close() had no memory
            else:
                live.append((filter, sink))
        self._untidy = False
        return live
