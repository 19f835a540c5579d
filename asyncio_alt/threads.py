"""to_thread(): a function that runs in another thread while the loop goes on."""

import sys

from . import core
from .future import Future
from .loop import Loop
from .sync import Semaphore

try:
    import _thread
except ImportError:
    _thread = None

# rp2 has one core beside the loop's.
_room = Semaphore(1 if sys.platform == "rp2" else 8)


async def to_thread(func, *args, **kwargs):
    """Calls func(*args, **kwargs) in another thread; returns its result or raises its exception.
    Eight run at once, on rp2 one, on its second core; the others wait. If the caller is cancelled,
    the function goes on, and its result is dropped. RuntimeError on a port without threads."""
    if not _thread:
        raise RuntimeError("to_thread: this port has no threads")
    if not callable(func):
        raise TypeError("to_thread: func must be callable")
    future = Future()

    def run():
        try:
            end = StopIteration(func(*args, **kwargs))
        except StopIteration as er:
            end = RuntimeError("to_thread: func raised StopIteration", er)
        except BaseException as er:
            end = er
        Loop.call_soon_threadsafe(ended, end)

    def ended(end):
        _room.release()
        if not future.done():
            future._end(end)

    await _room.acquire()
    try:
        await _start(run)
    except BaseException:
        _room.release()
        raise
    return await future


async def _start(run):
    # On rp2 the second core is in use for a moment after the last function has returned.
    for left in range(20, -1, -1):
        try:
            _thread.start_new_thread(run, ())
            return
        except OSError:
            if not left:
                raise
            await core.sleep_ms(1)
