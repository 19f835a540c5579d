"""Watch the topics of a board or an MQTT broker, publish to them, record them.

WHERE is mqtt://[USER:PASSWORD@]HOST[:PORT], an MQTT broker; HOST:PORT, a board whose Link listens
there; or a serial port such as /dev/ttyACM0, a board whose Link has Serial(uart, calls=False).

In a terminal it shows a table: how often each topic is published, its last value and how old that
is. Elsewhere it prints a line for each message.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections import deque
from urllib.parse import unquote, urlsplit

from rich.console import Console
from rich.live import Live
from rich.table import Table

from asyncio_alt.pubsub import Broker, Link, Tcp, matches, mqtt
from tools import Problem

_WINDOW = 5  # seconds that a rate is the mean of
_JOINED = 5  # seconds in which there must be a connection


def add_arguments(parser):
    parser.add_argument("where", metavar="WHERE", help="what to join, see above")
    parser.add_argument(
        "--filter",
        action="append",
        metavar="FILTER",
        help="the topics to watch, with + and # as in MQTT; may be given again (default: all)",
    )
    parser.add_argument(
        "--publish",
        action="append",
        nargs=2,
        default=[],
        metavar=("TOPIC", "PAYLOAD"),
        help="publish this; may be given again. Then it ends, unless there is a --filter",
    )
    parser.add_argument("--retain", action="store_true", help="have what is published retained")
    parser.add_argument("--record", metavar="FILE", help="append each message, as a line of JSON")
    parser.add_argument("--secret", metavar="TEXT", default="", help="of the board's Link")
    parser.add_argument("--baud", type=int, default=115200, metavar="N", help="(default: 115200)")
    parser.add_argument("--seconds", type=float, metavar="N", help="end after N seconds")


def main(args):
    filters = args.filter or ([] if args.publish else ["#"])
    for name, topics in ("--filter", filters), ("--publish", [t for t, _ in args.publish]):
        for topic in topics:
            try:
                matches(topic, "x") if name == "--filter" else matches("#", topic)
            except ValueError as error:
                raise Problem(f"{name} {topic}: {error}") from None
    with contextlib.ExitStack() as stack:
        record = None
        if args.record:
            try:
                record = stack.enter_context(open(args.record, "a", encoding="utf-8"))
            except OSError as error:
                raise Problem(f"{args.record}: {error.strerror}") from None
        asyncio.run(_run(args, filters, record))
    return 0


async def _run(args, filters, record):
    broker = Broker()
    seen = Seen(record)
    if not sys.stdout.isatty():
        seen.on_message = lambda topic, payload: print(topic, _shown(payload), flush=True)
    for f in filters:
        broker.subscribe_call(f, seen.message)
    send = [topic for topic, _ in args.publish]
    async with _joined(args, broker, send, filters) as joined:
        for topic, payload in args.publish:
            await broker.publish_wait(topic, payload.encode(), args.retain)
        await joined.drain()
        if filters:
            await _watch(seen, joined, args.where, args.seconds)


@contextlib.asynccontextmanager
async def _joined(args, broker, send, receive):
    """Join the broker to what args.where names, while the context lasts."""
    url = urlsplit(args.where)
    host, _, port = args.where.rpartition(":")
    if url.scheme == "mqtt":
        joined = _mqtt(url, broker, send, receive)
    else:
        carrier = Tcp(host, int(port)) if host and port.isdecimal() else _Port(args)
        joined = Link(broker, carrier, send, receive, secret=args.secret.encode())
    async with joined:
        try:
            await asyncio.wait_for(_until(lambda: joined.connected), _JOINED)
        except asyncio.TimeoutError:
            why = f": {joined.error}" if getattr(joined, "error", None) else ""
            raise Problem(f"no connection to {args.where}{why}") from None
        yield joined


def _mqtt(url, broker, send, receive):
    import aiomqtt

    client = aiomqtt.Client(
        url.hostname or "127.0.0.1",
        url.port or 1883,
        username=url.username and unquote(url.username),
        password=url.password and unquote(url.password),
    )
    adapter = mqtt.AioMqtt(client)
    return mqtt.Bridge(
        broker, adapter, send=send, receive=receive, qos=1, policy="block", retry=(0.2, 5)
    )


class _Port:
    """A carrier for a Link: a serial port."""

    calls = True
    lossy = True

    def __init__(self, args):
        self._args = args.where, args.baud

    async def open(self, factory):
        from serial_asyncio_fast import create_serial_connection

        port, baud = self._args
        loop = asyncio.get_running_loop()
        await create_serial_connection(loop, factory, port, baudrate=baud)


async def _until(condition):
    while not condition():
        await asyncio.sleep(0.02)


class Seen:
    """What was published, by topic."""

    def __init__(self, record=None):
        self.topics = {}  # topic: [count, last payload, times of the last ones]
        self.on_message = None
        self._record = record

    def message(self, topic, payload):
        now = time.time()
        row = self.topics.setdefault(topic, [0, b"", deque(maxlen=1000)])
        row[0] += 1
        row[1] = payload
        row[2].append(now)
        if self._record:
            line = {"time": round(now, 6), "topic": topic, **_fields(payload)}
            print(json.dumps(line, ensure_ascii=False), file=self._record, flush=True)
        if self.on_message:
            self.on_message(topic, payload)

    def table(self, title):
        now = time.time()
        table = Table(title=title)
        table.add_column("topic")
        for heading in ("messages", "per s", "age"):
            table.add_column(heading, justify="right")
        table.add_column("last value", overflow="fold")
        for topic, (count, payload, times) in sorted(self.topics.items()):
            rate = sum(now - t <= _WINDOW for t in times) / _WINDOW
            age = f"{now - times[-1]:.1f} s"
            table.add_row(topic, str(count), f"{rate:.1f}", age, _shown(payload))
        return table


async def _watch(seen, joined, where, seconds):
    end = asyncio.Event()
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, end.set)
    if not sys.stdout.isatty():
        await end.wait()
        return
    with Live(console=Console(), auto_refresh=False) as live:
        while not end.is_set():
            state = "connected" if joined.connected else f"not connected: {joined.error}"
            queue = joined.out.queued / joined.out.maxlen
            live.update(seen.table(f"{where}, {state}, backpressure {queue:.0%}"), refresh=True)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(end.wait(), 0.5)


def _shown(payload):
    fields = _fields(payload)
    return str(fields["payload"]) if "payload" in fields else payload.hex(" ")


def _fields(payload):
    """Return a payload as it goes into JSON: bytes that are no text as hex digits."""
    if not isinstance(payload, bytes):
        return {"payload": payload}
    try:
        text = payload.decode()
        if text.isprintable():
            return {"payload": text}
    except UnicodeDecodeError:
        pass
    return {"hex": payload.hex()}
