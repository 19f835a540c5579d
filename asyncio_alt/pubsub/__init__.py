"""Publish/subscribe in one process; each name is loaded from its module on first use."""

# A module, and its names.
_attrs = (
    ("broker", "Broker", "matches"),
    ("channel", "Closed", "Subscription"),
    ("isr", "Publisher"),
    ("pool", "Pool"),
    ("frame", "FramedProtocol"),
    ("mqtt", "mqtt"),
    ("carrier", "Listen", "Serial", "Tcp"),
    ("link", "Link"),
)


def __getattr__(name):
    for names in _attrs:
        if name in names:
            value = __import__(names[0], globals(), None, (name,), 1)
            if name != names[0]:
                value = getattr(value, name)
            globals()[name] = value
            return value
    raise AttributeError(name)
