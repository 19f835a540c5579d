"""Show the topics of boards and MQTT brokers in a web browser, and publish to them.

WHERE is mqtt://[USER:PASSWORD@]HOST[:PORT], an MQTT broker; HOST:PORT, a board with a Link that
listens there; or a serial port such as /dev/ttyACM0, a board with a Link that has
Serial(uart, calls=False). There may be several.

The page has each topic in a tree, with its last value, age, rate and a plot of numbers. It needs
no other file and no other host. It is served to this PC alone, unless --host says otherwise; then
the address that is printed has a token in it, without which nothing is shown.

When a connection is lost the page says so, and goes on when it is back.
"""

import asyncio
import contextlib
import hmac
import json
import logging
import math
import secrets
import signal
import time
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

from asyncio_alt.pc import Problem, arguments, topics
from asyncio_alt.pc.screen import console, escaped
from asyncio_alt.pubsub import Broker

_PAGE = Path(__file__).with_name("page.html")
_LOCAL = {"127.0.0.1", "localhost", "::1"}
_CLOSED = 0.5  # seconds that pages may take to close their connections
_TICK = 0.25  # seconds between two messages to a page
_TOPICS = 10000  # of one WHERE, at most
_SHOWN = 200  # characters
_YEAR = 365 * arguments.DAY
# What a message of a page may raise.
_INVALID = ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError


def add_arguments(parser):
    parser.add_argument(
        "where", metavar="WHERE", nargs="+", type=topics.where_type, help="see above"
    )
    parser.add_argument(
        "--filter",
        action="append",
        type=topics.filter_type,
        metavar="FILTER",
        help="the topics to show, with + and # as in MQTT; may be given again (default: all)",
    )
    topics.add_link_arguments(parser, "of the boards' Links")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="of this PC (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port",
        type=arguments.count(0, 65535),
        default=8080,
        metavar="N",
        help="0 for any that is free (default: 8080)",
    )
    parser.add_argument(
        "--seconds", type=arguments.real(0, _YEAR), metavar="N", help="end after N seconds"
    )


def main(args):
    try:
        asyncio.run(_run(args))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return 0


async def _run(args):
    token = "" if args.host in _LOCAL else secrets.token_urlsafe(16)
    server = _Server([_Source(where) for where in args.where], token)
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(_cancelled_by_ctrl_c())
        asyncio.get_running_loop().set_exception_handler(server.report)
        for source in server.sources:
            await stack.enter_async_context(source.joined(args))
        try:
            served = await serve(
                server.talk, args.host, args.port, process_request=server.answer, logger=_quiet()
            )
        except OSError as error:
            why = error.strerror or error
            raise Problem(f"--host {args.host} --port {args.port}: {escaped(why)}") from None
        stack.push_async_callback(_close, served)
        port = served.sockets[0].getsockname()[1]
        host = f"[{args.host}]" if ":" in args.host else args.host
        console().print(f"http://{host}:{port}/{'?token=' * bool(token)}{token}", soft_wrap=True)
        seconds = _YEAR if args.seconds is None else args.seconds
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.failed, seconds)


async def _close(served):
    # A browser has connections ready on which it says nothing, and may be slow to go.
    served.close()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(served.wait_closed(), _CLOSED)


@contextlib.contextmanager
def _cancelled_by_ctrl_c():
    # Else KeyboardInterrupt would come up in any task.
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    before = {
        number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(task.cancel))
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _quiet():
    # It would tell of everyone who comes to the port with something else than HTTP.
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.CRITICAL)
    return logger


class _Source:
    """What is published at one WHERE."""

    def __init__(self, where):
        self.where = where
        self.rows = {}  # topic: [number of the last change, count, payload, its time]
        self.changes = 0
        self.rating = 0.0  # of the last message that was published here
        self._broker = Broker()

    @contextlib.asynccontextmanager
    async def joined(self, args):
        filters = args.filter or ["#"]
        # What is published here goes there; what comes from there is not sent back.
        self._link = topics.link(args, self.where, self._broker, ["#"], filters)
        for each in filters:
            self._broker.subscribe_call(each, self._message)
        self._own = None
        async with self._link:
            yield self

    def publish(self, topic, payload, retain):
        self._own = topic
        try:
            self.rating = self._broker.publish(topic, payload, retain)
        finally:
            self._own = None

    def _message(self, topic, payload):
        if topic == self._own:
            return  # it is not there yet; a broker tells it back, a board if it likes
        row = self.rows.get(topic)
        if row is None:
            if len(self.rows) >= _TOPICS:
                return
            row = self.rows[topic] = [0, 0, None, 0]
        self.changes += 1
        row[0] = self.changes
        row[1] += 1
        row[2] = payload
        row[3] = time.monotonic()

    def state(self):
        link = self._link
        counts = {
            name: getattr(link, name)
            for name in ("received", "delivered", "sent", "dropped", "refused", "resent")
            if isinstance(getattr(link, name, None), int)
        }
        if self.where.mqtt:
            counts |= {"queued": link.out.queued, "dropped": link.out.dropped}
        return {
            "name": self.where.shown,
            "connected": bool(link.connected),
            "why": "" if link.connected else topics.why(link).removeprefix(": "),
            "rating": round(self.rating, 2),
            "counts": counts,
        }

    def since(self, change):
        """Return the rows that have changed since that change."""
        now = time.monotonic()
        return [
            [topic, row[1], topics.start(row[2]), round(now - row[3], 2), _number(row[2])]
            for topic, row in self.rows.items()
            if row[0] > change
        ]


def _number(payload):
    # The payload's number, if it is one, for the plot.
    if isinstance(payload, bytes):
        if len(payload) > 30:
            return None
        payload = payload.decode(errors="replace")
    try:
        value = float(payload) if isinstance(payload, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


class _Server:
    def __init__(self, sources, token):
        self.sources = sources
        self.failed = asyncio.get_running_loop().create_future()  # by a fault of this program
        self._token = token
        self._said = ""

    def report(self, loop, context):
        """Have the pages show what a link reports."""
        self._said = escaped(context.get("exception") or context["message"], _SHOWN)

    def answer(self, connection, request):
        """Answer a request of HTTP; None lets a WebSocket through."""
        try:
            host = request.headers.get("Host", "")
            name = urlsplit(f"//{host}").hostname
            url = urlsplit(request.path)
        except ValueError:
            return _response(HTTPStatus.BAD_REQUEST, b"")
        if self._token:
            given = parse_qs(url.query).get("token", [""])[0]
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return _response(HTTPStatus.FORBIDDEN, b"The address needs its token.\n")
        elif name not in _LOCAL:
            # Else a page of another host could have its own name lead here.
            return _response(HTTPStatus.FORBIDDEN, b"It is for this PC only.\n")
        if url.path == "/live":
            if request.headers.get("Origin") != f"http://{host}":
                return _response(HTTPStatus.FORBIDDEN, b"It is for its own page only.\n")
            return None
        if url.path != "/":
            return _response(HTTPStatus.NOT_FOUND, b"There is nothing here.\n")
        nonce = secrets.token_urlsafe(16)
        text = _PAGE.read_text("utf-8").replace("NONCE", nonce)
        policy = (
            f"default-src 'none'; connect-src 'self'; img-src data:; script-src 'nonce-{nonce}'; "
        )
        policy += f"style-src 'nonce-{nonce}'; base-uri 'none'; frame-ancestors 'none'"
        return _response(HTTPStatus.OK, text.encode(), "text/html", policy)

    async def talk(self, socket):
        """Tell a page what changes, and take what it publishes."""
        both = [asyncio.create_task(way(socket)) for way in (self._tell, self._take)]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            for ended in await asyncio.gather(*both, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, ConnectionClosed):
                    if not self.failed.done():
                        self.failed.set_exception(ended)

    async def _take(self, socket):
        async for text in socket:
            await socket.send(json.dumps({"said": self._publish(text)}))

    async def _tell(self, socket):
        seen = [0] * len(self.sources)
        while True:
            rows = [source.since(n) for source, n in zip(self.sources, seen, strict=True)]
            seen = [source.changes for source in self.sources]
            states = [source.state() for source in self.sources]
            # A page that reads slowly gets fewer messages, each with the last values.
            await socket.send(json.dumps({"sources": states, "rows": rows, "report": self._said}))
            await asyncio.sleep(_TICK)

    def _publish(self, text):
        # Returns what is wrong, or "".
        try:
            asked = json.loads(text)
            source = self.sources[asked["source"]]
            topic, payload, retain = asked["topic"], asked["payload"], asked["retain"]
            source.publish(topic, payload.encode(), retain is True)
        except _INVALID as error:
            return escaped(error, _SHOWN) or "invalid"
        return ""


def _response(status, body, kind="text/plain", policy="default-src 'none'"):
    headers = Headers(
        {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
        }
    )
    return Response(status.value, status.phrase, headers, body)
