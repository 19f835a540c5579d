from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .broker import Broker
from .mqtt_client import AioMqtt as AioMqtt
from .mqtt_client import AioMqttc as AioMqttc
from .mqtt_client import MqttAs as MqttAs
from .subscription import Subscription

_Put = Callable[[str, bytes, bool], object]

class _Client(Protocol):
    async def connect(self) -> None: ...
    async def disconnect(self) -> None: ...
    async def subscribe(self, filter: str, qos: int) -> None: ...
    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> None: ...
    async def receive(self, put: _Put) -> None: ...

def encode(payload: Any) -> bytes: ...

class Bridge:
    out: Subscription
    connected: bool
    sent: int
    received: int
    refused: int
    connects: int
    error: Exception | None
    def __init__(
        self,
        broker: Broker,
        client: _Client,
        *,
        send: Iterable[str] = (),
        receive: Iterable[str] = (),
        local: str = "",
        remote: str = "",
        qos: int = 0,
        maxlen: int = 32,
        policy: str = "drop_old",
        retry: tuple[float, float] = (1, 60),
        timeout: float = 10,
    ) -> None: ...
    async def run(self) -> None: ...
    async def drain(self) -> None: ...
    async def __aenter__(self) -> Bridge: ...
    async def __aexit__(self, *exc: object) -> None: ...
