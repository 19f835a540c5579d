"""The two functions of the trace that run in each pass of the loop, as machine code if possible.

run() takes the place of the task queue's pop, poll() of the poller's ipoll. `ring` is the address
of trace.py's ring, whose places it describes. A function that has more than five arguments and
variables from outside would allocate at each call."""

_SOURCE = """
@micropython.viper
def address(ring) -> int:
    return int(ptr32(ring))

def make_run(pop, last, ring, objs, ticks_us):
    @micropython.viper
    def run() -> object:
        nonlocal last
        p = ptr32(int(ring))
        i = p[0]
        if i == p[3]:
            return pop()
        now = int(ticks_us()) & 0x3FFFFFFF
        if now - p[4] > p[5]:
            objs[p[3]](now - p[4])
        p[4] = now
        objs[p[1]] = last.data
        p[1] = i + 1
        last = pop()
        objs[i] = last
        p[8 + i] = now
        p[9 + i] = int(last.ph_key) & 0x3FFFFFFF
        i += 2
        if i == p[3]:
            i = 0
            p[2] += 1
        p[0] = i
        return last
    return run

def make_poll(ipoll, ring, objs, ticks_us):
    @micropython.viper
    def poll(dt) -> object:
        p = ptr32(int(ring))
        now = int(ticks_us()) & 0x3FFFFFFF
        if now - p[4] > p[5]:
            objs[p[3]](now - p[4])
        result = ipoll(dt)
        i = p[0]
        if i == p[3]:
            return result
        p[9 + i] = now
        now = int(ticks_us()) & 0x3FFFFFFF
        p[8 + i] = now
        p[4] = now
        if p[1] < p[3]:
            objs[p[1]] = objs[p[1] - 1].data
            p[1] = p[3] + 1
        objs[i] = None
        objs[i + 1] = dt
        i += 2
        if i == p[3]:
            i = 0
            p[2] += 1
        p[0] = i
        return result
    return poll
"""


def makers():
    """Returns a dict of the functions that _SOURCE defines: they make run() and poll()."""
    names = {}
    try:
        exec(_SOURCE, names)
    except SyntaxError:  # this port has no machine code
        source = _SOURCE
        for word, other in (
            ("@micropython.viper", ""),
            ("ptr32(int(ring))", "ring"),
            ("int(ptr32(ring))", "ring"),
            ("int(", "("),
        ):
            source = source.replace(word, other)
        exec(source, names)
    return names
