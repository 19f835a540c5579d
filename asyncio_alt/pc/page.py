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
import math
import secrets
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
_TICK = 0.25  # seconds between two messages to a page
_TOPICS = 10000  # of one WHERE, at most
_SHOWN = 200  # characters
_YEAR = 365 * arguments.DAY


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
    parser.add_argument("--secret", metavar="TEXT", default="", help="of the boards' Links")
    parser.add_argument(
        "--baud",
        type=arguments.count(1, 100_000_000),
        default=115200,
        metavar="N",
        help="(default: 115200)",
    )
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
    asyncio.run(_run(args))
    return 0


async def _run(args):
    token = "" if args.host in _LOCAL else secrets.token_urlsafe(16)
    server = _Server([_Source(where) for where in args.where], token)
    async with contextlib.AsyncExitStack() as stack:
        for source in server.sources:
            await stack.enter_async_context(source.joined(args))
        try:
            served = await stack.enter_async_context(
                serve(server.talk, args.host, args.port, process_request=server.answer)
            )
        except OSError as error:
            why = error.strerror or error
            raise Problem(f"--host {args.host} --port {args.port}: {escaped(why)}") from None
        port = served.sockets[0].getsockname()[1]
        host = f"[{args.host}]" if ":" in args.host else args.host
        console().print(f"http://{host}:{port}/{'?token=' * bool(token)}{token}", soft_wrap=True)
        await asyncio.sleep(_YEAR if args.seconds is None else args.seconds)


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
        self._token = token

    def answer(self, connection, request):
        """Answer a request of HTTP; None lets a WebSocket through."""
        url = urlsplit(request.path)
        host = request.headers.get("Host", "")
        if self._token:
            given = parse_qs(url.query).get("token", [""])[0]
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return _response(HTTPStatus.FORBIDDEN, b"The address needs its token.\n")
        elif urlsplit(f"//{host}").hostname not in _LOCAL:
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
                    raise ended

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
            await socket.send(json.dumps({"sources": states, "rows": rows}))
            await asyncio.sleep(_TICK)

    def _publish(self, text):
        # Returns what is wrong, or "".
        try:
            asked = json.loads(text)
            source = self.sources[asked["source"]]
            topic, payload, retain = asked["topic"], asked["payload"], asked["retain"]
            source.publish(topic, payload.encode(), retain is True)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
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
