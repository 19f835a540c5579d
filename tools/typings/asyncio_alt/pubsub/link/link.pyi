from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ..broker import Broker

class _Carrier(Protocol):
    calls: bool
    lossy: bool
    async def open(self, factory: Callable[[], Any]) -> Any: ...

class Door:
    carrier: _Carrier
    strangers: list[Any]
    task: Any
    peer: Any
    most: int
    joined: list[Any]
    shake: Any
    def __init__(self, carrier: _Carrier, peer: Any, times: Any) -> None: ...
    def open(self) -> None: ...
    async def close(self, stop: Callable[[], object]) -> None: ...

class Link:
    GREETING: float
    BACKOFF: tuple[float, float]
    RESEND: int
    name: str
    carrier: _Carrier
    connected: bool
    delivered: int
    received: int
    dropped: int
    resent: int
    refused: int
    error: BaseException | None
    peer: Any
    door: Door
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
        name: str = "",
        integrity: bool = False,
    ) -> None: ...
    def start(self) -> None: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Link: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def wait_connected(self) -> None: ...
    async def drain(self) -> None: ...
    def full(self) -> bool: ...
    def put(self, topic: str, payload: Any, retain: bool = False, ticket: Any = None) -> int: ...
    put_wait = put
    def unqueue(self, ticket: Any) -> None: ...
