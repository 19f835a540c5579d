"""The command asyncio-alt, for a PC: CPython only, no board has it."""


class Problem(Exception):
    """Something the user can put right: the command line prints it as one line."""


class WrongArgument(Problem):
    """An argument of the command line is wrong; the text names it."""
