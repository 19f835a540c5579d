from collections.abc import Iterable

from ..broker import Broker
from .link import Link, _Carrier

class SharedLink(Link):
    shared: int
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
    ) -> None: ...
