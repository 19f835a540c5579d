"""Subscription: the bounded queue between the publishers and one subscriber."""

from collections import deque

from .compat import MOST, Waiter, wake

_len = len  # found sooner than a builtin name

POLICIES = ("block", "drop_old", "drop_new", "latest")

_Lease = None  # pool.Lease, once there is a pool


class Closed(Exception):
    """Raised by a Subscription that is closed."""


class Subscription(Waiter):
    """A queue of messages that one task takes from. Broker.subscribe() makes it; it is an async
    iterator of (topic, payload) and an async context manager that closes it at the end.

    filter: the topics (str); name: its name in reports and snapshots, its filter unless it is
    set; policy, maxlen, priority: as given to subscribe(); delivered: how many messages were taken
    from it; dropped: how many were lost, because it was full or when it was closed."""

    _also = ()  # (broker, filter) to which it is attached besides

    def __init__(self, broker, filter, maxlen, policy, priority):
        if policy not in POLICIES:
            raise ValueError("policy must be one of " + ", ".join(POLICIES))
        if maxlen is None:
            maxlen = 1 if policy == "latest" else 8
        if not isinstance(maxlen, int):
            raise TypeError("maxlen must be an int")
        if not 0 <= maxlen <= MOST or maxlen == 0 and policy in ("drop_old", "latest"):
            raise ValueError("maxlen must be 1 to 16777215, or 0 with block or drop_new")
        self.filter = self.name = filter
        self.maxlen = maxlen
        self.policy = policy
        self.priority = priority
        self.delivered = self.dropped = 0
        self._broker = broker
        # Topic, payload, topic, payload, ...; made once, so to queue a message allocates nothing.
        self._queue = deque((), 2 * (maxlen or 1))
        # How long it may be: with maxlen 0 there is room while a task waits; closed: -1.
        self._room = 2 * maxlen
        self._late = None  # list of (topic, payload, ticket): publish_wait() waits with them
        self._held = None  # the Lease that the task has taken last

    # The sink's side

    def full(self):
        return len(self._queue) >= self._room >= 0

    def put(self, topic, payload, retain=False, ticket=None):
        """Queues a message, or applies the policy: returns 1 if there was no room, else 0.
        ticket: publish_wait()'s, which can wait."""
        queue = self._queue
        if self.task:  # it waits, so there is room
            wake(self)
        elif _len(queue) >= self._room:
            return self._overflow(topic, payload, ticket)
        queue.append(topic)
        queue.append(payload)
        return 0

    put_wait = put

    def _overflow(self, topic, payload, ticket):
        if self._room < 0:  # closed by a subscriber that had the message before
            self._drop(payload, 0)
            return 0
        queue = self._queue
        if self.policy == "latest":
            while queue:
                self._drop_first()
        elif self.policy == "drop_old":
            self._drop_first()
        elif ticket and self.policy == "block":
            if self._late is None:
                self._late = []
            self._late.append((topic, payload, ticket))
            try:
                ticket.wait(self)
            except MemoryError:
                self._late.pop()
                raise
            return 1
        else:
            self._drop(payload)
            return 1
        Subscription.put(self, topic, payload)
        return 1

    def _drop_first(self):
        self._queue.popleft()
        self._drop(self._queue.popleft())

    def _drop(self, payload, count=1):
        self.dropped += count
        if _Lease and isinstance(payload, _Lease):
            payload._return()

    def unqueue(self, ticket):
        """Forgets the message of the ticket: its publish_wait() was cancelled."""
        i = 0  # without enumerate(), which takes memory
        for late in self._late:
            if late[2] is ticket:
                self._late.pop(i)
                self._drop(late[1])
                break
            i += 1

    # The subscriber's side

    @property
    def queued(self):
        """How many messages are queued."""
        return len(self._queue) // 2

    def get_nowait(self):
        """Takes the oldest message; returns (topic, payload). QueueEmpty if the queue is empty,
        Closed after close()."""
        self.release()
        if not self._queue:
            if self._room < 0:
                raise Closed(self.name)
            if not self._late:
                from .. import QueueEmpty

                raise QueueEmpty
        return self._take()

    async def get(self):
        """Takes the oldest message when there is one; returns (topic, payload). Closed after
        close(), also if that comes while it waits; RuntimeError if another task waits."""
        if self._held:
            self.release()
        queue = self._queue
        while not (queue or self._late):
            if self._room < 0:
                raise Closed(self.name)
            if self._room:
                await self._wait()
                continue
            self._room = 2
            try:
                await self._wait()
            finally:
                if not self.maxlen and self._room > 0:
                    self._room = 0
        if self._late or _Lease:
            return self._take()
        self.delivered += 1
        return (queue.popleft(), queue.popleft())

    def _take(self):
        queue = self._queue
        late = self._late
        if queue:
            topic = queue.popleft()
            payload = queue.popleft()
            if late and self.maxlen:
                # The message that has waited longest takes the room.
                item = late.pop(0)
                queue.append(item[0])
                queue.append(item[1])
                item[2].done(self)
        else:
            topic, payload, ticket = late.pop(0)
            ticket.done(self)
        self.delivered += 1
        if _Lease and isinstance(payload, _Lease):
            self.release()  # the Lease that another task took, while this one waited
            self._held = payload
            payload = payload.view
        return (topic, payload)

    def release(self):
        """Gives the pool's buffer that was taken last back; the next get, or close(), does it
        too."""
        lease = self._held
        if lease:
            self._held = None
            lease._return()

    def _has(self, lease):
        # Whether it is not done with a lease.
        if self._held is lease:
            return True
        for payload in self._queue:
            if payload is lease:
                return True
        for late in self._late or ():
            if late[1] is lease:
                return True
        return False

    def __aiter__(self):
        return self

    async def __anext__(self):
        queue = self._queue
        if queue and not (self._late or _Lease):
            self.delivered += 1
            return (queue.popleft(), queue.popleft())
        try:
            return await self.get()
        except Closed:
            raise StopAsyncIteration

    def close(self):
        """Ends the subscription, now; queued messages are dropped, a task that waits gets Closed.
        May be called twice, by anybody in the loop, also while a message is being delivered."""
        if self._room < 0:
            return
        self._room = -1
        while self._queue:
            self._drop_first()
        while self._late:
            _, payload, ticket = self._late.pop(0)
            self._drop(payload)
            ticket.done(self)
        self.release()
        if self.task:
            wake(self)
        broker = self._broker
        self._broker = None
        broker._forget(self)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        self.close()


class Call:
    """A function that is called inside publish(). Broker.subscribe_call() makes it.

    filter, name: as a Subscription's; delivered: how often it was called; dropped: 0."""

    dropped = 0
    _also = ()

    def __init__(self, broker, filter, fn):
        if not callable(fn):
            raise TypeError("fn must be callable")
        self.filter = self.name = filter
        self.delivered = 0
        self._broker = broker
        self._fn = fn  # None: closed

    def put(self, topic, payload, retain=False, ticket=None):
        fn = self._fn
        if fn:
            self.delivered += 1
            fn(topic, payload)
        return 0

    put_wait = put

    def full(self):
        return False

    def close(self):
        """Ends the subscription, now. May be called twice, and by fn itself."""
        if self._fn:
            self._fn = None
            broker = self._broker
            self._broker = None
            broker._forget(self)
