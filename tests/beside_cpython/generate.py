"""Random programs of tasks that start, cancel and wait for one another, and smaller ones that show
the same."""

import random
from typing import NamedTuple


class Statement(NamedTuple):
    """Lines of a program; BODY0, BODY1 ... stand for statements within."""

    lines: str
    bodies: tuple = ()


# Statements by kind. In them {n} is the statement's number, {ms} a delay, {k} a task with a higher
# number than the one that has the statement, {any} any task, {v} a value. {sub0} is a coroutine
# that runs BODY0. {d} and {g} are a deadline and a group around the statement.

_PLAIN = """
log(me, {n}, await nap({ms}))
log(me, {n}, await nap({ms}))
log(me, {n}, await nap({ms}))
log(me, {n}, spawn({k}))
log(me, {n}, await task({k}))
log(me, {n}, await task({k}))
log(me, {n}, cancel({any}))
log(me, {n}, cancel({any}))
log(me, {n}, cancel({any}))
log(me, {n}, done({any}))
raise V({n})
return {n}
---
try:
    BODY0
except Exception as exc:
    log(me, {n}, exc)
---
try:
    BODY0
finally:
    log(me, {n}, "finally")
    BODY1
---
try:
    BODY0
except asyncio.CancelledError:
    log(me, {n}, "cancelled")
    BODY1
    raise
---
try:
    BODY0
except asyncio.CancelledError:
    log(me, {n}, "swallowed")
"""

_KINDS = {
    "event": """
call(me, {n}, E0.set)
call(me, {n}, E0.clear)
log(me, {n}, await E0.wait())
log(me, {n}, await E0.wait())
""",
    "lock": """
call(me, {n}, L0.release)
call(me, {n}, L0.locked)
log(me, {n}, await L0.acquire())
---
async with L0:
    log(me, {n}, "in")
    BODY0
---
async with L0:
    log(me, {n}, "in")
    BODY0
""",
    "semaphore": """
call(me, {n}, S0.release)
call(me, {n}, S0.locked)
log(me, {n}, await S0.acquire())
call(me, {n}, S1.release)
---
async with S0:
    log(me, {n}, "in")
    BODY0
---
async with S1:
    log(me, {n}, "in")
    BODY0
""",
    "condition": """
call(me, {n}, C0.notify)
---
async with C0:
    log(me, {n}, await C0.wait())
---
async with C0:
    log(me, {n}, await C0.wait())
    BODY0
---
async with C0:
    log(me, {n}, await C0.wait_for(E0.is_set))
---
async with C0:
    call(me, {n}, C0.notify, 1)
    BODY0
---
async with C0:
    call(me, {n}, E0.set)
    call(me, {n}, C0.notify_all)
""",
    "barrier": """
log(me, {n}, await B0.wait())
log(me, {n}, await B0.wait())
log(me, {n}, await B0.wait())
log(me, {n}, await B0.reset())
log(me, {n}, await B0.abort())
log(me, {n}, [B0.n_waiting, B0.broken])
---
async with B0 as place:
    log(me, {n}, place)
    BODY0
""",
    "queue": """
log(me, {n}, await Q0.put({v}))
log(me, {n}, await Q0.put({v}))
log(me, {n}, await Q0.get())
log(me, {n}, await Q0.get())
call(me, {n}, Q0.put_nowait, {v})
call(me, {n}, Q0.get_nowait)
call(me, {n}, Q0.task_done)
log(me, {n}, await Q0.join())
log(me, {n}, [Q0.qsize(), Q0.empty(), Q0.full()])
""",
    "ordered queue": """
log(me, {n}, await Q1.put({v}))
log(me, {n}, await Q1.get())
call(me, {n}, Q1.put_nowait, {v})
call(me, {n}, Q1.get_nowait)
log(me, {n}, await Q2.put({v}))
log(me, {n}, await Q2.get())
call(me, {n}, Q2.task_done)
""",
    "shutdown": """
call(me, {n}, Q0.shutdown)
call(me, {n}, Q0.shutdown, True)
call(me, {n}, Q1.shutdown)
log(me, {n}, await Q0.get())
log(me, {n}, await Q0.put({v}))
call(me, {n}, Q0.task_done)
log(me, {n}, await Q0.join())
""",
    "future": """
log(me, {n}, await F0)
log(me, {n}, await F0)
log(me, {n}, await F1)
call(me, {n}, F0.set_result, {v})
call(me, {n}, F0.set_exception, V({n}))
call(me, {n}, F1.set_result, {v})
call(me, {n}, F0.cancel)
call(me, {n}, F1.cancel)
call(me, {n}, F0.result)
call(me, {n}, F1.exception)
call(me, {n}, F0.done)
call(me, {n}, F1.cancelled)
call(me, {n}, F0.add_done_callback, callback(me, {n}))
""",
    "timeout": """
call(me, {n}, {d}.reschedule, moment({ms}))
call(me, {n}, {d}.reschedule, None)
call(me, {n}, {d}.expired)
---
try:
    async with asyncio.timeout({ms} * UNIT) as d{n}:
        BODY0
    log(me, {n}, d{n}.expired())
except asyncio.TimeoutError:
    log(me, {n}, "late")
---
async with asyncio.timeout({ms} * UNIT) as d{n}:
    BODY0
log(me, {n}, d{n}.expired())
---
try:
    async with asyncio.timeout_at(moment({ms})) as d{n}:
        try:
            BODY0
        finally:
            log(me, {n}, d{n}.expired())
            BODY1
except asyncio.TimeoutError as exc:
    log(me, {n}, exc)
---
async with asyncio.timeout(None) as d{n}:
    BODY0
log(me, {n}, d{n}.expired())
""",
    "group": """
---
call(me, {n}, {g}.create_task, {sub0})
---
async with asyncio.TaskGroup() as g{n}:
    call(me, {n}, g{n}.create_task, {sub0})
    call(me, {n}, g{n}.create_task, {sub1})
    BODY2
log(me, {n}, "over")
---
try:
    async with asyncio.TaskGroup() as g{n}:
        call(me, {n}, g{n}.create_task, {sub0})
        call(me, {n}, g{n}.create_task, {sub1})
        BODY2
except Exception as exc:
    log(me, {n}, exc)
---
try:
    async with asyncio.TaskGroup() as g{n}:
        BODY0
        call(me, {n}, g{n}.create_task, {sub1})
except Exception as exc:
    log(me, {n}, exc)
    BODY2
""",
    "wait": """
log(me, {n}, results(await asyncio.wait([task({k}), task({k})])))
log(me, {n}, results(await asyncio.wait([task({k})], timeout={ms} * UNIT)))
log(me, {n}, results(await asyncio.wait([task({k}), F0])))
---
aws = [asyncio.create_task({sub0}), asyncio.create_task({sub1}), task({k})]
log(me, {n}, results(await asyncio.wait(aws, return_when=asyncio.FIRST_COMPLETED)))
---
aws = [asyncio.create_task({sub0}), asyncio.create_task({sub1}), task({k})]
log(me, {n}, results(await asyncio.wait(aws, return_when=asyncio.FIRST_EXCEPTION)))
---
aws = [asyncio.create_task({sub0}), task({k})]
log(me, {n}, results(await asyncio.wait(aws, timeout={ms} * UNIT)))
""",
    "as_completed": """
---
aws = [asyncio.create_task({sub0}), asyncio.create_task({sub1}), task({k})]
for aw in asyncio.as_completed(aws):
    log(me, {n}, await aw)
---
aws = [asyncio.create_task({sub0}), task({k})]
for aw in asyncio.as_completed(aws, timeout={ms} * UNIT):
    log(me, {n}, await aw)
""",
    "async as_completed": """
---
aws = [asyncio.create_task({sub0}), task({k})]
async for aw in asyncio.as_completed(aws, timeout={ms} * UNIT):
    log(me, {n}, await aw)
""",
    "shield": """
log(me, {n}, await asyncio.shield(task({k})))
log(me, {n}, await asyncio.shield(F0))
---
log(me, {n}, await asyncio.shield({sub0}))
---
log(me, {n}, await asyncio.shield(asyncio.create_task({sub0})))
""",
    "gather": """
---
log(me, {n}, await gather({sub0}, {sub1}))
---
log(me, {n}, await gather({sub0}, {sub1}, return_exceptions=True))
---
own = asyncio.create_task({sub0})
log(me, {n}, await gather({sub1}, own, own))
""",
    "wait_for": """
log(me, {n}, await wait_for(task({k}), {ms}))
---
log(me, {n}, await wait_for({sub0}, {ms}))
---
log(me, {n}, await wait_for({sub0}, {ms}))
---
log(me, {n}, await wait_for({sub0}, None))
""",
}

# Kinds that CPython has, or has as 3.13 has it, since this version.
_SINCE = {
    "barrier": (3, 11),
    "group": (3, 11),
    "timeout": (3, 11),
    "async as_completed": (3, 13),
    "condition": (3, 13),
    "shutdown": (3, 13),
}

_HEAD = """\
E0 = asyncio.Event()
F0 = asyncio.Future()
F1 = asyncio.Future()
L0 = asyncio.Lock()
S0 = asyncio.Semaphore({s})
S1 = asyncio.BoundedSemaphore({s})
C0 = asyncio.Condition()
B0 = asyncio.Barrier(2)
Q0 = asyncio.Queue({q})
Q1 = asyncio.PriorityQueue({q})
Q2 = asyncio.LifoQueue({q})
"""


def _statements(text):
    lines, *blocks = ("\n" + text.strip("\n")).split("\n---\n")
    return lines.split("\n")[1:] + blocks


class _Generator:
    def __init__(self, seed, missing):
        self.random = random.Random(seed)
        kinds = [kind for kind in _KINDS if kind not in missing]
        self.statements = _statements(_PLAIN)
        for kind in self.random.sample(kinds, min(self.random.randint(1, 4), len(kinds))):
            self.statements += 2 * _statements(_KINDS[kind])
        self.tasks = self.random.randint(2, 5)
        self.n = 0

    def program(self):
        """Return the bodies of the tasks. The first task starts the others."""
        bodies = [self.body(k, 0, [], []) for k in range(self.tasks)]
        start = [Statement(f"log(me, {k}, spawn({k}))") for k in range(1, self.tasks)]
        self.n += self.tasks
        return [tuple(start) + bodies[0], *bodies[1:]]

    def body(self, k, depth, deadlines, groups):
        count = self.random.randint(1, 5 if depth == 0 else 3)
        return tuple([self.statement(k, depth, deadlines, groups) for _ in range(count)])

    def statement(self, k, depth, deadlines, groups):
        choose = self.random.choice
        while True:
            lines = choose(self.statements)
            lacks = {
                "BODY": depth == 3,
                "{sub": depth == 3,
                "{k}": k + 1 == self.tasks,
                "{d}": not deadlines,
                "{g}": not groups,
            }
            if not any(lacking and text in lines for text, lacking in lacks.items()):
                break
        self.n += 1
        n = self.n + 100
        used = [i for i in range(3) if f"BODY{i}" in lines or f"{{sub{i}}}" in lines]
        count = 1 + max(used, default=-1)
        defs = ""
        for i in range(count):
            if f"{{sub{i}}}" in lines:
                defs += f"async def s{n}_{i}(me):\n    BODY{i}\n    return '{n}.{i}'\n"
                lines = lines.replace(f"{{sub{i}}}", f"s{n}_{i}(me + '.{n}.{i}')")
        while "{ms}" in lines:
            lines = lines.replace("{ms}", str(choose((0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 8))), 1)
        while "{k}" in lines:
            lines = lines.replace("{k}", str(self.random.randint(k + 1, self.tasks - 1)), 1)
        lines = lines.format(
            n=n,
            any=self.random.randrange(self.tasks),
            v=self.random.randrange(100),
            d=choose(deadlines) if deadlines else "",
            g=choose(groups) if groups else "",
        )
        inner = (
            k,
            depth + 1,
            deadlines + [f"d{n}"] * (f"as d{n}" in lines),
            groups + [f"g{n}"] * (f"as g{n}" in lines),
        )
        return Statement(defs + lines, tuple([self.body(*inner) for _ in range(count)]))


def generate(seed, missing=()):
    """Return a random program: (its first lines, the bodies of its tasks). missing: names of the
    kinds that are not to be in it."""
    generator = _Generator(seed, missing)
    bodies = generator.program()
    head = _HEAD.format(s=generator.random.randint(0, 2), q=generator.random.randint(0, 2))
    if "barrier" in missing:
        head = head.replace("B0 = asyncio.Barrier(2)\n", "")
    return head, bodies


def missing(version):
    """Return the kinds of statement that are not compared with a version (a tuple) of CPython."""
    return [kind for kind, since in _SINCE.items() if version < since]


def source(program):
    """Return a program's source."""
    head, bodies = program
    text = head
    for k, body in enumerate(bodies):
        text += f"\n\nasync def t{k}(me):\n" + "\n".join(_lines(body, "    "))
    return text + "\n"


def _lines(body, indent):
    if not body:
        yield indent + "pass"
    for statement in body:
        for line in statement.lines.split("\n"):
            text = line.lstrip()
            inner = indent + line[: len(line) - len(text)]
            if text.startswith("BODY"):
                yield from _lines(statement.bodies[int(text[4:])], inner)
            else:
                yield inner + text


def smaller(program):
    """Yield programs with a little less in them."""
    head, bodies = program
    for k, body in enumerate(bodies):
        for less in _less(body):
            yield head, [*bodies[:k], less, *bodies[k + 1 :]]


def _less(body):
    for i, statement in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        yield before + after
        for inner in statement.bodies:
            if inner:
                yield before + inner + after
        for j, inner in enumerate(statement.bodies):
            for less in _less(inner):
                bodies = (*statement.bodies[:j], less, *statement.bodies[j + 1 :])
                yield (*before, statement._replace(bodies=bodies), *after)
