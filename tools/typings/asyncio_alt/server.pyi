from collections.abc import Callable, Coroutine
from ssl import SSLContext
from typing import Any

from .stream import StreamReader, StreamWriter

class Server:
    closed: bool
    def __init__(self, s: Any, connected: Callable[..., Any]) -> None: ...
    async def __aenter__(self) -> Server: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...

async def start_server(
    cb: Callable[[StreamReader, StreamWriter], Coroutine[Any, Any, Any]],
    host: str,
    port: int,
    backlog: int = 5,
    ssl: SSLContext | None = None,
    *,
    ssl_handshake_timeout: float | None = None,
) -> Server: ...
