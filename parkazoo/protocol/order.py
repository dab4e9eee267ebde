"""Order in one client: an operation sees every operation issued before it, asynchronous ones too.

One ensemble answers in the order in which it was asked, so a one-request operation only has to be sent in order.
But a later operation can overtake one that takes, or may take, several requests. So operations claim what they
touch, and wait for earlier claims that conflict with theirs.

A claim is a key and a mode. Two keys belong to a path: the znode itself, and its list of children.

    key                 mode      of an operation that                        conflicts with
    node(path)          READ      needs it to be there, reads its data        WRITE
                        TRUST     remembers its mirror, and may be wrong      WRITE
                        WRITE     creates, deletes or changes it              READ TRUST WRITE
    children(path)      COUNT     reads their number, for a stat              LIST ADD REMOVE OWN
                        LIST      reads the list                              COUNT ADD REMOVE OWN
                        ADD       creates a child                             COUNT LIST ADD OWN
                        REMOVE    deletes a child                             COUNT LIST OWN
                        OWN       makes or deletes the place they live in     COUNT LIST ADD REMOVE OWN

ADD conflicts with ADD because sequence numbers follow the order of the creates. LIST conflicts with COUNT because
kazoo's TreeCache asks for a znode's data, then for its children, and expects the answers in that order. Claims on
one key are granted first come, first served. An operation starts when all of its claims are granted. Operations
enter with all their claims at once, so the queues agree on their order, and no operations wait in a circle.

A create with a sequence number claims node(prefix), because it does not know its znode's name yet. An operation
that names a znode ending in ten digits may mean what an earlier create makes, so it waits until that create is
sent.

A create or listing that trusts what the client remembers of a directory takes one request if that is right, and
more if it is wrong. So it holds TRUST until its answer. TRUST is only counted, because many operations hold it at
a time. So are the claims of a read where pins decide: it takes no turn, unless a key has a queue.

plans.py says which claims an operation has, and which outlast its first request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

READ, WRITE, COUNT, LIST, ADD, REMOVE, OWN, TRUST = (1 << bit for bit in range(8))
CONFLICTS = {
    READ: WRITE,
    TRUST: WRITE,
    WRITE: READ | TRUST | WRITE,
    COUNT: LIST | ADD | REMOVE | OWN,
    LIST: COUNT | ADD | REMOVE | OWN,
    ADD: COUNT | LIST | ADD | OWN,
    REMOVE: COUNT | LIST | OWN,
    OWN: COUNT | LIST | ADD | REMOVE | OWN,
}
SEQUENCE_DIGITS = 10
OF_NODE = READ, WRITE
Claims = Mapping[str, int]


def node(path: str) -> str:
    return path


def children(path: str) -> str:
    return path + "/"  # no path ends so: normalised


def merge(claims: Iterable[tuple[str, int]]) -> dict[str, int]:
    """One claim for each key: two different modes make the exclusive one."""
    merged: dict[str, int] = {}
    for key, mode in claims:
        if merged.setdefault(key, mode) != mode:
            merged[key] = WRITE if mode in (READ, TRUST, WRITE) else OWN
    return merged


def with_prefixes(claims: Claims) -> Claims:
    """The claims, and those that a create with a sequence number has if it makes one of these znodes."""
    prefixes = [key[:-SEQUENCE_DIGITS] for key in claims if key[-SEQUENCE_DIGITS:].isdecimal()]
    if not prefixes:
        return claims
    # a name of digits alone has the children's key as its prefix, which such a create owns
    of_node = TRUST if is_trust(claims) else READ
    also = [(prefix, LIST if prefix.endswith("/") else of_node) for prefix in prefixes]
    return merge([*claims.items(), *also])


def is_trust(claims: Claims) -> bool:
    """Whether nothing is claimed but TRUST."""
    return {*claims.values()} <= {TRUST}


def _lasting(mode: int, lasting: int) -> int:
    """What is left of a claim: all of it, or TRUST."""
    return TRUST if lasting == TRUST else mode


class Turn:
    """An operation's place in the queues."""

    __slots__ = ("blocked", "claims")

    def __init__(self, claims: Claims) -> None:
        self.claims = dict(claims)
        self.blocked = 0


TurnT = TypeVar("TurnT", bound=Turn)


class _Line(Generic[TurnT]):
    """The queue for one key. Invariant: ``modes`` has the bits whose count in ``held`` is positive."""

    __slots__ = ("held", "modes", "waiting")

    def __init__(self, mode: int, count: int = 1) -> None:
        self.held = {mode: count}
        self.modes = mode
        self.waiting: deque[tuple[TurnT, int]] | None = None  # until a turn has to wait

    def is_free(self, mode: int) -> bool:
        """Whether a claim is granted at once."""
        return not self.waiting and not self.modes & CONFLICTS[mode]

    def wait(self, turn: TurnT, mode: int) -> None:
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append((turn, mode))

    def grant(self, mode: int, count: int = 1) -> None:
        self.held[mode] = self.held.get(mode, 0) + count
        self.modes |= mode


class Order(Generic[TurnT]):
    """The queues of one client. Not thread-safe: the driver holds a lock around each call.

    An exception of a signal handler may end a call at any point. Until all queues are given up, other threads give
    up their claims: so each call counts a claim in its new place before it drops it from the old one.

    :ivar lines: the queues. A successor has the same.
    :ivar under_way: how many operations that have entered here hold something: a claim, or :meth:`hold`.
    :ivar failure: what they end with at their next request; None as long as they may send.
    """

    failure: type[Exception] | None = None

    def __init__(self) -> None:
        self.under_way = 0
        self._blocked = [0]
        self.lines: dict[str, _Line[TurnT]] = {}
        self._counts: dict[str, int] = {}  # claims without a turn, to COUNT or READ, on keys that have no line
        self._trusts: dict[str, int] = {}  # claims to TRUST, on keys that no operation wants to write

    def __bool__(self) -> bool:
        """Whether anything is claimed at all."""
        return bool(self.lines or self._counts or self._trusts)

    @property
    def blocked(self) -> int:
        """How many turns have entered and not started."""
        return self._blocked[0]

    def successor(self) -> Order[TurnT]:
        """The same queues, for operations that come later and are counted apart."""
        later = Order[TurnT]()
        later._blocked, later.lines = self._blocked, self.lines
        later._counts, later._trusts = self._counts, self._trusts
        return later

    def hold(self) -> None:
        """An operation without a claim begins."""
        self.under_way += 1

    def let_go(self) -> None:
        """It has ended."""
        self.under_way -= 1

    def claim_node(self, path: str, mode: int) -> bool:
        """Claim what a get or set needs, without a turn; False if that is not granted at once.

        :param mode: READ or WRITE on the node, and COUNT on its children, until :meth:`release_node`; or COUNT
            alone; or 0: nothing is held.
        """
        lines, counts, key = self.lines, self._counts, path + "/"  # as children() says
        if (lines or mode in OF_NODE) and (path in lines or key in lines or path[-SEQUENCE_DIGITS:].isdecimal()):
            return False  # perhaps: let it enter with a turn; a name with a number may claim another key besides
        if mode == READ:
            counts[path] = counts.get(path, 0) + 1
        elif mode == WRITE:
            if path in counts or path in self._trusts:
                return False
            lines[path] = _Line(WRITE)
        if mode:
            counts[key] = counts.get(key, 0) + 1
            self.under_way += 1
        return True

    def release_node(self, path: str, mode: int) -> list[TurnT]:
        """Give up what :meth:`claim_node` holds; returns the turns that can start now."""
        self.under_way -= 1
        counts, key = self._counts, path + "/"
        if (count := counts.get(key, 0)) > 1:
            counts[key] = count - 1
        elif count:
            del counts[key]
        ready = [] if count else self._release(key, COUNT)  # it has got a line since then
        if mode != COUNT:
            if (count := counts.get(path, 0)) > 1:
                counts[path] = count - 1
            elif count:
                del counts[path]
            else:
                ready += self._release(path, mode)
        return ready

    def claim_trust(self, turn: TurnT, path: str, lasting: Claims) -> bool:
        """Start a turn of one path that needs no more than TRUST; False if it has to :meth:`enter`, perhaps."""
        if self.lines or self._counts or path in self._trusts or not is_trust(lasting):
            return False
        turn.claims = dict(lasting)
        for key in lasting:
            self._trusts[key] = self._trusts.get(key, 0) + 1
        self.under_way += 1
        return True

    def enter(self, turn: TurnT, lasting: Claims) -> bool:
        """Queue up for every claim of `turn`; True if all are granted at once.

        :param lasting: what the turn still needs once it has started. If it may start at once, it keeps only these
            claims: later claims of the same thread find it started.
        """
        lines, counts = self.lines, self._counts
        if counts:
            for key in turn.claims:
                if key in counts:
                    is_list = key[-1] == "/" != key  # else it is a znode, perhaps the root
                    lines[key] = _Line(COUNT if is_list else READ, counts[key])
                    del counts[key]
        if self._trusts:
            for key, mode in turn.claims.items():
                if mode == WRITE and (count := self._trusts.get(key, 0)):
                    lines.setdefault(key, _Line(TRUST, 0)).grant(TRUST, count)
                    del self._trusts[key]
        for key, mode in turn.claims.items():
            line = lines.get(key)
            if line is not None and not line.is_free(mode):
                break
        else:
            if lasting is not turn.claims:
                turn.claims = {
                    key: _lasting(mode, lasting[key]) for key, mode in turn.claims.items() if key in lasting
                }
            for key, mode in turn.claims.items():
                self._grant(key, mode)
            self.under_way += bool(turn.claims)
            return True
        turn.blocked = 1  # until it is in all queues
        for key, mode in turn.claims.items():
            line = lines.get(key)
            if line is None:
                lines[key] = _Line(mode)
            elif line.is_free(mode):
                line.grant(mode)
            else:
                turn.blocked += 1
                line.wait(turn, mode)
        self.under_way += 1
        self._blocked[0] += 1
        turn.blocked -= 1
        return False

    def waiting(self) -> list[TurnT]:
        """The turns that have not started."""
        return list({id(turn): turn for line in self.lines.values() for turn, _ in line.waiting or ()}.values())

    def leave(self, turn: TurnT, lasting: Claims) -> list[TurnT]:
        """Give up the claims of a started turn, but for `lasting`; returns the turns that can start now."""
        ready: list[TurnT] = []
        if not turn.claims:  # it has given up all of them meanwhile
            return ready
        for key, mode in list(turn.claims.items()):
            if key not in lasting:
                del turn.claims[key]
            elif (kept := _lasting(mode, lasting[key])) != mode:
                self._grant(key, kept)
                turn.claims[key] = kept
            else:
                continue
            ready += self._release(key, mode)
        self.under_way -= not turn.claims
        return ready

    def _grant(self, key: str, mode: int) -> None:
        line = self.lines.get(key)
        if line is not None:
            line.grant(mode)
        elif mode == TRUST:
            self._trusts[key] = self._trusts.get(key, 0) + 1
        else:
            self.lines[key] = _Line(mode)

    def _release(self, key: str, mode: int) -> list[TurnT]:
        ready: list[TurnT] = []
        line = self.lines.get(key)
        if mode == TRUST and (line is None or not line.modes & TRUST):
            if (count := self._trusts[key]) > 1:
                self._trusts[key] = count - 1
            else:
                del self._trusts[key]
            return ready
        assert line is not None
        line.held[mode] -= 1
        if not line.held[mode]:
            line.modes &= ~mode
        while line.waiting and not line.modes & CONFLICTS[line.waiting[0][1]]:
            first, granted = line.waiting.popleft()
            line.grant(granted)
            first.blocked -= 1
            if not first.blocked:
                self._blocked[0] -= 1
                ready.append(first)
        if not line.modes:  # no turn holds it, so none waits either
            del self.lines[key]
        return ready
