"""Chooses a command by its name, and reads its options."""

import argparse
import importlib

from asyncio_alt.pc import WrongArgument


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        raise WrongArgument(f"{message} ({self.prog} --help tells more)")


def run(prog, about, tools, argv, enter=lambda: None):
    """Run what argv names, with the arguments that follow; return the exit code.

    tools: by name, (module, what it does). The module has add_arguments(parser) and
    main(args) -> exit code, or TOOLS of its own
    enter: called before a module is imported
    """
    while tools:
        names = _names(prog, about, tools)
        if not argv:
            names.print_help()
            return 2
        name, *argv = names.parse_args(argv[:1]).name, *argv[1:]
        enter()
        tool = importlib.import_module(tools[name][0])
        prog, about, tools = f"{prog} {name}", tool.__doc__, getattr(tool, "TOOLS", None)
    parser = Parser(
        prog=prog,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    tool.add_arguments(parser)
    args, rest = parser.parse_known_args(argv)
    if rest and not hasattr(args, "rest"):  # a tool that hands options on sets this default
        parser.error("unrecognized arguments: " + " ".join(rest))
    args.rest = rest
    return tool.main(args)


def _names(prog, about, tools):
    # A parser of the name of one of these tools.
    lines = [f"  {name:10}{text}" for name, (_, text) in tools.items()]
    parser = Parser(
        prog=prog,
        description=about,
        epilog="\n".join(["tools:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s NAME [options]   (NAME --help lists its options)",
    )
    parser.add_argument("name", metavar="NAME", choices=tools, help="one of the tools below")
    return parser
