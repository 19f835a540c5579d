"""PriorityQueue and LifoQueue."""

from heapq import heappop, heappush

from .queue import Queue, QueueFull


def _full(items, item):
    raise QueueFull


_ways = heappush, _full


class PriorityQueue(Queue):
    """A Queue that gives the least item first. The items must be comparable with <, such as tuples
    (priority, item); put() raises TypeError for one that is not."""

    def _append(self, item):
        items = self._items
        if items:
            item < items[0]  # TypeError before the heap changes
        # No jump between the look and the push, as a scheduled callback may put, too.
        _ways[(self.maxsize > 0) & (len(items) >= self.maxsize)](items, item)

    def _take(self):
        return heappop(self._items)


class LifoQueue(Queue):
    """A Queue that gives the newest item first."""

    def _take(self):
        return self._items.pop()
