"""Where all is between two moves: servers' sessions, copies of the map, clients; and the moves."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar

from parkazoo.protocol.epochs import Form
from tests.explore.model import Model
from tests.explore.sessions.client import Input, Port, Tell
from tests.explore.world import Ended, Told
from tests.explore.znodes import Request, Who

KINDS = {
    "c": "connects to",
    "s": "is served by",
    "z": "is served in the past by",
    "d": "reads from",
    "a": "loses the connection, with the answers, to",
    "r": "loses the connection, with the requests, to",
    "b": "loses the connection, while it registers, to",
    "e": "'s session expires on",
    "p": "'s requests have waited too long for",
    "g": "has been suspended for too long",
    "f": "waits no longer for what is under way by the older form",
    "w": "'s watch thread makes its next call",
    "m": "the copy of the map is changed on",
    "h": "looks at the mark of the move on",
    "n": "has time for what is not urgent on",
    "i": "has held for long, and looks at the mark of the move on",
    "t": "the command makes its next step on",
    "o": "the command loses its patience on",
    "x": "the command dies on",
    "k": "the command sees that all work by the present map on",
}
PROGRESS = "csdwhn"
OF_COMMAND = "tox"
WRITTEN = re.compile(rf"(\d)([{''.join(KINDS)}])(\d)")


T = TypeVar("T")


class Move(NamedTuple):
    """What happens to a client. A change of the map happens to none: then it is 0."""

    client: int
    kind: str
    ensemble: int = 0

    def __str__(self) -> str:
        return f"{self.client}{self.kind}{self.ensemble}"


def parse_moves(text: str) -> list[Move]:
    """:raises ValueError: it is none."""
    moves = []
    for each in filter(None, text.split(",")):
        found = WRITTEN.fullmatch(each)
        if found is None:
            raise ValueError(f"{each!r} is no move")
        moves.append(Move(int(found[1]), found[2], int(found[3])))
    return moves


class Received:
    """What a client has got, and all before it. Two with the same `number` are alike."""

    __slots__ = ("item", "number", "previous")

    def __init__(self, previous: Received | None, item: Input | None, number: int) -> None:
        self.previous = previous
        self.item = item
        self.number = number

    def all(self) -> list[Input]:
        found = []
        last: Received | None = self
        while last is not None and last.item is not None:
            found.append(last.item)
            last = last.previous
        return found[::-1]


class Position(NamedTuple):
    """What a client has come to.

    :param ports: its ends of connections, by ensemble.
    :param state: its KeeperState. :param losts: how often it was LOST.
    :param suspensions: how often it was SUSPENDED. :param epoch: of its map; 0 if it has none.
    :param ensembles: how many its map has.
    :param counts: how many answers each operation got. :param has_claims: whether the driver keeps any.
    :param form: by which operations begin. :param is_changing: whether it goes from that to the next.
    :param is_failing: whether a watch has failed to be left, by a form before, and others may yet.
    :param parting: the ensembles of which operations know that they leave, and the move of which they know.
    :param is_holding: whether it is to look again at the mark of a move. :param parted: where the client has no
        session any more, because they have left. :param later: how much the client does when it has time.
    """

    ports: tuple[Port, ...]
    state: str
    was_open: bool
    losts: int
    suspensions: int
    number: int
    epoch: int
    ensembles: int
    calls: tuple[Request, ...]
    ended: tuple[Ended, ...]
    told: tuple[Told, ...]
    counts: tuple[int, ...]
    is_waiting: bool
    callbacks: int
    has_claims: bool
    may_give_up: bool
    form: Form
    is_changing: bool
    is_failing: bool
    has_right_hosts: bool
    parting: frozenset[tuple[str, int]]
    is_holding: bool
    parted: frozenset[int]
    later: int


class Ledger(NamedTuple):
    """What the judge knows of a client, without asking it.

    :param awaited: ensembles that it has lost, where it had something.
    :param held: by ensemble, the ephemerals that it may have there, by physical path.
    :param made: the ephemerals that it has, and was told so, by path.
    :param due: operations whose watches must be called, if they have not been. :param unsure: which may be called:
        the operation took several steps, and has not ended. :param overtaken: that were under way when the client
        went on to the next form of the map, or lost one of several requests: they may fail.
    :param owed: so often it must have been LOST when it is CONNECTED again.
    :param seen: the newest epoch of all copies that it has read.
    :param last_id: when it was CONNECTED last: how often it had been LOST, and its number.
    """

    awaited: frozenset[int]
    held: tuple[frozenset[str], ...]
    made: frozenset[str] = frozenset()
    due: frozenset[int] = frozenset()
    unsure: frozenset[int] = frozenset()
    overtaken: frozenset[int] = frozenset()
    owed: int = 0
    seen: int = 0
    last_id: tuple[int, int] | None = None


class ClientState(NamedTuple):
    """:param inboxes: by ensemble, what has been sent to it and is not read yet."""

    received: Received
    position: Position
    inboxes: tuple[tuple[Tell, ...], ...]
    ledger: Ledger

    def with_inbox(self, ensemble: int, inbox: tuple[Tell, ...]) -> ClientState:
        return self._replace(inboxes=replaced(self.inboxes, ensemble, inbox))


class ServerSession(NamedTuple):
    """A session as its ensemble knows it.

    :param losts: how often its client had been LOST when it began.
    :param is_known: whether the client has learned of it.
    :param has_caught_up: whether the write has come that puts a read behind the client's own past.
    """

    number: int
    client: int
    ensemble: int
    losts: int
    is_alive: bool = True
    is_connected: bool = True
    is_known: bool = False
    has_registered: bool = False
    has_read_copy: bool = False
    has_caught_up: bool = False

    @property
    def who(self) -> Who:
        return Who(owners=(self.number,) * (self.ensemble + 1))


class World(NamedTuple):
    """
    :param copies: the epoch of each ensemble's copy of the map; 0 if it has none.
    :param spent: the kinds of troubles so far.
    :param looked: where the command has seen that all work by the map that is published.
    :param command: what it has done to move a directory, see :mod:`tests.explore.sessions.command`.
    """

    model: Model
    clients: tuple[ClientState, ...]
    sessions: tuple[ServerSession, ...]
    copies: tuple[int, ...]
    spent: str = ""
    looked: frozenset[int] = frozenset()
    command: str = ""
    path: Path | None = None

    def with_client(self, index: int, client: ClientState) -> World:
        return self._replace(clients=replaced(self.clients, index, client))

    def with_session(self, session: ServerSession) -> World:
        """In place of what it was, or added."""
        others = tuple(each for each in self.sessions if each.number != session.number)
        return self._replace(sessions=tuple(sorted((*others, session))))

    def session(self, number: int) -> ServerSession:
        return next(each for each in self.sessions if each.number == number)


class Path(NamedTuple):
    previous: Path | None
    move: Move


def moves_to(world: World) -> list[Move]:
    moves = []
    path = world.path
    while path is not None:
        moves.append(path.move)
        path = path.previous
    return moves[::-1]


def replaced(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])
