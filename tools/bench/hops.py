"""Measure each hop from a pin of a board to an MQTT subscriber, and of a command's way back.

RP2040 firmware runs in the emulator: an edge of a pin, its hard interrupt, a Publisher, a Broker,
a Link over the UART; a Link and a Bridge on CPython; Mosquitto; a subscriber. The board's hops and
the line's are in simulated time, those on this PC in real time. Writes benchmarks/hops.json with a
picture, and the tables of docs/link.md.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import json
import platform
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich import box
from rich.table import Table

from asyncio_alt.pc import screen
from asyncio_alt.pc.show import figure_style, replaced, save
from asyncio_alt.pubsub import Broker, Link, mqtt
from tools import Problem, targets
from tools.bench.command import add_folder, repeats, write
from tools.bench.run import machine, micropython_version
from tools.bootstrap import ROOT
from tools.mosquitto import Mosquitto
from tools.targets.child import free_port

_PAGE = ROOT / "docs" / "link.md"
_BOARD = Path(__file__).with_name("scripts") / "hops.py"
_BYTE_US = 1e7 / 115200  # a byte on the line
_END = 0xC0  # at both ends of a frame
_EVERY = 100  # ms between two messages that are measured
_LIMIT = 60  # seconds that a run may take
_LED = 10  # a pin that is toggled

BOARD, PC = "simulated", "this PC's"  # the clocks

# (the point reached, its clock), from a pin to MQTT, and back.
WAYS = {
    "A pin's edge": (
        ("put() in the hard interrupt", BOARD),
        ("the board's broker publishes", BOARD),
        ("its link writes to the UART", BOARD),
        ("the last byte is through", BOARD),
        ("CPython's broker publishes", PC),
        ("the MQTT subscriber has it", PC),
    ),
    "An MQTT client's publish": (
        ("CPython's broker publishes", PC),
        ("its link has written", PC),
        ("the last byte is through", BOARD),
        ("the board's subscriber sets a pin", BOARD),
    ),
}


def add_arguments(parser):
    parser.add_argument(
        "--repeats",
        type=repeats,
        default=50,
        metavar="N",
        help="messages each way (default: 50)",
    )
    add_folder(parser, "write the JSON and the picture there, and leave docs/link.md as it is")


def main(args):
    console = screen.console()
    with targets.get("rp2") as rp2, Mosquitto() as mosquitto:
        report = measure(rp2, mosquitto, args.repeats)
    stem = args.folder / "hops"
    write(report, stem.with_suffix(".json"), [_PAGE], with_table)
    draw(report, stem.with_suffix(".svg"))
    for way, lines in rows(report).items():
        table = Table(title=way, box=box.SIMPLE_HEAD)
        for heading in _HEADINGS:
            table.add_column(heading, justify="right" if "µs" in heading else "left")
        for line in lines:
            table.add_row(*line)
        console.print(table)
    console.print(f"Written: {stem}.json, {stem}.svg")
    return 0


def measure(rp2, mosquitto, repeats) -> dict:
    """Return the content of benchmarks/hops.json, from so many messages each way."""
    out = run(rp2, mosquitto, edges=repeats, every_ms=_EVERY)
    back = run(rp2, mosquitto, toggles=[_LED] * repeats, every_ms=_EVERY)
    return {
        "target": "hops",
        "micropython": micropython_version(rp2),
        "cpython": platform.python_version(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "repeats": repeats,
        "figures": [
            figure
            for way, times in zip(WAYS, (_out(out), _back(back)), strict=True)
            for figure in _figures(way, times)
        ],
    }


# From a pin to a subscriber and back


@dataclasses.dataclass
class Run:
    """The results of run()."""

    edges: list = dataclasses.field(default_factory=list)  # payloads that the MQTT client got
    took: list = dataclasses.field(default_factory=list)  # the numbers that the board's link took
    toggles: list = dataclasses.field(default_factory=list)  # pins, as the link here took them
    times: dict = dataclasses.field(default_factory=lambda: defaultdict(list))  # this PC's, in s
    resent: int = 0  # frames, by both links
    events: list = ()  # the emulator's


def run(rp2, mosquitto, *, edges=0, toggles=(), every_ms, spoil=None, keepalive=15) -> Run:
    """Have a board publish so many edges of a pin, up to an MQTT client. In turn, the client sends
    a command for each of these pins.

    spoil: a function that changes the line's bytes; keepalive: the links', in s
    """
    port = free_port()
    script = f"{_BOARD.read_text()}\nprint(measure({edges}, {every_ms}, {keepalive}))\n"
    line = Line(port, spoil)
    loop = asyncio.new_event_loop()
    over = asyncio.Event()
    far_end = _far_end(over, mosquitto, line, keepalive, toggles, every_ms)
    with contextlib.closing(loop), ThreadPoolExecutor(1) as pool:
        far_end = pool.submit(loop.run_until_complete, far_end)
        try:
            result = rp2.run(script, _LIMIT, stimuli=[{"uart": 1, "port": port}])
        finally:
            loop.call_soon_threadsafe(over.set)
    if not result.ok:
        why = result.err.strip() or "not finished in time"
        raise Problem(f"the board: {why}") from far_end.exception()
    made = far_end.result()
    made.events = result.events
    made.resent += json.loads(result.out)["resent"]
    return made


async def _far_end(over, *args):
    """Return the result of _talk(*args), which is done when the board is."""
    talk = asyncio.create_task(_talk(*args))
    await over.wait()
    await asyncio.wait([talk], timeout=10)
    talk.cancel()
    return await talk


async def _talk(mosquitto, line, keepalive, toggles, every_ms):
    made = Run()
    broker = Broker()
    link = Link(
        broker,
        line,
        send=["toggle", "end"],
        receive=["edge", "done"],
        secret=b"secret",
        window=64,
        keepalive=keepalive,
    )
    link.BACKOFF = 0.1, 0.1
    client = mqtt.AioMqtt(mosquitto.client())
    bridge = mqtt.Bridge(
        broker,
        client,
        send=["edge", "done"],
        receive=["toggle"],
        remote="pico/",
        qos=1,
        policy="block",
    )
    dropped = 0

    def note(what, when=None):
        made.times[what].append(when or time.perf_counter())

    def edge_published(topic, payload):
        note("edge heard", line.heard)
        note("edge published")

    def toggle_written(topic, payload):
        nonlocal dropped
        note("toggle written")
        if link.dropped == dropped:
            made.toggles.append(int(payload))
        dropped = link.dropped

    async def receive():
        async for message in peer.messages:
            if message.topic.value == "pico/done":
                made.took = json.loads(message.payload)
                return
            note("edge got")
            made.edges.append(int(message.payload))

    async def send():
        for pin in toggles:
            note("toggle sent")
            await peer.publish("pico/toggle", str(pin), qos=1)
            await asyncio.sleep(every_ms / 1000)

    # Subscribers get a message in this order: first these, then the bridge or the link, and last
    # toggle_written.
    broker.subscribe_call("edge", edge_published)
    broker.subscribe_call("toggle", lambda topic, payload: note("toggle published"))
    async with bridge, mosquitto.client() as peer:
        await peer.subscribe("pico/edge", qos=1)
        await peer.subscribe("pico/done", qos=1)
        while not bridge.connected:
            await asyncio.sleep(0.01)
        async with link:
            broker.subscribe_call("toggle", toggle_written)
            await link.wait_connected()
            await asyncio.gather(receive(), send())
            await bridge.drain()
            await link.drain()
            while broker.publish("end", b""):
                await asyncio.sleep(0.01)
            while link.connected:  # until the board is done
                await asyncio.sleep(0.01)
            made.resent += link.resent
    return made


class Line:
    """A carrier for a Link: the port at which a UART's line ends."""

    calls = True
    lossy = True
    heard = 0.0  # when bytes came last

    def __init__(self, port, spoil=None):
        self.port = port
        self.spoil = spoil or (lambda data: data)

    async def open(self, factory):
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: _End(self, factory()), "127.0.0.1", self.port)


class _End(asyncio.Protocol):
    # Stands between a protocol and its transport.
    def __init__(self, line, protocol):
        self._line = line
        self._protocol = protocol
        self.connection_lost = protocol.connection_lost
        self.pause_writing = protocol.pause_writing
        self.resume_writing = protocol.resume_writing

    def connection_made(self, transport):
        self._transport = transport
        self._protocol.connection_made(self)

    def data_received(self, data):
        self._line.heard = time.perf_counter()
        data = self._line.spoil(data)
        if data:
            self._protocol.data_received(data)

    def write(self, data):
        self._transport.write(self._line.spoil(data))

    def __getattr__(self, name):
        return getattr(self._transport, name)


# The times of the hops


def _out(made):
    # Returns a list for each message: the us that its hops took.
    times, at = [], []
    for us, what, value in made.events:
        if what == "in16" and value:
            at = [us]
        elif what == "pin15" or what == "uart1" and len(at) == 3:
            at.append(us)
            n = 1  # bytes on the line
        elif what == "uart1" and len(at) == 4:
            n += 1
            if value == _END:
                at.append(at[-1] + n * _BYTE_US)
                times.append(at)
    here = _here(made, "edge heard", "edge published", "edge got")
    return [_between(board) + pc for board, pc in zip(times, here, strict=True)]


def _back(made):
    times, ends = [], []
    for us, what, value in made.events:
        if what == "uart1-in" and value == _END:
            ends.append(us)
        elif what == f"pin{_LED}":
            begin, end = ends[-2:]
            times.append([begin - _BYTE_US, end, us])
    here = _here(made, "toggle sent", "toggle published", "toggle written")
    return [pc + _between(board) for pc, board in zip(here, times, strict=True)]


def _here(made, *what):
    # Yields a list for each message: the us between these points on this PC.
    for times in zip(*(made.times[name] for name in what), strict=True):
        yield [us * 1e6 for us in _between(times)]


def _between(times):
    return [after - before for before, after in zip(times, times[1:], strict=False)]


def _figures(way, times):
    hops = [(*hop, us) for hop, us in zip(WAYS[way], zip(*times, strict=True), strict=True)]
    hops.append(("together", "both", [sum(us) for us in times]))
    return [
        {
            "name": f"{way}: {name}",
            "hop": name,
            "time": time,
            "unit": "µs",
            "stock": None,
            "ours": round(statistics.median(us), 1),
            "worst": round(max(us), 1),
        }
        for name, time, us in hops
    ]


def _ways(report):
    # The figures of each way; the last one is "together".
    return {
        way: [f for f in report["figures"] if f["name"].startswith(f"{way}: ")] for way in WAYS
    }


_HEADINGS = ("until", "time", "median, µs", "worst, µs")


def rows(report) -> dict:
    """Return each way's rows of the table, as text."""
    return {
        way: [[f["hop"], f["time"], *map(_whole, (f["ours"], f["worst"]))] for f in figures]
        for way, figures in _ways(report).items()
    }


def _whole(us):
    return f"{us:,.0f}"


def with_table(text, report):
    """Return a Markdown text with the tables, which stand between the comments `<!-- hops -->`
    and `<!-- end -->`, brought up to date."""
    lines = []
    for way, table in rows(report).items():
        lines += [f"| {way}, {' | '.join(_HEADINGS)} |", "| --- | --- | ---: | ---: |"]
        lines += [f"| {' | '.join(row)} |" for row in table]
        lines.append("")
    lines.append(
        f"{report['repeats']} messages each way, one at a time; MicroPython "
        f"{report['micropython']}, CPython {report['cpython']}, {report['machine']}."
    )
    return replaced(text, "hops", "\n".join(lines))


def draw(report, path):
    """Draw the hops of both ways one after the other."""
    pyplot = figure_style()
    colours = {BOARD: "tab:blue", PC: "tab:orange"}
    ways = _ways(report)
    picture, panels = pyplot.subplots(
        len(ways),
        1,
        figsize=(9, 5.5),
        sharex=True,
        gridspec_kw={"height_ratios": [len(hops) for hops in WAYS.values()], "hspace": 0.35},
    )
    for axes, (way, figures) in zip(panels, ways.items(), strict=True):
        *hops, together = figures
        begin = 0
        for row, f in enumerate(hops):
            axes.barh(row, f["ours"], left=begin, color=colours[f["time"]])
            begin += f["ours"]
            axes.annotate(_said(f), (begin, row), va="center", fontsize="small")
        axes.set_yticks(range(len(hops)), [f["hop"] for f in hops])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        title = f"{way}: together{_said(together)}"
        axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    panels[-1].set_xlabel("µs; medians, one after the other")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in colours.values()]
    names = [f"{time} time" for time in colours]
    picture.legend(handles, names, loc="upper center", ncols=2, frameon=False)
    save(picture, path)
    pyplot.close(picture)


def _said(figure):
    return f"  {_whole(figure['ours'])} µs, worst {_whole(figure['worst'])}"
