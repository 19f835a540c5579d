"""Run the tests: those of the device package on real MicroPython, those of the tools on this PC.

Options that are not listed here are pytest's own, for example -k EXPR to choose tests by name,
-x to stop at the first failure, tests/device/test_harness.py to run one file.
"""

import pytest

from tools import targets


def add_arguments(parser):
    parser.add_argument(
        "--target",
        type=targets.wanted,
        default="unix",
        metavar="TARGET",
        help=f"where tests/device runs: {targets.WANTED} (default: unix)",
    )
    parser.add_argument(
        "--task-py",
        action="store_true",
        help="only with asyncio_alt/task.py in place of the C module (default: also with that)",
    )
    parser.set_defaults(rest=[])  # the arguments for pytest


def main(args):
    options = ["--target", args.target] + ["--task-py"] * args.task_py
    ended = _Ended()
    code = pytest.main([*options, *args.rest], [ended])
    return 130 if ended.by_ctrl_c else code


class _Ended:
    # A pytest plugin that notices Ctrl-C: pytest's exit code for it is also the one for tests that
    # cannot be collected.
    by_ctrl_c = False

    def pytest_keyboard_interrupt(self, excinfo):
        self.by_ctrl_c = isinstance(excinfo.value, KeyboardInterrupt)
