"""Publish/subscribe in one process; each name is loaded from its module on first use."""

# As lazy._NAMES.
_NAMES = """\
broker Broker matches
channel Closed Subscription
isr Publisher
pool Pool
frame FramedProtocol
mqtt mqtt
carrier Listen Serial Tcp
link Link"""


def __getattr__(name):
    from ..lazy import load

    return load(globals(), name, _NAMES)
