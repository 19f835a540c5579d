"""Names of hosts: asked of a name server by UDP, while other tasks go on."""

from micropython import const

from . import core
from .event import Event
from .funcs import wait_for_ms

_A = const(1)
_CNAME = const(5)
_AAAA = const(28)
_ROUNDS = const(3)  # so often each server is asked
_WAIT_MS = const(1000)  # for an answer, in the first round; each round waits twice as long
_TOTAL_MS = const(10000)  # for all that one question takes
_SERVERS = const(3)  # that are asked
_HOPS = const(8)  # from alias to alias
_RECORDS = const(16)  # that are read of an answer
_CACHE = const(16)  # answers that are kept
_MAX_S = const(3600)  # how long an answer is kept
_NEGATIVE_S = const(5)  # and how long one that there is no address

_NO_NAME = const(-2)  # CPython's EAI_NONAME, EAI_AGAIN, EAI_FAIL
_AGAIN = const(-3)
_FAIL = const(-4)

_chosen = ()  # by set_nameserver()
_cache = {}  # question -> (ticks when it is over, addresses)
_asking = {}  # question -> _Question


# DNS. A name is bytes here: of each label its length and letters, lower case; at last a zero.


def encode(host):
    """The name of a host (str). ValueError if there is no such name."""
    name = b""
    for label in (host[:-1] if host[-1:] == "." else host).split("."):
        data = label.encode().lower()
        if not 0 < len(data) < 64 or len(data) != len(label):
            raise ValueError("getaddrinfo: host must have labels of 1 to 63 ASCII letters")
        name += bytes((len(data),)) + data
    if len(name) > 254:
        raise ValueError("getaddrinfo: host is too long")
    return name + b"\0"


def decode(packet, i):
    """The name at packet[i], and the index behind it. ValueError or IndexError for a bad one."""
    name = b""
    end = 0
    start = i  # of this part; the next one is ahead of it, so that there is no loop
    jumps = 0
    while True:
        n = packet[i]
        if n < 64:
            name += packet[i : i + 1 + n]
            i += 1 + n
            if len(name) > 255:
                raise ValueError
            if not n:
                return name.lower(), end or i
        else:
            jumps += 1
            end = end or i + 2
            i = (n & 63) << 8 | packet[i + 1]
            if n < 192 or i >= start or jumps > _RECORDS:
                raise ValueError
            start = i


def answer(packet, ident, question):
    """Reads a packet as the answer to a question (bytes) with the identity ident (two bytes).
    Returns the final name, its addresses (list of bytes, may be empty) and for how many seconds
    that holds. ValueError or IndexError if it is no answer to that, OSError if the server could
    not tell."""
    i = 12 + len(question)
    if (
        packet[:2] != ident
        or packet[2] & 0xF8 != 0x80  # an answer
        or packet[4:6] != b"\0\1"
        or packet[12:i].lower() != question
    ):
        raise ValueError
    name = question[:-4]
    code = packet[3] & 15
    if code == 3:
        return name, (), _NEGATIVE_S
    if code:
        raise OSError(_AGAIN, "getaddrinfo: the name server failed")
    kind = question[-3]
    found = []
    ttl = _MAX_S
    try:
        # An alias stands ahead of its target.
        for _ in range(min(packet[6] << 8 | packet[7], _RECORDS)):
            owner, i = decode(packet, i)
            size = packet[i + 8] << 8 | packet[i + 9]
            data = i + 10
            if data + size > len(packet):
                raise IndexError
            if owner == name and packet[i] == 0 and packet[i + 2 : i + 4] == b"\0\1":
                if packet[i + 1] == _CNAME:
                    name = decode(packet, data)[0]
                elif packet[i + 1] == kind and size == (4 if kind == _A else 16):
                    found.append(packet[data : data + size])
                # One with the highest bit is to be taken as 0.
                ttl = min(
                    ttl,
                    0 if packet[i + 4] > 127 else int.from_bytes(packet[i + 4 : i + 8], "big"),
                )
            i = data + size
    except IndexError:
        if not packet[2] & 2:
            raise
    if not found:
        if packet[2] & 2:
            raise OSError(_FAIL, "getaddrinfo: the answer is too long for UDP")
        ttl = min(ttl, _NEGATIVE_S)
        if packet[8] | packet[9]:
            name = question[:-4]  # an authority says that there are no addresses
    return name, found, ttl


def text(address):
    """An address (4 or 16 bytes) as a str."""
    if len(address) == 4:
        return "%d.%d.%d.%d" % tuple(address)
    return ":".join(["%x" % (address[i] << 8 | address[i + 1]) for i in range(0, 16, 2)])


# The servers


def set_nameserver(address, port=53):
    """Sets which name server is asked, in place of the one that the port knows. address: numeric
    (str), or several of them in a list or tuple, of which three are asked; None for the one that
    the port knows. Answers that were kept are forgotten."""
    global _chosen, _cache, _asking
    addresses = [address] if isinstance(address, str) else list(address or ())
    for a in addresses:
        if not isinstance(a, str):
            raise TypeError("set_nameserver: address must be a str")
        if not (":" in a or _digits(a) and a.count(".") == 3):
            raise ValueError("set_nameserver: address must be numeric")
    if not (isinstance(port, int) and 0 < port < 65536):
        raise ValueError("set_nameserver: port must be 1 to 65535")
    _chosen = [(a, port) for a in addresses[:_SERVERS]]
    _cache = {}
    _asking = {}


def _servers():
    if _chosen:
        return _chosen
    found = []
    try:
        network = __import__("network")  # not on a PC
    except ImportError:
        try:
            with open("/etc/resolv.conf") as f:
                for line in f:
                    words = line.split()
                    if words[:1] == ["nameserver"]:
                        found += words[1:2]
        except OSError:
            pass
    else:
        try:
            if hasattr(network, "ipconfig"):
                found.append(network.ipconfig("dns"))
            else:
                found.append(network.WLAN(network.STA_IF).ifconfig()[3])
        except Exception:
            pass  # there is no such interface
    return [(a, 53) for a in found if a and a != "0.0.0.0"][:_SERVERS]


# A question


def _random():
    # Four bytes that others cannot guess.
    try:
        from os import urandom
    except ImportError:
        from random import getrandbits

        return getrandbits(32).to_bytes(4, "big")
    return urandom(4)


def _received(s, ident, question):  # async
    while True:
        yield core._io_queue.queue_read(s)
        try:
            return answer(s.recv(512), ident, question)
        except OSError as er:
            if er.errno != 11:  # EAGAIN
                raise
        except (ValueError, IndexError):
            pass  # somebody else's


async def _try(server, question, ms):
    import socket

    address = socket.getaddrinfo(server[0], server[1])[0][-1]
    v6 = ":" in server[0]
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        s.setblocking(False)
        for left in range(7, -1, -1):
            r = _random()
            port = 0x8000 | r[2] << 8 | r[3]  # lwIP's own can be guessed
            try:
                s.bind(socket.getaddrinfo("::" if v6 else "0.0.0.0", port)[0][-1])
                break
            except OSError:
                if not left:
                    raise
        s.connect(address)  # from now on it takes nothing of others
        s.send(r[:2] + b"\1\0\0\1\0\0\0\0\0\0" + question)
        return await wait_for_ms(_received(s, r[:2], question), ms)
    finally:
        s.close()


async def _query(servers, question, end, rounds):
    error = OSError(_AGAIN, "getaddrinfo: no name server answers")
    wait = _WAIT_MS
    for _ in range(rounds):
        for server in servers:
            left = core.ticks_diff(end, core.ticks())
            if left <= 0:
                raise error
            try:
                return await _try(server, question, min(wait, left))
            except core.TimeoutError:
                pass
            except OSError as er:
                error = er
        wait *= 2
    raise error


class _Question(Event):
    # Tasks that ask the same while the first one waits for the answer wait for this.

    end = None  # the addresses, or the OSError
    task = None  # which asks


async def _ask(servers, name, kind, rounds):
    cache = _cache
    asking = _asking
    tail = bytes((0, kind, 0, 1))
    key = name + tail
    while True:
        now = core.ticks()
        for k in list(cache):
            # When the clock has gone round, an old one may seem to be over in days.
            if not 0 < core.ticks_diff(cache[k][0], now) <= _MAX_S * 1000:
                del cache[k]
        if key in cache:
            return cache[key][1]
        other = asking.get(key)
        if not other or other.task not in core.tasks:  # a run() that was given up has left it
            break
        await other.wait()
        if isinstance(other.end, OSError):
            raise other.end
        if other.end is not None:
            return other.end
    asking[key] = me = _Question()
    me.task = core.current_task()
    try:
        end = core.ticks_add(now, _TOTAL_MS)
        ttl = _MAX_S
        for _ in range(_HOPS):
            asked = name
            name, found, s = await _query(servers, asked + tail, end, rounds)
            ttl = min(ttl, s)
            if found or name == asked:
                break
        me.end = found
    except OSError as er:
        me.end = er
        raise
    finally:
        if asking.get(key) is me:
            del asking[key]
        me.set()
    if ttl:
        now = core.ticks()
        if len(cache) >= _CACHE:
            cache.pop(min(cache, key=lambda k: core.ticks_diff(cache[k][0], now)))
        cache[key] = core.ticks_add(now, ttl * 1000), found
    return found


# For other modules


def _digits(host):
    return host.replace(".", "").isdigit()


def _in_hosts(name):
    # The addresses in /etc/hosts, if that file exists.
    try:
        with open("/etc/hosts") as f:
            return [
                words[0]
                for words in [line.split("#")[0].lower().split() for line in f]
                if name in words[1:]
            ]
    except OSError:
        return ()


async def numeric(host, family=0, first=True):
    """The numeric addresses (list of str) of a host; first: one is enough. Where no name server is
    known, the host itself, for the port's own getaddrinfo()."""
    import socket

    if not isinstance(host, str):
        raise TypeError("getaddrinfo: host must be a str")
    if ":" in host or _digits(host):
        return [host]
    name = encode(host)
    v6 = getattr(socket, "AF_INET6", None)
    plain = host.lower()
    if plain[-1:] == ".":
        plain = plain[:-1]
    local = ("127.0.0.1", "::1") if plain == "localhost" else _in_hosts(plain)
    local = [a for a in local if not family or (":" in a) == (family == v6)]
    if local:
        return local if v6 else local[:1]
    servers = _servers()
    # Others than name servers answer for .local; a system adds its domain to a single word.
    if not servers or plain.endswith(".local") or "." not in host and servers is not _chosen:
        return [host]
    found = []
    for each, kind in ((socket.AF_INET, _A), (v6, _AAAA)):
        if each is not None and family in (0, each) and not (first and found):
            try:
                found += await _ask(servers, name, kind, 1 if found else _ROUNDS)
            except OSError:
                if not found:
                    raise
    if not found:
        raise OSError(_NO_NAME, "getaddrinfo: no address of " + host)
    return [text(a) for a in found]


async def getaddrinfo(host, port, *, family=0, type=0, proto=0, flags=0):
    """As Loop.getaddrinfo()."""
    import socket

    if isinstance(port, int) and not 0 <= port <= 65535:
        raise ValueError("getaddrinfo: port must be 0 to 65535")
    if flags:
        raise ValueError("getaddrinfo: flags must be 0")
    if family not in (0, socket.AF_INET, getattr(socket, "AF_INET6", 0)):
        raise ValueError("getaddrinfo: family must be 0, AF_INET or AF_INET6")
    found = []
    for a in await numeric(host, family, False):
        for info in socket.getaddrinfo(a, port, family, type):
            if proto in (0, info[2]):
                found.append(info)
    if not found:
        raise OSError(_NO_NAME, "getaddrinfo: no address of " + host)
    return found
