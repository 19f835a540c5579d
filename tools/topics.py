"""Watch the topics of a board or an MQTT broker, publish to them, record them.

WHERE is mqtt://[USER:PASSWORD@]HOST[:PORT], an MQTT broker.

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

from asyncio_alt.pubsub import Broker, matches, mqtt
from tools import Problem

_WINDOW = 5  # seconds that a rate is the mean of
_JOINED = 10  # seconds in which there must be a connection


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
    for f in filters:
        broker.subscribe_call(f, seen.message)
    sent = [topic for topic, _ in args.publish]
    async with _joined(args.where, broker, sent, filters) as joined:
        for topic, payload in args.publish:
            await broker.publish_wait(topic, payload.encode(), args.retain)
        await _until(lambda: not joined.out.queued and joined.sent >= len(sent))
        if filters:
            await _watch(seen, joined, args.where, args.seconds)


@contextlib.asynccontextmanager
async def _joined(where, broker, send, receive):
    """Join the broker to what WHERE names, while the context lasts."""
    url = urlsplit(where)
    if url.scheme != "mqtt":
        raise Problem(f"{where} is not mqtt://HOST")
    import aiomqtt

    client = aiomqtt.Client(
        url.hostname or "127.0.0.1",
        url.port or 1883,
        username=url.username and unquote(url.username),
        password=url.password and unquote(url.password),
    )
    joined = mqtt.Bridge(
        broker,
        mqtt.AioMqtt(client),
        send=send,
        receive=receive,
        qos=1,
        policy="block",
        retry=(0.2, 5),
    )
    task = asyncio.create_task(joined.run())
    try:
        try:
            await asyncio.wait_for(_until(lambda: joined.connected), _JOINED)
        except asyncio.TimeoutError:
            raise Problem(f"no connection to {where}: {joined.error}") from None
        yield joined
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
        seen.on_message = lambda topic, payload: print(topic, _shown(payload), flush=True)
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
    return _fields(payload).get("payload") or payload.hex(" ")


def _fields(payload):
    """Return a payload as it goes into JSON: text, or else hex digits."""
    try:
        text = payload.decode()
        if text.isprintable():
            return {"payload": text}
    except UnicodeDecodeError:
        pass
    return {"hex": payload.hex()}
