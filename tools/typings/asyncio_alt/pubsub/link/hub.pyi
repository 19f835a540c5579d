from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..broker import Broker
from .link import _Carrier

_Secret = bytes | bytearray
_Access = _Secret | tuple[_Secret, Iterable[str], Iterable[str]]

class _Peer(Protocol):
    name: str
    connected: bool
    delivered: int
    received: int
    dropped: int
    resent: int
    refused: int
    error: BaseException | None

class Hub:
    GREETING: float
    BACKOFF: tuple[float, float]
    RESEND: int
    connected: bool
    peers: dict[str, _Peer]
    refused: int
    error: BaseException | None
    secret: None
    state: None
    def __init__(
        self,
        broker: Broker,
        carrier: _Carrier,
        # Of bytes and a tuple in one dict, type checkers make sequences.
        peers: Mapping[str, _Access | Sequence[Any]] | Callable[[str], _Access | None],
        send: Iterable[str] = (),
        receive: Iterable[str] = (),
        *,
        window: int = 16,
        max_size: int = 1024,
        keepalive: float = 15,
        most: int = 16,
        integrity: bool = False,
    ) -> None: ...
    def start(self) -> None: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Hub: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def find(self, name: bytes) -> tuple[_Secret, Any]: ...
