from collections.abc import Callable
from ssl import SSLContext
from typing import Any

class Tcp:
    calls: bool
    lossy: bool
    host: str
    port: int
    ssl: SSLContext | None
    def __init__(self, host: str, port: int, ssl: SSLContext | None = None) -> None: ...
    async def open(self, factory: Callable[[], Any]) -> Any: ...

class Listen(Tcp):
    calls: bool
    async def open(self, factory: Callable[[], Any]) -> Any: ...

class Serial:
    lossy: bool
    calls: bool
    stream: Any
    def __init__(self, stream: Any, calls: bool) -> None: ...
    async def open(self, factory: Callable[[], Any]) -> Any: ...
