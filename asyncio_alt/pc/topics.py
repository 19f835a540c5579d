"""Watch the topics of a board or an MQTT broker, publish to them, record them.

WHERE is mqtt://[USER:PASSWORD@]HOST[:PORT], an MQTT broker; HOST:PORT, a board with a Link that
listens there; or a serial port such as /dev/ttyACM0, a board with a Link that has
Serial(uart, calls=False).

In a terminal it shows a table: how often each topic is published, its last value, and the age of
that value. It shows as many topics as there is room for. Elsewhere it prints a line for each
message. Control characters and line ends are shown as \\\\x1b or \\\\n.

When the connection is lost it says so, and goes on trying. If FILE cannot be written to, it ends.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import time
from collections import deque
from urllib.parse import unquote, urlsplit

from rich import box
from rich.live import Live
from rich.table import Table

from asyncio_alt.pc import Problem, WrongArgument, arguments, ending
from asyncio_alt.pc.screen import console, escaped, without_password
from asyncio_alt.pubsub import Broker, Link, Tcp, matches, mqtt

_WINDOW = 5  # seconds over which a rate is the mean
_JOINED = 5  # seconds that it may take to connect
_SENT = 10  # seconds in which the other end must have a published message
_TOPICS = 10000  # at most this many are kept for the table
_SHOWN = 200  # characters of a topic or a value in the table
_NARROW = 50  # columns; a terminal with fewer shows topics and values only

_YEAR = 365 * arguments.DAY
_ALARM = getattr(signal, "SIGALRM", None)  # not on Windows


def add_arguments(parser):
    parser.add_argument(
        "where", metavar="WHERE", type=where_type, help="broker or board, see above"
    )
    parser.add_argument(
        "--filter",
        action="append",
        type=filter_type,
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
    parser.add_argument("--retain", action="store_true", help="have the messages retained")
    parser.add_argument(
        "--record",
        type=arguments.file,
        metavar="FILE",
        help="append each message, as a line of JSON",
    )
    add_link_arguments(parser, "of the board's Link")
    parser.add_argument(
        "--seconds", type=arguments.real(0, _YEAR), metavar="N", help="end after N seconds"
    )


def add_link_arguments(parser, whose_secret):
    """Add those that link() reads. whose_secret: the help of --secret."""
    parser.add_argument("--secret", metavar="TEXT", default="", help=whose_secret)
    parser.add_argument(
        "--baud",
        type=arguments.count(1, 100_000_000),
        default=115200,
        metavar="N",
        help="(default: 115200)",
    )


# Checks of the arguments


@dataclasses.dataclass(frozen=True)
class Where:
    shown: str  # without a password
    host: str = ""  # else it is a serial port
    port: int = 0
    mqtt: bool = False
    user: str | None = None
    password: str | None = None
    device: str = ""


def where_type(text) -> Where:
    """Read WHERE; raise argparse's error if it is invalid."""
    shown = without_password(text)

    def wrong(why):
        # Without "@", the text in the port's place may be a password.
        return argparse.ArgumentTypeError(f"invalid value {shown!r}: {why}")

    scheme = re.match("(?i)([a-z][a-z0-9+.-]*)://", text)
    if scheme and scheme[1].lower() == "mqtt":
        if "@" not in text and re.search(r"://[^:/\[]*:.*[^0-9]", text):
            shown = re.sub(r"(://[^:]*:).*", r"\1…", text)
        try:
            url = urlsplit(text)
            port = 1883 if url.port is None else url.port
        except ValueError:
            raise wrong("after mqtt:// a host and a port from 1 to 65535 may follow") from None
        if url.path.strip("/") or url.query or url.fragment:
            raise wrong("mqtt:// takes a host and a port; in a password / ? # are %2F %3F %23")
        user, password = (part and unquote(part) for part in (url.username, url.password))
        host = url.hostname or "127.0.0.1"
        where = Where(shown, host, port, True, user, password)
    elif scheme and scheme[1].lower() not in ("socket", "rfc2217"):
        raise wrong("it must be mqtt://HOST, HOST:PORT or a serial port")
    elif scheme or "/" in text or ":" not in text:
        if not text or "\0" in text:
            raise wrong("it must be mqtt://HOST, HOST:PORT or a serial port")
        return Where(shown, device=text)
    else:
        host, _, port = text.rpartition(":")
        if not (port.isascii() and port.isdecimal()):
            raise wrong("the port must be a number from 1 to 65535")
        where = Where(shown, host.strip("[]"), int(port[:9]))
    if not 0 < where.port < 65536:
        raise wrong("the port must be a number from 1 to 65535")
    try:
        if not where.host or not where.host.encode("idna") or not where.host.isprintable():
            raise ValueError
    except ValueError:
        raise wrong("invalid name of a host") from None
    return where


def filter_type(text) -> str:
    """Check a filter; raise argparse's error if it is invalid."""
    try:
        text.encode()
        matches(text, "x")
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: {error}") from None
    return text


def _check_topic(topic, where):
    try:
        size = len(topic.encode())
        matches("#", topic)
    except ValueError as error:
        raise WrongArgument(f"argument --publish: invalid topic {topic[:99]!r}: {error}") from None
    if not where.mqtt and size > 255:
        raise Problem(f"--publish {topic[:99]}…: not sent: a link takes topics of 255 bytes")


def main(args):
    filters = args.filter or ([] if args.publish else ["#"])
    for topic, _ in args.publish:
        _check_topic(topic, args.where)
    with contextlib.ExitStack() as stack:
        record = None
        if args.record:
            # Without a buffer, so that the file ends with a whole line.
            record = stack.enter_context(open(args.record, "ab", buffering=0))
        try:
            asyncio.run(_run(args, filters, record))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
    return 0


class _Output:
    """Ends the main task: for Ctrl-C, when the time is over, when the output takes no more.

    Signals do that, as the loop stands still while nobody reads the output.
    """

    def __init__(self, seconds):
        self.end = asyncio.Event()
        self.problem = None  # the reason why it cannot go on
        self.shut = False
        self._writing = False
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def __enter__(self):
        self._before = {signal.SIGTERM: signal.signal(signal.SIGTERM, self._interrupt)}
        if _ALARM:
            self._before[_ALARM] = signal.signal(_ALARM, self._over)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        self.start_clock(_JOINED)
        return self

    def __exit__(self, *exc):
        if _ALARM:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def start_clock(self, more=0.001):
        if self._seconds is None:
            return
        if _ALARM:
            # The timer repeats: there may be more than one write on the way out.
            signal.setitimer(signal.ITIMER_REAL, self._seconds + more, 0.5)
        else:
            self._loop.call_later(self._seconds + more, self.end.set)

    @contextlib.contextmanager
    def writing(self):
        """A write meanwhile may be broken off."""
        self._writing = True
        try:
            yield
        except OSError as error:
            self.fail(error)
        finally:
            self._writing = False

    def fail(self, problem):
        if not self.problem:
            self.problem = problem
        self.shut = True
        self.end.set()

    def _over(self, signum, frame):
        self._loop.call_soon_threadsafe(self.end.set)
        if self._writing:
            self.shut = True
            raise ending.Over

    def _interrupt(self, signum, frame):
        if self._writing:
            self.shut = True
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._task.cancel)


async def _run(args, filters, record):
    broker = Broker()
    loop = asyncio.get_running_loop()
    reported = []  # exceptions that are reported nowhere else

    def report(loop, context):
        reported.append(context.get("exception") or context["message"])

    loop.set_exception_handler(report)
    table = sys.stdout.isatty()
    with _Output(args.seconds) as output:
        seen = Seen(output, record and (args.record, record), lines=not table)
        for f in filters:
            broker.subscribe_call(f, seen.message)
        send = [topic for topic, _ in args.publish]
        async with _joined(args, broker, send, filters) as joined:
            for topic, payload in args.publish:
                await _publish(broker, joined, topic, os.fsencode(payload), args.retain, reported)
            if filters:
                output.start_clock()
                watch = _watch_table if table else _watch
                await watch(seen, joined, args.where.shown, output)
        if output.problem:
            raise output.problem


@contextlib.asynccontextmanager
async def _joined(args, broker, send, receive):
    """Join the broker to the other end that args.where names, while the context lasts."""
    where = args.where
    joined = link(args, where, broker, send, receive)
    async with joined:
        try:
            # The connection may be lost again already.
            await asyncio.wait_for(_until(lambda: joined.connected or joined.received), _JOINED)
        except asyncio.TimeoutError:
            raise Problem(f"no connection to {where.shown}{why(joined)}") from None
        yield joined


def link(args, where, broker, send, receive):
    """Return the Link or the Bridge between a broker and the other end; not started yet."""
    if where.mqtt:
        return _mqtt(where, broker, send, receive)
    carrier = _Port(where, args) if where.device else Tcp(where.host, where.port)
    return Link(broker, carrier, send, receive, secret=os.fsencode(args.secret))


def _mqtt(where, broker, send, receive):
    import aiomqtt

    client = aiomqtt.Client(
        where.host,
        where.port,
        username=where.user,
        password=where.password,
        timeout=_JOINED,
    )
    adapter = mqtt.AioMqtt(client)
    return mqtt.Bridge(
        broker, adapter, send=send, receive=receive, qos=1, policy="block", retry=(0.2, 5)
    )


class _Port:
    """A carrier for a Link: a serial port."""

    calls = True
    lossy = True

    def __init__(self, where, args):
        self._args = where.device, args.baud

    async def open(self, factory):
        from serial_asyncio_fast import create_serial_connection

        port, baud = self._args
        loop = asyncio.get_running_loop()
        try:
            await create_serial_connection(loop, factory, port, baudrate=baud)
        except OSError:
            raise
        except Exception as error:  # of pyserial and termios, for an invalid serial port
            raise OSError(f"{type(error).__name__}: {error}") from None


async def _until(condition):
    while not condition():
        await asyncio.sleep(0.02)


def why(joined):
    """Return ": " and the reason why the last connection ended, "" if it is not known."""
    error = getattr(joined, "error", None)
    if error is None:
        return ""
    return ": " + escaped(without_password(str(error) or type(error).__name__), _SHOWN)


async def _publish(broker, joined, topic, payload, retain, reported):
    """Publish, and wait until the other end has it."""
    name = "sent" if isinstance(joined, mqtt.Bridge) else "delivered"
    dropped = joined.out if isinstance(joined, mqtt.Bridge) else joined
    known = getattr(joined, name), dropped.dropped, len(reported)

    def lost():
        # While there is a connection, a Link also drops what comes and was not asked for.
        connected = dropped is joined and joined.connected
        return dropped.dropped > known[1] and not connected

    def ended():
        return getattr(joined, name) > known[0] or len(reported) > known[2] or lost()

    async def sent():
        await broker.publish_wait(topic, payload, retain)
        await _until(ended)

    reason = f"the other end has not taken it in {_SENT} s"
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(sent(), _SENT)
    if getattr(joined, name) > known[0]:
        return
    if len(reported) > known[2]:
        reason = escaped(reported[-1], _SHOWN)
    elif lost():
        reason = (
            "it is too long for the other end" if joined.connected else "the connection is lost"
        )
    else:
        reason += why(joined)
    raise Problem(f"--publish {escaped(topic, _SHOWN)}: not sent: {reason}")


class Seen:
    """The published messages, by topic.

    output: an _Output; record: None, or the name of a file and the file, for a line of JSON each;
    lines: print a line for each message, else keep them for table()
    """

    def __init__(self, output, record=None, lines=False):
        self.topics = {}  # topic: [count, last payload, times of the last ones]
        self.count = 0
        self._output = output
        self._record = record
        self._lines = lines

    def message(self, topic, payload):
        if self._output.shut:
            return
        now = time.time()
        self.count += 1
        if self._record:
            self._write(now, topic, payload)
        if self._lines:
            with self._output.writing():
                print(escaped(topic), escaped(_shown(payload)), flush=True)
            return
        if topic not in self.topics and len(self.topics) >= _TOPICS:
            return
        row = self.topics.setdefault(topic, [0, b"", deque(maxlen=1000)])
        row[0] += 1
        row[1] = payload
        row[2].append(now)

    def _write(self, now, topic, payload):
        name, file = self._record
        line = {"time": round(now, 6), "topic": topic, **_fields(payload)}
        text = json.dumps(line, ensure_ascii=False, default=repr)
        if not text.isprintable():
            text = json.dumps(line, default=repr)
        data = (text + "\n").encode()
        try:
            while data:
                data = data[file.write(data) :]
        except OSError as error:
            self._output.fail(Problem(f"--record {name}: {error.strerror}"))

    def table(self, title, width, height):
        """Return a table for so many columns and lines."""
        now = time.time()
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("topic", overflow="fold")
        if wide := width >= _NARROW:
            for heading in ("messages", "per s", "age"):
                table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("last value", overflow="fold")
        topics = sorted(self.topics)[: max(1, height - 8)]
        for topic in topics:
            count, payload, times = self.topics[topic]
            rate = sum(now - t <= _WINDOW for t in times) / _WINDOW
            cells = [str(count), f"{rate:.1f}", f"{now - times[-1]:.1f} s"] if wide else []
            table.add_row(escaped(topic, _SHOWN), *cells, start(payload))
        if more := len(self.topics) - len(topics):
            plus = "+" if len(self.topics) >= _TOPICS else ""
            table.caption = f"{more:,}{plus} more topics: --filter chooses"
        return table


async def _watch(seen, joined, where, output):
    connected = True
    while not output.end.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(output.end.wait(), 0.2)
        if joined.connected != connected and not output.end.is_set():
            connected = joined.connected
            state = "connected again" if connected else f"not connected{why(joined)}"
            print(f"{where}: {state}", file=sys.stderr, flush=True)


async def _watch_table(seen, joined, where, output):
    screen = console()
    with output.writing():
        live = Live(console=screen, auto_refresh=False)
        live.start()
    try:
        while not output.end.is_set():
            state = "connected" if joined.connected else f"not connected{why(joined)}"
            title = f"{escaped(where)}, {state}, {seen.count} messages"
            with output.writing():
                live.update(seen.table(title, screen.width, screen.height), refresh=True)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(output.end.wait(), 0.5)
    finally:
        with output.writing():
            live.stop()


def _shown(payload):
    fields = _fields(payload)
    return str(fields["payload"]) if "payload" in fields else payload.hex(" ")


def start(payload):
    """Return the beginning of a payload, as it goes into a table."""
    if isinstance(payload, bytes) and len(payload) > _SHOWN:
        start = payload[:_SHOWN]
        with contextlib.suppress(UnicodeDecodeError):
            payload.decode()
            start = start.decode(errors="ignore")
        return f"{escaped(_shown(start), _SHOWN)}… ({len(payload):,} bytes)"
    return escaped(_shown(payload), _SHOWN)


def _fields(payload):
    """Return a payload as it goes into JSON: bytes that are not text as hex digits."""
    if not isinstance(payload, bytes):
        return {"payload": payload}
    try:
        text = payload.decode()
        if text.isprintable():
            return {"payload": text}
    except UnicodeDecodeError:
        pass
    return {"hex": payload.hex()}
