"""Shows text that others have written, a board above all: nothing in it reaches the terminal as a
command, or makes a line of its own."""

import re


class _Escapes(dict):
    # For str.translate(): how each character is shown.
    def __missing__(self, code):
        shown = char = chr(code)
        if not char.isprintable():
            shown = char.encode("unicode_escape").decode()
        if code < 0x10000:  # all of them would take 100 MB
            self[code] = shown
        return shown


_ESCAPES = _Escapes()


def escaped(text, most=None) -> str:
    """Return a text with control characters, line ends, bidi controls and the like written as
    \\n, \\x1b or \\u202e.

    most: the largest number of characters to show; a longer text ends with its length
    """
    text = str(text)
    if most is not None and len(text) > most:
        return f"{escaped(text[:most])}… ({len(text):,} characters)"
    return text if text.isprintable() else text.translate(_ESCAPES)


def without_password(text) -> str:
    """Return a text without the part between :// and @, which may be a password."""
    return re.sub(r"://.*@", "://…@", str(text), flags=re.DOTALL)


def console(**options):
    """Return a rich.console.Console that takes no text as markup; options are its own."""
    from rich.console import Console  # not installed before .venv is made

    class Plain(Console):
        def on_broken_pipe(self):
            raise BrokenPipeError  # asyncio_alt/pc/ending.py knows what to do

    return Plain(markup=False, emoji=False, highlight=False, **options)


def print_line(console, line):
    """Print a line that others have written, with or without its line end."""
    most = 10 * console.width if console.is_terminal else None
    console.print(escaped(line.removesuffix("\n"), most), soft_wrap=True)
