"""Which module has which of the package's names: each is loaded on first use."""

# A module a line, then its names. One text takes less heap than tuples.
_NAMES = """\
core SingletonGenerator Task TaskQueue TimeoutError current_task run_until_complete select ticks
core ticks_add ticks_diff
claim install
datagram DatagramProtocol DatagramTransport join_multicast
ending end_limit
event Event ThreadSafeFlag
funcs gather wait_for wait_for_ms
future ALL_COMPLETED FIRST_COMPLETED FIRST_EXCEPTION Future InvalidStateError
future as_completed ensure_future iscoroutine isfuture shield wait
group BaseExceptionGroup ExceptionGroup TaskGroup
idle LightSleep power_mode set_idle_hook stay_awake
ioqueue IOQueue POLLPRI priority_window roundrobin
irq Interrupt
lock Lock
loop Loop all_tasks get_event_loop get_name get_running_loop new_event_loop set_name
loop _exc_context
names set_nameserver
polled readable writable
protocol BufferedProtocol Protocol Transport connect_stream create_connection create_server
pubsub pubsub
queue Queue QueueEmpty QueueFull QueueShutDown
queues LifoQueue PriorityQueue
runner Runner
stream StreamReader StreamWriter open_connection start_server
streams IncompleteReadError LimitOverrunError
sync Barrier BoundedSemaphore BrokenBarrierError Condition Semaphore
threads to_thread
timeouts Timeout timeout timeout_at timeout_ms
unix open_unix_connection start_unix_server"""


def load(package, name, names=_NAMES):
    """Returns the object called name (str) of a package (its globals, a dict), and stores it
    there. AttributeError if no line of names has it."""
    names = names.split("\n")
    if name == "__all__" and "core" in package:
        # The names that `import *` takes of the package and of its core: those that both have.
        both = [name for name in package if name[0] != "_" and name in package["core"].__dict__]
        return [name for line in names[:2] for name in line.split(" ")[1:]] + both
    for line in names:
        line = line.split(" ")
        if name in line:
            # One that is there may have been given other functions by a program. Not by a relative
            # import: MicroPython takes that as relative to this module.
            value = package.get(line[0]) or __import__(
                package["__name__"] + "." + line[0], None, None, (name,)
            )
            if name != line[0]:
                value = getattr(value, name)
            package[name] = value
            return value
    raise AttributeError(name)
