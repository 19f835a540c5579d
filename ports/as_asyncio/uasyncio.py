# The old name of asyncio, for libraries that still import it.


def __getattr__(name):
    import asyncio

    return getattr(asyncio, name)
