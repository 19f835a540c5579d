# peterhinch's design, reproduced on the stock package as the module "peer": it is not his package.
# A task that waited for a stream or flag is queued as if it had been due a second ago, as with
# his roundrobin(False). With power_mode(True) the chip sleeps 20 ms at a time, whatever waits. All
# else is stock's: a flag that is waited for is a stream, which every pass polls.

import asyncio
import select
import sys
from asyncio import core
from time import ticks_add, ticks_ms

_AHEAD_MS = 1000
_SLICE_MS = 20


def poll(self, ms):
    # Queues the tasks that can go on; returns whether there are any.
    woken = False
    for stream, events in self.poller.ipoll(ms):
        entry = self.map[id(stream)]
        reader, writer, _ = entry
        key = ticks_add(ticks_ms(), -_AHEAD_MS)
        if reader and events & ~select.POLLOUT:
            core._task_queue.push(reader, key)
            entry[0] = reader = None
            woken = True
        if writer and events & ~select.POLLIN:
            core._task_queue.push(writer, key)
            entry[1] = writer = None
            woken = True
        if not reader and not writer:
            self._dequeue(stream)
        else:
            self.poller.modify(stream, select.POLLIN if reader else select.POLLOUT)
    return woken


def sleep(self, ms):
    # ms: until the next deadline, -1 if there is no deadline (where his raises IndexError)
    while not poll(self, 0) and ms:
        part = _SLICE_MS if ms < 0 else min(ms, _SLICE_MS)
        lightsleep(part)
        if ms > 0:
            ms -= part


class IOQueue(core.IOQueue):
    wait_io_event = poll


def power_mode(on):
    global lightsleep
    from machine import lightsleep

    IOQueue.wait_io_event = sleep if on else poll


core.IOQueue = IOQueue
core.new_event_loop()
asyncio.power_mode = power_mode
sys.modules["peer"] = asyncio
