from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

async def to_thread(func: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
