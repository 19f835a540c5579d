"""A cancellation that knows its owners, as a task cannot count its cancellations."""

from . import core


class CancelledError(core.CancelledError):
    """The cancellation that `owners` (a list) asked for: deadlines and groups that have cancelled
    one task before it ran."""


def request(task, owner):
    """Cancels a task for an owner (any object), unless somebody else cancels it already."""
    while isinstance(task.data, core.Task):
        task = task.data
    exc = task.data
    if isinstance(exc, CancelledError):
        exc.owners.append(owner)
    elif exc is not core.CancelledError:
        exc = CancelledError()
        exc.owners = [owner]
        task.cancel()
        task.data = exc


def answer(exc, owner):
    """Takes an owner off the exception (or None) that its task has raised. Returns True if that is
    a cancellation that nobody else has asked for."""
    if not isinstance(exc, CancelledError) or owner not in exc.owners:
        return False
    exc.owners.remove(owner)
    return not exc.owners
