"""A cancellation that knows its owners, as a task cannot count its cancellations."""

from . import core

_asked = {}  # a task to the owners that have cancelled it, and have not answered for that yet


class CancelledError(core.CancelledError):
    """The cancellation that deadlines and groups have asked for, and nobody else."""


def asked(task):
    """How many owners (int) have cancelled a task and have not answered yet."""
    return len(_asked.get(task, ()))


def request(task, owner):
    """Cancels a task for an owner (any object), unless somebody else cancels it already. The owner
    must call answer() in that task."""
    for t in [t for t in _asked if not t.state]:
        del _asked[t]  # it was dropped by the end of run()
    _asked.setdefault(task, []).append(owner)
    _cancel(task)


def _cancel(task):
    last = task
    while isinstance(last.data, core.Task):
        last = last.data
    if last.data is not core.CancelledError and task.cancel():
        last.data = CancelledError()


def repeat(task, outside):
    """Cancels a task again, for all owners that have not answered yet, or (outside: True) for
    others."""
    if outside:
        task.cancel()
    elif task in _asked:
        _cancel(task)


def answer(task, exc, owner, before=0):
    """An owner answers for the exception (or None) that its task has raised. Returns True if that
    is a cancellation that nobody else has asked for, apart from owners that had asked `before`
    (int, what asked() was)."""
    owners = _asked.get(task, ())
    if owner in owners:
        owners.remove(owner)
        if not owners:
            del _asked[task]
    return isinstance(exc, CancelledError) and len(owners) <= before
