"""A PC script that joins a board: it records the thermostat's values, and sets its target.

When the board is off it goes on trying, and says so.

Install: pip install "asyncio_alt[serial]"
Run: python join_board.py 192.168.1.7:8765 --target 21.5 --csv room.csv
 or: python join_board.py /dev/ttyUSB0
"""

import argparse
import asyncio
import contextlib
import csv
import sys
import time

from asyncio_alt.pubsub import Broker, Link, Tcp

SECRET = b"the same in join_board.py"


class SerialPort:
    """A carrier for a Link."""

    calls = True
    lossy = True

    def __init__(self, name):
        self.name = name

    async def open(self, factory):
        from serial_asyncio_fast import create_serial_connection

        loop = asyncio.get_running_loop()
        await create_serial_connection(loop, factory, self.name, baudrate=115200)


def carrier(where):
    host, colon, port = where.rpartition(":")
    return Tcp(host, int(port)) if colon and port.isdecimal() else SerialPort(where)


async def main(args):
    broker = Broker()
    where = carrier(args.board)
    link = Link(broker, where, send=["set/#"], receive=["room/#"], secret=SECRET)
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(open(args.csv, "a", newline="")) if args.csv else sys.stdout
        rows = csv.writer(out)

        def received(topic, value):
            rows.writerow([time.strftime("%H:%M:%S"), topic, value])
            out.flush()

        broker.subscribe_call("room/#", received)
        if args.target is not None:
            broker.publish("set/target", args.target, retain=True)
        async with link:
            while True:
                if not link.connected:
                    print("not connected:", repr(link.error), file=sys.stderr)
                await asyncio.sleep(1)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("board", help="HOST:PORT or a serial port")
parser.add_argument("--target", type=float, help="degrees Celsius")
parser.add_argument("--csv", help="append to this file (default: print)")
with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(parser.parse_args()))
