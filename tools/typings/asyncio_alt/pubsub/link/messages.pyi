from collections.abc import Iterable
from typing import Any

from ..broker import Broker

class Messages:
    connected: bool
    delivered: int
    received: int
    dropped: int
    resent: int
    def __init__(self, broker: Broker, receive: Iterable[str], max_size: int) -> None: ...
    def full(self) -> bool: ...
    def put(self, topic: str, payload: Any, retain: bool = False, ticket: Any = None) -> int: ...
    put_wait = put
    def unqueue(self, ticket: Any) -> None: ...
