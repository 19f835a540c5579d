from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ..broker import Broker
from .messages import Messages

class _Carrier(Protocol):
    calls: bool
    lossy: bool
    async def open(self, factory: Callable[[], Any]) -> Any: ...

class Link(Messages):
    GREETING: float
    BACKOFF: tuple[float, float]
    RESEND: int
    name: str
    carrier: _Carrier
    refused: int
    error: BaseException | None
    def __init__(
        self,
        broker: Broker,
        carrier: _Carrier,
        send: Iterable[str] = (),
        receive: Iterable[str] = (),
        *,
        secret: bytes | bytearray = b"",
        window: int = 16,
        max_size: int = 1024,
        keepalive: float = 15,
    ) -> None: ...
    def start(self) -> None: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Link: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def wait_connected(self) -> None: ...
    async def drain(self) -> None: ...
