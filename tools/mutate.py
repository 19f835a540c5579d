"""Make small mutants of the loop and its primitives, one at a time, and say which test kills each:

    .venv/bin/python -m tools.mutate [MODULE ...]

A mutant that lives shows what no test proves. It takes about a quarter of a minute for each, so it
is run by hand, ahead of a release. The tests are those of the mutant's part, on the unix port.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import Problem
from tools.bootstrap import ROOT

# Of each module the tests, in the order in which they are tried.
TESTS = {
    "core": "loop task flags heap input clock ending interrupts priority",
    "event": "lock_event flags heap priority threads",
    "wake": "flags threads heap",
    "wake_unix": "flags threads loop",
    "ioqueue": "streams input priority protocol transport heap",
    "funcs": "gather wait_for heap",
    "stream": "streams drain serial connect",
    "lock": "lock_event sync",
    "queue": "queue",
}

# module, a part of its source that is there once, and what stands in its place.
MUTANTS = [
    ("core", "    if asleep:\n        ring(b", "    if False:\n        ring(b"),
    ("core", "    tasks[t] = name and str(name)\n", ""),
    ("core", "if ticks_diff(t.ph_key, now) <= ahead else now", "if False else now"),
    ("core", "                push(waiting.pop(), key)\n", "                waiting.pop()\n"),
    (
        "core",
        "        t.state = None if waiting is True else False\n",
        "        t.state = False\n",
    ),
    ("core", "            f.task = None\n", ""),
    ("core", "    last_flag = prev\n", ""),
    ("core", "if f.priority or io_ahead:", "if io_ahead:"),
    ("core", "        answer()  # for earlier", "        pass  # for earlier"),
    ("core", "                looked = not polled\n", "                looked = True\n"),
    ("core", "                        dt = bell.idle\n", "                        dt = -1\n"),
    ("core", "if peek() is not t:", "if False:"),
    (
        "core",
        "                    t.data = None\n                    if has",
        "                    if has",
    ),
    (
        "core",
        "                raise er\n            except",
        "                pass\n            except",
    ),
    ("core", '        if hasattr(queue, "remove"):\n            queue.remove(t)\n', ""),
    ("event", "if self.state:  # it has not ended in the queue", "if True:"),
    ("event", '        if core.asleep:\n            _ring(b"\\0")\n', ""),
    ("event", "                self.set()\n", "                pass\n"),
    (
        "event",
        '        self.state = 1\n        _ring(b"\\0")',
        '        _ring(b"\\0")\n        self.state = 1',
    ),
    ("event", "                if self.task.state:\n", "                if False:\n"),
    ("event", "            self.priority = priority\n", ""),
    ("event", "            if not self.next:\n                core.last_flag = prev\n", ""),
    ("wake_unix", "    if rung():\n        _lock.release()", "    _lock.release()"),
    ("wake_unix", "if _lock.acquire(False):", "if True:"),
    ("ioqueue", "        ev = e[_EVENTS] if e[_READER] else 0\n", "        ev = e[_EVENTS]\n"),
    ("ioqueue", "                self.soft -= 1\n", "                pass\n"),
    ("ioqueue", "if t and ev & ~_POLLOUT:", "if t:"),
    ("ioqueue", "if t and ev & ~(_POLLIN | _POLLPRI):", "if t and ev & _POLLOUT:"),
    ("ioqueue", "(ev | e[_EVENTS]) & _POLLPRI", "e[_EVENTS] & _POLLPRI"),
    ("ioqueue", "while _sink.write(buf, n, 1):", "while False:"),
    ("ioqueue", "        elif e[side] or e[_WATCHER]:\n", "        elif e[_WATCHER]:\n"),
    ("funcs", "            wait.failed = er\n", "            pass\n"),
    ("funcs", "        if k not in made:\n", "        if True:\n"),
    ("funcs", "            (waker.data or queue).remove(waker)\n", "            pass\n"),
    ("funcs", "            and er.value is None\n", ""),
    ("funcs", "and t.data is not core.CancelledError]", "]"),
    ("stream", "ask = self.out_ask or left", "ask = left"),
    ("stream", "        if self.in_buf and (n > 0", "        if False and (n > 0"),
    ("stream", "self.out_off = n\n", "self.out_off = 0\n"),
    (
        "stream",
        "            seen = len(self.in_buf)\n",
        "            seen = len(self.in_buf) + 1\n",
    ),
    ("stream", "                if not r:\n                    raise EOFError\n", ""),
    ("lock", "                    self.release()\n", "                    pass\n"),
    ("lock", "if holder == 1 or holder and holder.state:", "if holder == 1:"),
    ("queue", "            if t in self._turns and not blocked():\n", "            if False:\n"),
    ("queue", "            self._unfinished -= 1\n            raise", "            raise"),
    ("queue", "self._zeros = self._zeros + 1 & 0xFFFF", "pass"),
    ("queue", "        self._wake_one(self._putters)\n", ""),
    ("queue", "        if i > 14 and 2 * i > len(items):", "        if i > 14:"),
]


def killer(folder, module):
    """Return the name of the first test that fails in the copy of the project, or None."""
    files = [f"tests/device/test_{name}.py" for name in TESTS[module].split()]
    command = [sys.executable, "-m", "tools", "test", "-x", "-q", *files]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "(none in 5 minutes)"
    if not done.returncode:
        return None
    found = re.search(r"^_+ (\S+) _+$", done.stdout, re.M)
    return found[1] if found else (done.stdout + done.stderr).strip().split("\n")[-1]


def main(modules):
    alive = 0
    whole = set()  # the modules whose tests pass without a mutant
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        ignore = shutil.ignore_patterns(".git", ".venv", "*cache*", "benchmarks")
        shutil.copytree(ROOT, copy, ignore=ignore)
        (copy / ".venv").symlink_to((ROOT / ".venv").resolve())
        for module, old, new in MUTANTS:
            if modules and module not in modules:
                continue
            path = copy / "asyncio_alt" / f"{module}.py"
            source = path.read_text()
            if source.count(old) != 1:
                raise Problem(f"{module}.py has {old!r} {source.count(old)} times, not once")
            if module not in whole:
                by = killer(copy, module)
                if by:
                    raise Problem(f"without a mutant {by} fails, or is too slow")
                whole.add(module)
            path.write_text(source.replace(old, new))
            by = killer(copy, module)
            path.write_text(source)
            alive += not by
            print(f"{module}: {' '.join(old.split())} -> {' '.join(new.split()) or 'nothing'}")
            print(f"    {by or 'LIVES'}", flush=True)
    print(f"{alive} live")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
