from collections.abc import Iterable
from typing import Any

from ..broker import Broker
from .link import Link, _Carrier

class Store:
    shared: int
    def __init__(self, threshold: int, sides: bytes) -> None: ...
    def begin(self, peer: Any, conn: Any) -> None: ...
    def end(self) -> None: ...
    def full(self) -> bool: ...
    def joined(self, head: bytearray, payload: bytes | bytearray | memoryview) -> Any: ...
    def placed(self, frame: Any) -> Any: ...

class SharedLink(Link):
    @property
    def shared(self) -> int: ...
    def __init__(
        self,
        broker: Broker,
        carrier: _Carrier,
        send: Iterable[str] = (),
        receive: Iterable[str] = (),
        *,
        threshold: int = 65536,
        secret: bytes | bytearray = b"",
        window: int = 16,
        max_size: int,
        keepalive: float = 15,
        name: str = "",
        integrity: bool = False,
    ) -> None: ...
