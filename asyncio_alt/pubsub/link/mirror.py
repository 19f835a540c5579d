"""Mirror: the retained topics of both ends of a link."""

from ..compat import const, report

_KEPT = const(256)  # retained topics that are taken from the peer, at most

_FIXED = (bytes, str, int, float)  # these do not change


class Mirror:
    """Knows of which topics the latest retained payload has to be sent, and of which it is the
    peer's."""

    def __init__(self):
        # As keys: a set that finds no memory to grow crashes MicroPython.
        self.stale = {}  # topics that are to be sent; to be taken out when that is done
        self.spilt = False  # it was reported that retained messages are not kept
        self._theirs = {}  # topics of the peer's payloads
        self._known = {}  # while the link is closed: topic: payload, as it was before; else None

    def changed(self, topic):
        """A retained payload was published or forgotten at this end."""
        if self._known is None:
            self._theirs.pop(topic, None)
            self.stale[topic] = None

    def keeps(self, topic, payload):
        """The peer has sent one. Returns false if there are too many to retain it, and reports
        that once."""
        theirs = self._theirs
        if payload is None or isinstance(payload, (bytes, str)) and not payload:
            theirs.pop(topic, None)
        elif topic not in theirs:
            if len(theirs) >= _KEPT:
                if not self.spilt:
                    self.spilt = True
                    er = ValueError("the peer retains more than %d topics" % _KEPT)
                    report("A link does not retain %r, and maybe others" % topic, er)
                return False
            theirs[topic] = None
        self.stale.pop(topic, None)
        return True

    def anew(self, items):
        """The peer has started anew, and is to get all of items (topic: payload) that are not its
        own."""
        for topic in items:
            if topic not in self._theirs:
                self.stale[topic] = None

    def close(self, items):
        """From now on it does not hear of changes; there are these."""
        self._known = items

    def start(self, items):
        """It hears of them again; there are these. Those that were published or forgotten
        meanwhile are this end's, and are to be sent."""
        known = self._known
        self._known = None
        for topic in items:
            it = items[topic]
            if topic in known and known.pop(topic) is it:
                # A list, for example, may have changed and still be the same object.
                if topic in self._theirs or isinstance(it, _FIXED):
                    continue
            self.changed(topic)
        for topic in known:  # which are forgotten
            self.changed(topic)
