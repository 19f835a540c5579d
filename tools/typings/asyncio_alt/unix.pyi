from collections.abc import Callable, Coroutine
from typing import Any

from .server import Server
from .stream import StreamReader, StreamWriter

async def open_unix_connection(path: str) -> tuple[StreamReader, StreamWriter]: ...
async def start_unix_server(
    cb: Callable[[StreamReader, StreamWriter], Coroutine[Any, Any, Any]],
    path: str,
    backlog: int = 5,
    *,
    max_connections: int | None = None,
) -> Server: ...
