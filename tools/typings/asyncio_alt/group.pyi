from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from .core import Task

_T = TypeVar("_T")

_Class = type[BaseException]
_Condition = _Class | tuple[_Class, ...] | Callable[[BaseException], object]

class _Group:
    message: str
    exceptions: tuple[BaseException, ...]
    def derive(self, exceptions: Sequence[BaseException]) -> BaseExceptionGroup: ...
    def split(
        self, condition: _Condition
    ) -> tuple[BaseExceptionGroup | None, BaseExceptionGroup | None]: ...
    def subgroup(self, condition: _Condition) -> BaseExceptionGroup | None: ...

class BaseExceptionGroup(_Group, BaseException):
    def __init__(self, message: str, exceptions: Sequence[BaseException]) -> None: ...

class ExceptionGroup(_Group, Exception):
    def __init__(self, message: str, exceptions: Sequence[Exception]) -> None: ...

class TaskGroup:
    def __init__(self) -> None: ...
    async def __aenter__(self) -> TaskGroup: ...
    async def __aexit__(self, exc_type: object, exc: object, tb: object) -> None: ...
    def create_task(
        self, coro: Coroutine[Any, Any, _T], *, name: str | None = None
    ) -> Task[_T]: ...
