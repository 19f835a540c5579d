"""A connection that is watched, and made again when it fails.

The program sends a sign of life to a server each second, and obeys the lines that come from there.
Each step has a deadline. If one task of a connection fails, the group cancels the other one, and
the program connects again after a pause that grows.

Install: asyncio_alt, group.json, timeouts.json.
Run: mpremote run supervisor.py, on a board that has joined the network
"""

import asyncio_alt as asyncio

HOST = "192.168.1.2"
PORT = 9000
PATIENCE = 5  # s for the server to accept, to read, and to say something
PAUSES = 0.5, 60  # s between two attempts: at first, and at most


async def listen(reader):
    while True:
        async with asyncio.timeout(PATIENCE):
            line = await reader.readline()
        if not line:
            raise EOFError("the server has hung up")
        print("told:", line.decode().strip())


async def report(writer):
    while True:
        writer.write(b"alive\n")
        async with asyncio.timeout(PATIENCE):
            await writer.drain()
        await asyncio.sleep(1)


async def session(reader, writer):
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(listen(reader))
            group.create_task(report(writer))
    finally:
        writer.close()
        await writer.wait_closed()


async def main():
    pause = PAUSES[0]
    while True:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(HOST, PORT)
            print("connected")
            pause = PAUSES[0]
            await session(reader, writer)
        except (OSError, asyncio.TimeoutError) as er:
            print("not connected:", repr(er))
        except asyncio.ExceptionGroup as group:  # of the tasks of a session
            print("lost:", repr(group.exceptions[0]))
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSES[1])


asyncio.run(main())
