"""Pool: preallocated buffers that are published by reference, without a copy."""

from . import broker, subscription
from .compat import bounded, ticks_diff, ticks_ms


class Lease:
    """A buffer of a Pool, from lease() until the last subscriber is done with it.

    buf: memoryview of the whole buffer, to be filled; used: how many of its bytes are the
    payload (int), all unless that is set. Subscribers get a memoryview of those: functions while
    they run, a task until it takes the next message or its subscription is closed."""

    def __init__(self, pool, nbytes):
        self.buf = memoryview(bytearray(nbytes))
        self.used = nbytes
        self.view = self.buf  # subscribers get it
        self._pool = pool
        self._since = 0  # ticks of lease()
        self._out = False  # leased, and not yet published
        self._holders = 0  # how many subscriptions have it, and the publish() that is at work
        self._broker = None  # the one that has published it last

    def release(self):
        """Gives the buffer back without publishing it. From tasks and callbacks only."""
        if self._out:
            self._out = False
            self._pool._take_back(self)

    # Called by Broker.publish()

    def _check(self):
        if not self._out:
            raise ValueError("payload is a Lease that was published or released before")
        used = self.used
        n = len(self.buf)
        if not isinstance(used, int):
            raise TypeError("used of the Lease must be an int")
        if not 0 <= used <= n:
            raise ValueError("used of the Lease must be 0 to the length of its buf")
        self.view = self.buf if used == n else self.buf[:used]

    def _begin(self, broker):
        self._out = False
        self._broker = broker
        self._holders = 1

    def _return(self):
        self._holders -= 1
        if not self._holders:
            self._pool._take_back(self)


class Pool:
    """count buffers of nbytes bytes each (ints), for payloads that are too large to be copied.

    refused: how often lease() found none."""

    def __init__(self, count, nbytes):
        bounded("count", count, 1)
        bounded("nbytes", nbytes, 1)
        self.refused = 0
        self._leases = tuple(Lease(self, nbytes) for _ in range(count))
        # A ring of the free ones with one place more, which stays free.
        self._ring = list(self._leases)
        self._ring.append(None)
        self._first = 0  # the next one to be leased; changed by lease() only
        self._last = count  # where the next one goes that comes back; changed by the loop only
        self._pressures = tuple(i / count for i in range(count + 1))

    def lease(self):
        """Returns a Lease: fill its buf, then publish it. None if all are in use. May be called
        from a hard interrupt and never allocates, but by one side only: one interrupt handler, one
        other thread, or the loop's tasks and callbacks."""
        i = self._first
        if i == self._last:
            self.refused += 1
            return None
        lease = self._ring[i]
        i += 1
        self._first = 0 if i == len(self._ring) else i
        lease.used = len(lease.buf)
        lease._since = ticks_ms()
        lease._out = True
        return lease

    def _take_back(self, lease):
        i = self._last
        self._ring[i] = lease
        i += 1
        self._last = 0 if i == len(self._ring) else i

    def leased(self):
        """How many are in use."""
        return len(self._leases) - (self._last - self._first) % len(self._ring)

    def pressure(self):
        """The share that is in use, from 0.0 to 1.0. A publish() of a Lease returns no less."""
        return self._pressures[self.leased()]

    def holders(self, ms=0):
        """List of (name, ms) of those that have a buffer for ms (int) or longer, the longest
        first: names of subscriptions, and "publisher" for one that is not published yet."""
        found = []
        now = ticks_ms()
        for lease in self._leases:
            since = ticks_diff(now, lease._since)
            if since < ms:
                continue
            if lease._out:
                found.append(("publisher", since))
            elif lease._holders:
                subs = {
                    s for _, s in lease._broker.sinks() if type(s) is subscription.Subscription
                }
                found.extend((sub.name, since) for sub in subs if sub._has(lease))
        found.sort(key=lambda holder: -holder[1])
        return found


broker._Lease = subscription._Lease = Lease
