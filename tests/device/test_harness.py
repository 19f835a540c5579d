# The device side of the bench itself.

import sys


def fail():
    raise ValueError("a message")


def test_plain_function_runs():
    assert sys.implementation.name == "micropython"


async def test_async_function_runs():
    exc = await araises(ValueError, async_fail(), match="message")
    assert exc.args == ("a message",)


async def async_fail():
    fail()


def test_raises_returns_the_exception():
    assert raises(ValueError, fail, match="message").args == ("a message",)


def test_raises_wants_an_exception():
    raises(AssertionError, raises, ValueError, int, match="not raised")


def test_raises_wants_the_message():
    raises(AssertionError, lambda: raises(ValueError, fail, match="other"), match="not in")
