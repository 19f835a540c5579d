"""The system calls of a protocol, counted by strace."""

import re
import shutil

import pytest

from tools import Problem, targets
from tools.targets.unix import micropython

SCRIPT = """
import asyncio_alt as asyncio
import time

async def main():
    port = 20000 + time.ticks_us() % 10000
    await asyncio.create_server(asyncio.Protocol, "127.0.0.1", port)
    transport, _ = await asyncio.create_connection(asyncio.Protocol, "127.0.0.1", port)
    await asyncio.sleep_ms(10)
    print("BEGIN")
    for _ in range(100):
        transport.write(b"64 bytes" * 8)
    print("END")

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Return the system calls between BEGIN and END."""
    if not shutil.which("strace"):
        pytest.skip("there is no strace here; Debian has it in strace")
    log = tmp_path_factory.mktemp("strace") / "log"
    try:
        with targets.get("unix", binary="strace", args=["-o", log, micropython()]) as unix:
            result = unix.run(SCRIPT)
    except Problem as problem:
        pytest.skip(f"strace does not work here: {problem}")
    assert result.ok, result.err
    text = log.read_text()
    part = text[text.index('write(1, "BEGIN') : text.index('write(1, "END')]
    return [call for call in part.splitlines() if not call.startswith("write(1, ")]


def test_a_small_write_is_one_system_call(traced):
    assert len(traced) == 100
    assert all(re.match(r'write\(\d+, "64 bytes.* = 64$', call) for call in traced)
