from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from ..core import Task
from ..pubsub import Broker

_T = TypeVar("_T")
_S = TypeVar("_S")

class _Pins(Generic[_T]):
    def close(self) -> None: ...
    async def __aenter__(self: _S) -> _S: ...
    async def __aexit__(self, exc_type: object, exc: object, tb: object) -> None: ...
    def __aiter__(self: _S) -> _S: ...
    async def __anext__(self) -> _T: ...
    def feed(self, broker: Broker, topic: str) -> Task[None]: ...

class _Ring(_Pins[_T]):
    overruns: int
    priority: bool
    def __init__(self, pin: Any, trigger: int, size: int, priority: bool) -> None: ...

class Edges(_Ring[tuple[int, int]]):
    def __init__(
        self, pin: Any, trigger: int | None = None, size: int = 16, priority: bool = False
    ) -> None: ...

class Pulse(_Ring[int]):
    def __init__(
        self, pin: Any, level: int = 1, size: int = 16, priority: bool = False
    ) -> None: ...

class Encoder(_Pins[int]):
    errors: int
    priority: bool
    position: int
    def __init__(
        self,
        pin_a: Any,
        pin_b: Any,
        div: int = 1,
        limits: tuple[int, int] | list[int] | None = None,
        priority: bool = False,
    ) -> None: ...

class Button(_Pins[str]):
    overruns: int
    priority: bool
    def __init__(
        self,
        pin: Any,
        pressed: int = 0,
        debounce_ms: int = 20,
        double_ms: int = 400,
        long_ms: int = 1000,
    ) -> None: ...
    def press(self) -> Coroutine[Any, Any, bool]: ...
    def release(self) -> Coroutine[Any, Any, bool]: ...
    def double(self) -> Coroutine[Any, Any, bool]: ...
    def long(self) -> Coroutine[Any, Any, bool]: ...
    def is_pressed(self) -> bool: ...
    def close(self) -> None: ...
    def feed(self, broker: Broker, topic: str) -> Task[None]: ...
