from .pins import Button as Button
from .pins import Edges as Edges
from .pins import Encoder as Encoder
from .pins import Pulse as Pulse
