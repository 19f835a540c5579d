"""Run a script and watch its tasks: share of the time, longest run, how late they were.

Tasks are shown by the name of their coroutine. "late" is how long one was ready before it ran.
The table shows the last period. If it says that it has seen only a part of it, there were more
events than the ring holds. Ctrl-C ends it, as does --seconds.
"""

import json

from rich.live import Live

from asyncio_alt.pc import Problem, arguments, ending, trace
from asyncio_alt.pc.screen import console, escaped, print_line

# Runs on the target beside the script; the names in capitals are put in.
_WATCH = """
import json
n = 0
async def watch():
    global n
    while not MS or n < MS:
        await asyncio_alt.sleep_ms(PERIOD)
        n += PERIOD
        print(MARK, json.dumps(asyncio_alt.trace.stats()))
        asyncio_alt.trace.start(SIZE, THRESHOLD)
    raise Over
"""
_MOST = 2**53  # us


def add_arguments(parser, **target):
    trace.add_run_arguments(parser, **target)
    parser.add_argument(
        "--period",
        type=arguments.real(0.001, arguments.DAY),
        default=1,
        metavar="S",
        help="how often it is brought up to date, in seconds (default: 1)",
    )


def main(args):
    screen = console()
    period = max(1, int(args.period * 1000))
    source = trace.driver(args, _WATCH, SIZE=500, PERIOD=period, WATCHED=True, DUMPED=False)
    blocked = []
    stats = None
    live = Live(console=screen, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def show():
        writer.write(lambda: live.update(_table(stats, period, blocked, screen), refresh=True))

    def tell(line):
        nonlocal stats
        if found := trace.named(line):
            blocked.append(found)
            del blocked[:-1000]
            return
        line, mark, told = line.partition(trace.MARK)
        if line:  # the script's output without a line end is ahead of the mark
            writer.write(print_line, screen, line)
        if mark and (read := _read(told)):
            stats = read
            show()

    with ending.Writer(args.seconds) as writer:
        try:
            writer.write(live.start)
            result = trace.run(args, source, 2 * arguments.DAY, tell)
            if stats:
                show()  # another pipe tells of tasks that blocked, and may be behind
        except KeyboardInterrupt:
            writer.limit(0.5)
            raise
        finally:
            writer.write(live.stop)
    if writer.shut:
        raise ending.Over
    if not result.ok:
        raise Problem(trace.why(result))
    return 0


def _read(text):
    """Return the result of stats() from its text, None if the text is invalid."""
    try:
        stats = json.loads(text)
        us, sleep, tasks = (stats[key] for key in ("us", "sleep", "tasks"))
        rows = {escaped(name, trace.NAME): tuple(row) for name, row in tasks.items()}
        numbers = [us, sleep, *(number for row in rows.values() for number in row)]
        if all(type(n) is int and 0 <= n < _MOST for n in numbers):
            if all(len(row) == 6 for row in rows.values()):
                return {"us": us, "sleep": sleep, "tasks": rows}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def _table(stats, period, blocked, screen):
    seen = stats["us"] / 1000
    rows = {**stats["tasks"], "(sleep)": ("", "", stats["sleep"], "", "", "")}
    part = f", {seen:.0f} ms of it seen" if seen < 0.9 * period else ""
    title = f"the last {period / 1000:g} s{part}"
    height = max(1, screen.height - 8)
    return trace.table(rows, stats["us"], title, blocked, screen.width, height)
