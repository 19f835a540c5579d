# Helpers for device tests, sent ahead of each: needs, raises, araises, free_port.


def needs(*features):
    # Names features that the target must have; the PC reads them, and skips the test elsewhere.
    return lambda test: test


def raises(exc_type, fn, *args, match=None):
    # Calls fn(*args), which must raise exc_type with `match` in its message; returns the error.
    try:
        fn(*args)
    except exc_type as exc:
        return _matched(exc, match)
    raise AssertionError("%r not raised" % exc_type)


async def araises(exc_type, awaitable, match=None):
    # The same for an awaitable.
    try:
        await awaitable
    except exc_type as exc:
        return _matched(exc, match)
    raise AssertionError("%r not raised" % exc_type)


def _matched(exc, match):
    if match is not None and match not in str(exc):
        raise AssertionError("%r not in %r" % (match, exc))
    return exc


def free_port():
    # A free port of 127.0.0.1: others may run tests beside this one. It is below the ports that
    # Linux gives to sockets that connect.
    import os
    import socket

    while True:
        port = 20000 + int.from_bytes(os.urandom(2), "big") % 10000
        s = socket.socket()
        try:
            s.bind(socket.getaddrinfo("127.0.0.1", port)[0][-1])
            return port
        except OSError:
            pass
        finally:
            s.close()


def _run(test):
    coro = test()
    if coro is not None:
        import asyncio_alt

        asyncio_alt.run(coro)
    print("-- passed --")
