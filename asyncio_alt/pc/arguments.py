"""Types of arguments, for argparse: a wrong one is reported before the tool does anything."""

import argparse
import math
import os
from pathlib import Path

DAY = 86400  # seconds


def count(least, most):
    """Return a type: a whole number in these limits."""

    def number(text):
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise _wrong(text, f"it must be a whole number from {least} to {most}")
        return value

    return number


def real(least, most):
    """Return a type: a number in these limits, with decimals."""

    def number(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # nan is in no limits
            raise _wrong(text, f"it must be a number from {least:g} to {most:g}")
        return value

    return number


def folder(text) -> Path:
    """A folder to write to, which is there, or can be made in one that is there."""
    path = Path(text)
    if _is(path, "exists") and not path.is_dir():
        raise _wrong(text, "it is not a folder")
    return _to_write(text, path)


def file(text) -> Path:
    """A file to write, in a folder that is there."""
    path = Path(text)
    if _is(path, "is_dir"):
        raise _wrong(text, "it is a folder")
    return _to_write(text, path)


def existing_folder(text) -> Path:
    """A folder to read from."""
    path = Path(text)
    if not _is(path, "is_dir"):
        raise _wrong(text, "there is no such folder")
    return path


def _is(path, what):
    try:
        return getattr(path, what)()
    except (OSError, ValueError) as error:  # too long, in a folder that may not be read; a 0 in it
        why = getattr(error, "strerror", None) or error
        raise _wrong(str(path), str(why)) from None


def _to_write(text, path):
    place = path
    if not _is(path, "exists"):
        place = path.parent
        if not text or not _is(place, "is_dir"):
            raise _wrong(text, "the folder that it is to be in is not there")
    if not os.access(place, os.W_OK):
        raise _wrong(text, "it cannot be written to")
    return path


def _wrong(text, why):
    return argparse.ArgumentTypeError(f"invalid value {text!r}: {why}")
