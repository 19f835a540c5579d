"""Publish/subscribe in one process; each name is loaded from its module on first use."""

# As lazy._NAMES.
_NAMES = """\
broker Broker matches
subscription Closed Subscription
publisher Publisher
pool Pool
link.frame FramedProtocol
mqtt mqtt
link.carrier Listen Serial Tcp
link.link Link
link.hub Hub"""


def __getattr__(name):
    from ..lazy import load

    return load(globals(), name, _NAMES)
