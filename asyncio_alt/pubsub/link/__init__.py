"""Links: brokers joined to one another; the name is loaded from its module on first use."""


def __getattr__(name):
    from ...lazy import load

    return load(globals(), name, "link Link")
