"""Say what a board is, and what asyncio_alt can do there.

It looks for the features that the package makes use of, for the interrupts that may be hard, and
tries what power mode does. It uses no pins. The board is reset first, so its program ends.

PORT is a board's port, as mpremote takes it, or unix, for MicroPython's unix port. Without PORT it
is the board that is connected by USB.
"""

from rich import box
from rich.table import Table

from asyncio_alt.pc import Problem, targets
from asyncio_alt.pc.ask import ask
from asyncio_alt.pc.screen import console

_LOOK = r"""
import gc, os, sys

def has(name, *names):
    try:
        it = __import__(name)
    except ImportError:
        return False
    for n in names:
        it = getattr(it, n, None)
    return it is not None

def compiles(text):
    try:
        exec(text)
    except SyntaxError:
        return False
    return True

gc.collect()
answer = {
    "machine": sys.implementation._machine,
    "version": sys.version,
    "platform": sys.platform,
    "mpy": getattr(sys.implementation, "_mpy", 0) & 0xFF,
    "heap": gc.mem_free() + gc.mem_alloc(),
    "mhz": 0,
    "flash": [],
    "has": [name for name, found in (
        ("tasks", has("_asyncio")),
        ("bell", has("micropython", "RingIO") or has("socket")),
        ("threads", has("_thread")),
        ("sockets", has("socket")),
        ("tls", has("ssl")),
        ("urandom", has("os", "urandom")),
        ("schedule", has("micropython", "schedule")),
        ("viper", compiles("@micropython.viper\ndef f(): pass")),
    ) if found],
    "where": "",
    "hard": [],
    "soft": [],
}
try:
    import machine
    freq = machine.freq()
    answer["mhz"] = (freq if isinstance(freq, int) else freq[0]) // 1000000
except (ImportError, AttributeError):
    machine = None
try:
    stat = os.statvfs("/")
    answer["flash"] = [str(stat[0] * stat[2]), str(stat[0] * stat[3])]
except (AttributeError, OSError):
    pass
try:
    from asyncio_alt import core
    answer["where"] = core.__file__
except (ImportError, AttributeError):
    pass

def a_pin():
    for name in 0, 2, 1:
        try:
            return machine.Pin(name)
        except (TypeError, ValueError):
            pass
    pins = machine.Pin.cpu.__dict__
    return pins[sorted(pins)[0]]

def how(name, call):
    # A handler that is hard cannot allocate; without a handler the port only checks the arguments.
    for kind, options in ("hard", {"hard": True}), ("soft", {}):
        try:
            call(options)
        except Exception:
            continue
        answer[kind].append(name)
        return

def timer(options):
    for number in -1, 0:
        try:
            t = machine.Timer(number)
            t.init(mode=machine.Timer.ONE_SHOT, period=60000, callback=lambda t: None, **options)
        except (TypeError, ValueError, OSError):
            continue
        return t.deinit()
    raise ValueError

if has("machine", "Pin", "irq"):
    how("Pin", lambda options: a_pin().irq(None, **options))
if has("machine", "Timer"):
    how("Timer", timer)
"""
_LOOKED = {
    "machine": str,
    "version": str,
    "platform": str,
    "mpy": int,
    "heap": int,
    "mhz": int,
    "flash": list,
    "has": list,
    "where": str,
    "hard": list,
    "soft": list,
}

# For so long the loop has nothing to do. It comes last: the connection may not outlive it.
_SLEEP = """
import asyncio_alt as asyncio
answer = {"refused": "", "asleep": 0, "ms": 300, "kept": 0}
async def main():
    await asyncio.sleep_ms(300)
try:
    sleep = asyncio.power_mode(True)
    asyncio.run(main())
    stats = sleep.stats()
    answer["asleep"] = stats["asleep_ms"]
    answer["kept"] = stats["vetoes"]
except ValueError as error:
    answer["refused"] = str(error)
except ImportError:
    answer["refused"] = "it is not installed: asyncio-alt install --parts idle"
"""

# Of what the board has: what for, with it, without it.
_FEATURES = {
    "tasks": ("tasks in C", "yes", "no: asyncio_alt/task.py takes their place, at half the speed"),
    "bell": ("flags wake the loop", "in C", "in Python: no RingIO"),
    "threads": ("to_thread, call_soon_threadsafe", "yes", "no threads"),
    "sockets": ("TCP, UDP", "yes", "no module socket"),
    "tls": ("TLS", "yes", "no module ssl"),
    "urandom": ("links (pubsub)", "yes", "no os.urandom, which they need"),
    "schedule": ("micropython.schedule", "yes", "no"),
    "viper": ("interrupt blocks, trace", "in machine code", "in bytecode, which takes longer"),
}


def add_arguments(parser):
    parser.add_argument("port", metavar="PORT", nargs="?", type=targets.wanted, help="see above")


def main(args):
    screen = console()
    options = {} if args.port == "unix" else {"bare": True}
    with targets.get(args.port, **options) as target:
        board = ask(target, _LOOK, **_LOOKED)
        if args.port == "unix":
            board["where"] = board["where"] and "that of this PC"
        slept = _slept(target) if board["where"] else "not known without asyncio_alt"
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for row in [*_board(board), *_features(board), *_interrupts(board), ("power mode", slept)]:
        table.add_row(*row)
    screen.print(table)
    return 0


def _board(board):
    speed = f", {board['mhz']} MHz" if board["mhz"] else ""
    yield "board", f"{board['machine']}{speed} ({board['platform']})"
    yield "firmware", f"MicroPython {board['version'].rpartition('MicroPython ')[2]}"
    yield "heap", f"{board['heap']:,} bytes"
    if len(board["flash"]) == 2 and all(n.isdecimal() for n in board["flash"]):
        size, free = map(int, board["flash"])
        yield "file system", f"{size:,} bytes, {free:,} free"
    yield "compiled modules", f".mpy version {board['mpy']}" if board["mpy"] else "none"
    where = board["where"]
    if not where:
        yield "asyncio_alt", "not there: asyncio-alt install"
    elif "/" in where and not where.startswith("/"):
        yield "asyncio_alt", "in the firmware"
    else:
        yield "asyncio_alt", where.rpartition("/")[0] or where


def _features(board):
    for key, (what, with_it, without) in _FEATURES.items():
        yield what, with_it if key in board["has"] else without


def _interrupts(board):
    for name in ("Pin", "Timer"):
        if name in board["hard"]:
            yield f"interrupts of {name}", "may be hard"
        elif name in board["soft"]:
            yield f"interrupts of {name}", "soft only: they wait for the running bytecode"
        else:
            yield f"interrupts of {name}", "none"


def _slept(target):
    try:
        said = ask(target, _SLEEP, 20, refused=str, asleep=int, ms=int, kept=int)
    except Problem as problem:
        return f"fails, or ends the connection: {problem}"
    if said["refused"]:
        return said["refused"].removeprefix("power mode: ")
    if not said["asleep"]:
        return "stays awake: USB or WiFi is connected" if said["kept"] else "does not sleep"
    return f"sleeps: {said['asleep']} of {said['ms']} ms with nothing to do"
