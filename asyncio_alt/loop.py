"""Loop: the event loop as an object, its exception handler and callbacks from threads."""

import sys

from . import core

try:
    from _thread import allocate_lock, get_ident
except ImportError:

    def get_ident():
        pass

    allocate_lock = get_ident


class Calls:
    """Callbacks that wait for the loop: put() by anybody but a hard interrupt, run() by the
    loop, at first when it starts, to tell which thread is its own. The loop never takes the
    lock, so a scheduled callback that interrupts it cannot find it taken by its own thread."""

    def __init__(self):
        self.thread = get_ident()  # the loop's
        self.near = []  # (callback, args) from the loop's own thread
        # From other threads: a chain of [callback, args, next]. The first has been called.
        self.first = self.last = [print, (), None]
        self.lock = allocate_lock()  # of the threads, to add to it

    def put(self, callback, args):
        if get_ident() != self.thread:
            link = [callback, args, None]
            with self.lock:
                self.last[2] = self.last = link
        else:
            self.near.append((callback, args))
        core.ring(b"\0")

    def run(self):
        # A callback that another one adds has its turn in the next run. Each is taken out before
        # it is called, so that those behind one that raises KeyboardInterrupt are kept.
        self.thread = get_ident()
        n = len(self.near)
        last = self.last
        while n:
            n -= 1
            call = self.near.pop(0)
            self._call(call[0], call[1])
        while self.first is not last and self.first[2]:
            self.first = self.first[2]
            self._call(self.first[0], self.first[1])

    def _call(self, callback, args):
        try:
            callback(*args)
        except Exception as er:
            core.report("Exception in callback", er)


def _new_calls():
    global _calls
    _calls = Calls()
    core.run_calls = _calls.run


_spare = {"message": None, "exception": None, "future": None}  # for a report when the heap is full


def report(message, exc, task):
    """Has the exception handler told of exc: core.report(), once this module is loaded."""
    try:
        context = {"message": message, "exception": exc, "future": task}
    except MemoryError:
        context = _spare
        if context["message"]:
            raise  # it is in use: this comes from the handler
        if isinstance(exc, MemoryError):
            exc.__traceback__ = None  # as in core.report()
        context["message"] = message
        context["exception"] = exc
        context["future"] = task
    try:
        Loop.call_exception_handler(context)
    finally:
        for key in _spare:
            _spare[key] = None


# Stock's name for the context that it gives the exception handler.
_exc_context = {"message": "Task exception wasn't retrieved", "exception": None, "future": None}


async def _stopper():
    pass


_stop_task = None


def _run(t):
    try:
        return core.run_until_complete(t)
    finally:
        core.stopped()  # if a KeyboardInterrupt has kept it from that
        if core.ender:
            new_event_loop()


class Loop:
    """The event loop. There is one: all methods are called on the class."""

    _exc_handler = None

    def create_task(coro, name=None):
        """As asyncio_alt.create_task()."""
        return core.create_task(coro, name=name)

    def run_forever():
        """Runs tasks until stop() is called."""
        global _stop_task
        if core.running:
            raise RuntimeError("the event loop is already running")
        if not core.claimed:
            core.claim()
        _stop_task = core.Task(_stopper(), core.__dict__)
        _run(_stop_task)

    def run_until_complete(aw):
        """Runs tasks until aw (a coroutine or Task) has ended; returns its result or raises its
        exception. The tasks that are left go on in the next run."""
        if core.running:
            raise RuntimeError("the event loop is already running")
        return _run(core._promote_to_task(aw))

    def stop():
        """Ends run_forever() after the tasks that are ready now."""
        global _stop_task
        if _stop_task is not None:
            core.wake(_stop_task)
            _stop_task = None

    def close():
        """Forgets all tasks. RuntimeError if the loop runs."""
        if core.running:
            raise RuntimeError("cannot close a running event loop")
        new_event_loop()

    def call_soon_threadsafe(callback, *args):
        """Has the loop call callback(*args) between two tasks. May be called from another
        thread and from a micropython.schedule callback, not from a hard interrupt. An exception
        that it raises goes to the exception handler."""
        if not callable(callback):
            raise TypeError("callback must be callable")
        _calls.put(callback, args)

    def create_future():
        """Makes a Future."""
        from .future import Future

        return Future()

    def time():
        """The moment (timer.Time) that it is: time + s and time - s are others, of seconds."""
        from .timer import time

        return time()

    def call_soon(callback, *args):
        """Has the loop call callback(*args) behind all that is ready now; returns a Handle to
        cancel(). May be called from tasks and micropython.schedule callbacks. An exception that
        callback raises goes to the exception handler; so with call_later() and call_at()."""
        from .timer import Handle

        return Handle(core.ticks(), callback, args)

    def call_later(delay, callback, *args):
        """As call_soon(), after delay seconds (int or float, less than 6 days)."""
        from .timer import Handle, ticks_in

        return Handle(ticks_in(delay, 1000, "call_later: delay"), callback, args)

    def call_at(when, callback, *args):
        """As call_soon(), at the moment when (Loop.time() + s)."""
        from .timer import Handle, ticks_of

        return Handle(ticks_of(when, "call_at: when"), callback, args)

    def getaddrinfo(host, port, *, family=0, type=0, proto=0, flags=0):  # async
        """The addresses of a host (str): a list as of socket.getaddrinfo(), IPv4 first. Other
        tasks go on while a name server is asked; set_nameserver() says how one is known. type:
        socket.SOCK_STREAM or the like, as family and proto 0 for any; flags: 0. OSError with
        errno -2 if there is no address, -3 if no server answers (in 10 s), -4 if the answer is
        too long; ValueError for a name that cannot be."""
        from .names import getaddrinfo

        return getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)

    def create_datagram_endpoint(protocol_factory, *args, **kwargs):  # async
        """Opens a UDP socket: see datagram.create_datagram_endpoint()."""
        from .datagram import create_datagram_endpoint

        return create_datagram_endpoint(protocol_factory, *args, **kwargs)

    def create_connection(protocol_factory, *args, **kwargs):  # async
        """As asyncio_alt.create_connection()."""
        from .protocol import create_connection

        return create_connection(protocol_factory, *args, **kwargs)

    def create_server(protocol_factory, *args, **kwargs):  # async
        """As asyncio_alt.create_server()."""
        from .protocol import create_server

        return create_server(protocol_factory, *args, **kwargs)

    def add_reader(stream, callback, *args):
        """Has the loop call callback(*args) in its turn whenever the stream (any object that can
        be polled) can be read, until remove_reader(). A second call puts a new callback in place
        of the old one. RuntimeError if a task waits to read it."""
        from .polled import add

        add(False, stream, callback, args)

    def add_writer(stream, callback, *args):
        """As add_reader(), whenever the stream can be written."""
        from .polled import add

        add(True, stream, callback, args)

    def remove_reader(stream):
        """Ends add_reader(). Returns whether (bool) there was a callback."""
        from .polled import remove

        return remove(False, stream)

    def remove_writer(stream):
        """Ends add_writer(). Returns whether (bool) there was a callback."""
        from .polled import remove

        return remove(True, stream)

    # Of these a task that waits for the same makes a RuntimeError. They switch the socket to
    # non-blocking: MicroPython does not tell whether it is.

    def sock_recv(sock, nbytes):  # async
        """Receives the available bytes, nbytes at most; waits for at least one; b"" at the end."""
        from .sockets import sock_recv

        return sock_recv(sock, nbytes)

    def sock_recv_into(sock, buf):  # async
        """As sock_recv() into buf; returns how many bytes (int)."""
        from .sockets import sock_recv_into

        return sock_recv_into(sock, buf)

    def sock_recvfrom(sock, bufsize):  # async
        """Receives a datagram, bufsize bytes at most; returns that and the sender's address."""
        from .sockets import sock_recvfrom

        return sock_recvfrom(sock, bufsize)

    def sock_recvfrom_into(sock, buf, nbytes=0):  # async
        """As sock_recvfrom() into buf, nbytes at most (0: its size); returns how many bytes (int)
        and the address."""
        from .sockets import sock_recvfrom_into

        return sock_recvfrom_into(sock, buf, nbytes)

    def sock_sendall(sock, data):  # async
        """Sends all of data (bytes-like)."""
        from .sockets import sock_sendall

        return sock_sendall(sock, data)

    def sock_sendto(sock, data, address):  # async
        """Sends data (bytes-like) as a datagram to address; returns how many bytes (int)."""
        from .sockets import sock_sendto

        return sock_sendto(sock, data, address)

    def sock_accept(sock):  # async
        """Accepts a connection; returns its socket, which is non-blocking, and its address."""
        from .sockets import sock_accept

        return sock_accept(sock)

    def sock_connect(sock, address):  # async
        """Connects to address. OSError if that fails."""
        from .sockets import sock_connect

        return sock_connect(sock, address)

    def set_exception_handler(handler):
        """handler: called as handler(Loop, context), None for the default one."""
        if handler is not None and not callable(handler):
            raise TypeError("handler must be callable or None")
        Loop._exc_handler = handler

    def get_exception_handler():
        """The handler that set_exception_handler() has set, or None."""
        return Loop._exc_handler

    def default_exception_handler(loop, context):
        """Prints the message, the task and the traceback to sys.stderr."""
        core.show(context["message"], context["exception"], context.get("future"))

    def call_exception_handler(context):
        """context: a dict with message (str), exception, future (the Task or None)."""
        if Loop._exc_handler:
            try:
                return Loop._exc_handler(Loop, context)
            except Exception as er:
                print("Exception in the exception handler", file=sys.stderr)
                sys.print_exception(er, sys.stderr)
        Loop.default_exception_handler(Loop, context)


# The arguments are for programs written for uasyncio.
def get_event_loop(runq_len=0, waitq_len=0):
    """The event loop."""
    return Loop


def get_running_loop():
    """The event loop. RuntimeError outside a task or callback."""
    if not core.running:
        core.no_loop(None)
    return Loop


def all_tasks():
    """Set of the tasks that have not ended."""
    return set(core.tasks)


def get_name(task):
    """The name of a task: a str, or None if it has none or has ended."""
    name = core.tasks.get(task)
    return name.name if callable(name) else name


def set_name(task, name):
    """Gives a task that has not ended a name, which str() makes a str."""
    old = core.tasks.get(task)
    if callable(old):
        old.name = str(name)
    elif task in core.tasks:
        core.tasks[task] = str(name)


def new_event_loop():
    """The event loop, with all tasks forgotten. Inside a task: the running loop, which ends when
    that task has ended, as if it were the main task; then the other tasks are forgotten."""
    if core.running:
        core.ender = core.cur_task
    else:
        core.reset()
        _new_calls()
    return Loop


_new_calls()
core.tell = report
