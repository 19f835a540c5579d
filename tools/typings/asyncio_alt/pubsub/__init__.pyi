from . import mqtt as mqtt
from .broker import Broker as Broker
from .broker import matches as matches
from .channel import Closed as Closed
from .channel import Subscription as Subscription
from .frame import FramedProtocol as FramedProtocol
from .isr import Publisher as Publisher
from .pool import Pool as Pool
