"""The measurements beside stock asyncio on each target, and the limits that are required."""

from asyncio_alt.pc.bench import Experiment
from asyncio_alt.pc.figures import Figure, p99, worst
from tools.targets.child import free_port

_US, _MS, _BYTES = "µs", "ms", "bytes"
_BUSY = {"busy": 10, "repeats": 4}  # events in each of the repeats


def _of_stock(required, aim):
    return {"required": required, "aim": aim, "ratio": True}


EXPERIMENTS = {
    "unix": (
        Experiment(
            "passes",
            (
                Figure("Pass with 10 ready tasks", _US, "us", **_of_stock(0.67, 0.5)),
                Figure("Pass while 50 flags are waited for", _US, "us with flags"),
                Figure("— against none waited for", "×", "times", required=1.15, aim=1),
                Figure("Allocated in a pass", _BYTES, "bytes"),
            ),
            {"flags": 50},
            peer=True,
        ),
        Experiment(
            "ended",
            (Figure("Ended tasks that stay in memory", "tasks", "tasks", required=5),),
            {"count": 1000, "ms": 5},
            peer=True,
        ),
        Experiment(
            "flag",
            (
                Figure("Flag set in a thread to resumed task", _US, "us", **_of_stock(0.2, 0.1)),
                Figure("— 99 of 100 within", _US, "us", p99),
                Figure("Allocated in a wait for a flag", _BYTES, "bytes"),
            ),
            {"repeats": 200},
            peer=True,
        ),
        Experiment(
            "idle",
            (Figure("Polls in 2 s idle, a flag waited for", "", "polls", required=10, aim=2),),
            {"seconds": 2},
            peer=True,
        ),
        Experiment(
            "latency",
            (
                Figure("100 ms stream timer, ten busy tasks", _MS, "ms"),
                Figure("— longest", _MS, "ms", worst, required=106, aim=105),
                Figure("— busy tasks' turns before it, at most", "", "turns", worst),
            ),
            {"source": "timer", **_BUSY},
            {"mode": "roundrobin(False)"},
            peer=True,
        ),
        Experiment(
            "latency",
            (
                Figure("Lateness of a flag, ten busy tasks", _MS, "late"),
                Figure("— latest", _MS, "late", worst, required=6),
            ),
            {"source": "flag", **_BUSY},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "echo",
            (Figure("TCP echo by readexactly, round trip", _US, "us"),),
            {"repeats": 500, "size": 68},
        ),
        Experiment(
            "message",
            (
                Figure(
                    "64-byte messages over TCP, bursts, stream / Protocol",
                    _US,
                    "us",
                    **_of_stock(0.5, 0.33),
                ),
                Figure(
                    "— to the answer to a burst of 50", _US, "answered", **_of_stock(0.71, 0.5)
                ),
                Figure("— each, all in all", _US, "each", **_of_stock(0.93, 0.6)),
            ),
            {"size": 64, "bursts": 60, "burst": 50},
            {"how": "protocol"},
            pair=True,
        ),
        Experiment(
            "message",
            (
                Figure("64-byte message over TCP, stream / Protocol", _US, "us"),
                Figure("— to its answer", _US, "answered"),
            ),
            {"size": 64, "bursts": 1000},
            {"how": "protocol"},
            pair=True,
        ),
        Experiment(
            "message",
            (
                Figure("8 KB message over TCP, stream / Protocol", _US, "us"),
                Figure("— to its answer", _US, "answered"),
            ),
            {"size": 8192, "bursts": 300},
            {"how": "protocol"},
            pair=True,
        ),
        Experiment(
            "deferred",
            (
                Figure(
                    "Echo request, write in the poll / at once", _US, "us", **_of_stock(0.91, 0.8)
                ),
            ),
            {"repeats": 1000, "size": 64},
        ),
    ),
    # Simulated time is exact, so one repeat is enough. The emulator has the samples of "edge" and
    # "irq".
    "rp2": (
        Experiment(
            "passes",
            (
                Figure("Pass with 10 ready tasks", _US, "us", required=100, aim=75),
                Figure(
                    "Pass while 30 flags are waited for",
                    _US,
                    "us with flags",
                    required=105,
                    aim=80,
                ),
                Figure("Allocated in a pass", _BYTES, "bytes"),
            ),
            {"flags": 30},
            peer=True,
        ),
        Experiment(
            "ended",
            (Figure("Ended tasks that stay in memory", "tasks", "tasks", required=5),),
            {"count": 150, "ms": 50},
            peer=True,
        ),
        Experiment(
            "trace",
            (
                Figure("Pass with the trace on, against off", "×", "times", required=1.15, aim=1),
                Figure("Pass with the trace off, differs by", _US, "differs by", required=0.05),
            ),
            ours={"module": "asyncio_alt.trace"},
        ),
        Experiment(
            "edge",
            (
                Figure("Pin edge to resumed task, idle", _US, "us", required=240, aim=150),
                Figure("— latest", _US, "us", worst),
            ),
            {"edges": 50},
            peer=True,
        ),
        Experiment(
            "edge",
            (
                Figure("Pin edge to resumed task, ten busy tasks", _US, "us"),
                Figure("— latest", _US, "us", worst, required=5400, aim=5200),
            ),
            {"edges": 50, "busy": 10},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "irq",
            (
                Figure(
                    "Pin edge to first line, plain handler / interrupt block",
                    _US,
                    "us",
                    **_of_stock(2, 1.3),
                ),
            ),
            {"edges": 20, "busy": 10},
        ),
        Experiment(
            "transfers",
            (
                Figure(
                    "Two SPI buses stand still, ten tasks of 1 ms", "%", "idle", required=10, aim=3
                ),
            ),
            {"what": "spi"},
        ),
        Experiment(
            "transfers",
            (Figure("— two tasks for each bus", "%", "idle", required=10, aim=3),),
            {"what": "spi2"},
        ),
        Experiment(
            "transfers",
            (Figure("Two I2C buses stand still, ten tasks of 1 ms", "%", "idle", required=25),),
            {"what": "i2c"},
        ),
        Experiment(
            "transfers",
            (Figure("— two tasks for each bus", "%", "idle", required=5, aim=2),),
            {"what": "i2c2"},
        ),
        Experiment(
            "transfers",
            (
                Figure(
                    "1024 bytes over SPI make others wait", _MS, "waits", required=0.3, aim=0.15
                ),
                Figure("— processor's time", "%", "processor", required=5, aim=2),
            ),
            {"what": "write"},
        ),
        Experiment(
            "latency",
            (
                Figure("100 ms stream timer, ten busy tasks", _MS, "ms"),
                Figure("— longest", _MS, "ms", worst, required=106, aim=102),
            ),
            {"source": "timer", "busy": 10, "repeats": 20},
            {"mode": "roundrobin(False)"},
            peer=True,
        ),
        Experiment(
            "uart",
            (Figure("Lost of 20 KB from a UART, ten busy tasks", _BYTES, "lost", required=0),),
            {"blocks": 20},
            {"mode": "priority"},
            peer=True,
        ),
        Experiment(
            "byte",
            (
                Figure(
                    "UART byte, nine ready tasks, stream / Protocol",
                    _US,
                    "us",
                    **_of_stock(0.5, 0.3),
                ),
            ),
            {"count": 40, "busy": 9},
            {"mode": "protocol"},
            peer=True,
        ),
        Experiment(
            "publish",
            (
                Figure("Publish to a function (stock: agents)", _US, "function", required=150),
                Figure("Publish to a waiting priority task", _US, "task", required=350, aim=310),
            ),
            {"count": 20},
        ),
        Experiment(
            "publisher",
            (Figure("Publish in a hard interrupt (stock: flag)", _US, "us", worst, required=60),),
            {"count": 20},
        ),
        Experiment(
            "heap",
            (Figure("Heap for tasks that sleep, frozen", _BYTES, "bytes", **_of_stock(1.25, 1)),),
        ),
    ),
}


def alike(how) -> list[Experiment]:
    """Return the experiments with both packages in the same place."""
    # The unix port has stock frozen in. Ours lies in the heap, where a collection goes through its
    # code too. So these figures have both in the same place.
    figures = (
        Figure(f"gc.collect(), {how}", _US, "collect"),
        Figure("— heap in use", _BYTES, "used"),
        Figure("— small web request", _US, "us"),
    )
    return [Experiment("alike", figures, {"port": free_port(), "requests": 200})]


REQUESTS = {"clients": 10, "requests": 2000}
MICRODOT = (
    Figure("Web server microdot, per request, 10 clients", _US, ""),
    Figure("— 99 of 100 answered within", _US, "", p99),
)
FLASH = Figure("Flash for tasks that sleep (.mpy)", _BYTES, "", **_of_stock(1.5, 1))
