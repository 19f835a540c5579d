from collections.abc import Callable, Coroutine
from ssl import SSLContext
from typing import Any

from .loop import Loop
from .stream import StreamReader, StreamWriter
from .streams import Limit

class _Lazy:
    # Of streams.py, loaded on first use.
    sockets: tuple[Any, ...]
    async def serve_forever(self) -> None: ...
    async def start_serving(self) -> None: ...
    def is_serving(self) -> bool: ...
    def get_loop(self) -> type[Loop]: ...
    def close_clients(self) -> None: ...
    def abort_clients(self) -> None: ...

class Server(_Lazy):
    closed: bool
    limit: Limit | None
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
    max_connections: int | None = None,
) -> Server: ...
async def serve(
    cb: Callable[[StreamReader, StreamWriter], Coroutine[Any, Any, Any]],
    ai: tuple[Any, ...],
    backlog: int,
    ssl: SSLContext | None,
    seconds: float | None,
    max_connections: int | None,
) -> Server: ...
def listen(
    ai: tuple[Any, ...],
    backlog: int,
    ssl: SSLContext | None,
    seconds: float | None,
    connected: Callable[..., Any],
) -> Server: ...
