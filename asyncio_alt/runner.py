"""Runner: several runs, one after the other, with the tasks that are left in between."""

from . import core
from .loop import Loop


async def _nothing():
    pass


class Runner:
    """Runs coroutines one after the other: `with Runner() as runner: runner.run(main())`. Tasks
    that are left after run() go on in the next one; close() cancels them, and waits as run() of
    the package does. There is one loop, so debug has no effect, and loop_factory must be None
    (else ValueError)."""

    def __init__(self, *, debug=None, loop_factory=None):
        if loop_factory is not None:
            raise ValueError("Runner: loop_factory must be None, as there is one loop")
        self._closed = False

    def __enter__(self):
        self.get_loop()
        return self

    def __exit__(self, exc_type, exc, tb):
        self.close()

    def get_loop(self):
        """Returns the Loop. RuntimeError after close()."""
        if self._closed:
            raise RuntimeError("Runner: closed")
        return Loop

    def run(self, coro):
        """Runs tasks until the coroutine coro has ended; returns its result or raises its
        exception. RuntimeError inside a running loop and after close()."""
        loop = self.get_loop()
        if core.running:
            raise RuntimeError("run() inside a running event loop")
        return loop.run_until_complete(core.create_task(coro))

    def close(self):
        """Cancels the tasks that are left, and waits until they have ended, for end_limit() at
        most. RuntimeError inside a running loop. A second call does nothing."""
        if not self._closed:
            core.run(_nothing())
            self._closed = True
