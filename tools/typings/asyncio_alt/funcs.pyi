from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from .core import Task

_T = TypeVar("_T")

async def wait_for(
    aw: Coroutine[Any, Any, _T] | Task[_T],
    timeout: float | None,
    sleep: Callable[[Any], Awaitable[None]] = ...,
) -> _T: ...
def wait_for_ms(
    aw: Coroutine[Any, Any, _T] | Task[_T], timeout: int | None
) -> Coroutine[Any, Any, _T]: ...
async def gather(
    *aws: Coroutine[Any, Any, Any] | Task[Any], return_exceptions: bool = False
) -> list[Any]: ...
