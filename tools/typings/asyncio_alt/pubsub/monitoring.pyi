from collections.abc import Coroutine
from typing import Any

from .broker import Broker

def monitor(broker: Broker, seconds: float = 1) -> Coroutine[Any, Any, None]: ...
