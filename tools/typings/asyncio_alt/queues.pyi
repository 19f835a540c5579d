from typing import Any

from typing_extensions import TypeVar

from .queue import Queue

_T = TypeVar("_T", default=Any)

class PriorityQueue(Queue[_T]): ...
class LifoQueue(Queue[_T]): ...
