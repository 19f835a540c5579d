"""Run a script and watch its tasks: share of the time, longest run, how late they were.

Tasks are shown by the name of their coroutine. "late" is how long one was ready before it ran.
The table is of the last period; where it says that it has seen a part of it only, there were more
events than the ring holds. Ctrl-C ends it, as does --seconds.
"""

import json

from rich.console import Console
from rich.live import Live

from tools import Problem, trace

# Runs on the target beside the script; the names in capitals are put in.
_WATCH = """
import json
n = 0
async def watch():
    global n
    while not MS or n < MS:
        await asyncio_alt.sleep_ms(PERIOD)
        n += PERIOD
        print("#TOP", json.dumps(asyncio_alt.trace.stats()))
        asyncio_alt.trace.start(SIZE, THRESHOLD)
    raise Over
"""
_DAY = 86400


def add_arguments(parser):
    trace.add_run_arguments(parser)
    parser.add_argument(
        "--period",
        type=float,
        default=1,
        metavar="S",
        help="how often it is brought up to date, in seconds (default: 1)",
    )


def main(args):
    console = Console()
    period = max(1, int(args.period * 1000))
    source = trace.driver(args, _WATCH, SIZE=500, PERIOD=period, WATCHED=True, DUMPED=False)
    blocked = []
    stats = None
    with Live(console=console, auto_refresh=False) as live:

        def show():
            live.update(_table(stats, period, blocked), refresh=True)

        def tell(line):
            nonlocal stats
            if found := trace.named(line):
                blocked.append(found)
            elif line.startswith("#TOP "):
                stats = json.loads(line[5:])
                show()
            else:
                console.print(line, end="", markup=False, highlight=False)

        result = trace.run(args, source, _DAY, tell)
        if stats:
            show()  # what blocked is told on another pipe, which may be behind
    if not result.ok:
        raise Problem(trace.why(result))
    return 0


def _table(stats, period, blocked):
    seen = stats["us"] / 1000
    rows = {**stats["tasks"], "(sleep)": ("", "", stats["sleep"], "", "", "")}
    part = f", {seen:.0f} ms of it seen" if seen < 0.9 * period else ""
    return trace.table(rows, stats["us"], f"the last {period / 1000:g} s{part}", blocked)
