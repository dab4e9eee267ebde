"""Where everything is between two moves, and the moves."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import NamedTuple

from kazoo.protocol.states import WatchedEvent

from tests.explore.history import Chain, Event
from tests.explore.lives import Lives
from tests.explore.model import Model
from tests.explore.znodes import Answer, Request


class Arrival(NamedTuple):
    """An answer or an event that a client has not read yet. `plain` is it without zxids."""

    what: Answer
    plain: Hashable

    @property
    def is_answer(self) -> bool:
        return not isinstance(self.what, WatchedEvent)


class Received:
    """An answer or an event that a client has read, and those before it.

    :param ensemble: -1 if kazoo's watch thread has made a call, -2 if the client gave up, -3 less the ensemble if
        its connection took a request. :param plain: stands for it all, zxids left out.
    """

    __slots__ = ("ensemble", "exact", "length", "plain", "previous", "what")

    def __init__(self, previous: Received | None, ensemble: int, what: Answer, plain: int) -> None:
        self.previous = previous
        self.ensemble = ensemble
        self.what = what
        self.plain = plain
        self.length: int = previous.length + 1 if previous else 0
        self.exact = -1  # stands for all of it, zxids and all; -1 until it is asked for

    def is_after(self, other: Received) -> bool:
        """Whether it is the other, or has come behind it."""
        last = self
        while last.length > other.length and last.previous is not None:
            last = last.previous
        return last is other

    def all(self) -> list[Received]:
        """From the first on."""
        found: list[Received] = []
        last = self
        while last.previous is not None:
            found.append(last)
            last = last.previous
        return found[::-1]


class Ended(NamedTuple):
    """An operation that has ended.

    :param ensemble: that has given all answers to it, if it was awaited; -1 if there are several.
    """

    number: int
    result: Answer
    ensemble: int


class Told(NamedTuple):
    """The watch of an operation was called with an event of this type."""

    operation: int
    event: str


class Position(NamedTuple):
    """Where a client's code is.

    :param outboxes: requests without an answer that was read, for each ensemble.
    :param calls: the operations issued. :param callbacks: calls that wait for the watch thread.
    :param kept: how many more requests wait for a connection, for each ensemble.
    :param awaited: operations that can be given up. :param is_idle: none has yet to end, nor holds anything.
    :param watching: those of which a watch is in a table of the client's.
    """

    outboxes: tuple[tuple[Request, ...], ...]
    calls: tuple[Request, ...]
    ended: tuple[Ended, ...]
    callbacks: int
    told: tuple[Told, ...]
    is_waiting: bool
    is_watching: bool
    kept: tuple[int, ...]
    awaited: tuple[int, ...]
    is_idle: bool
    watching: frozenset[int]


class ClientState(NamedTuple):
    """One client.

    :param position: what it comes to by all that it has received.
    :param inboxes: what it has not read yet, for each ensemble in order.
    :param called: how many of its operations are in the history.
    """

    received: Received
    position: Position
    inboxes: tuple[tuple[Arrival, ...], ...]
    called: int = 0
    is_alive: bool = True

    def answered(self, ensemble: int) -> int:
        """How many requests have an answer that has not been read."""
        inbox = self.inboxes[ensemble]
        return sum([arrival.is_answer for arrival in inbox]) if inbox else 0

    def with_inbox(self, ensemble: int, inbox: tuple[Arrival, ...]) -> ClientState:
        inboxes = (*self.inboxes[:ensemble], inbox, *self.inboxes[ensemble + 1 :])
        return ClientState(self.received, self.position, inboxes, self.called, self.is_alive)


class World(NamedTuple):
    """:param crashes: how many clients have crashed. :param losses: how many requests were lost.
    :param given_up: how many operations were given up. :param path: how it came to be.
    """

    model: Model
    clients: tuple[ClientState, ...]
    history: Chain[Event]
    lives: Lives
    crashes: int = 0
    losses: int = 0
    given_up: int = 0
    path: Path | None = None

    def with_client(self, index: int, client: ClientState, history: Chain[Event] | None = None) -> World:
        clients = (*self.clients[:index], client, *self.clients[index + 1 :])
        history = history or self.history
        return World(self.model, clients, history, *self[3:])


class Path(NamedTuple):
    previous: Path | None
    move: Move


def moves_to(world: World) -> list[Move]:
    moves: list[Move] = []
    path = world.path
    while path is not None:
        moves.append(path.move)
        path = path.previous
    return moves[::-1]


# ---- moves, each written as the number of its client, a letter and more ------------------------


class Serve(NamedTuple):
    """A server executes a client's oldest request, as of the state number `at` if that is not None."""

    client: int
    ensemble: int
    at: int | None = None

    def __str__(self) -> str:
        return f"{self.client}s{self.ensemble}" + ("" if self.at is None else f"@{self.at}")


class Deliver(NamedTuple):
    """A client reads the oldest answer or event of an ensemble."""

    client: int
    ensemble: int

    def __str__(self) -> str:
        return f"{self.client}d{self.ensemble}"


class CallBack(NamedTuple):
    """kazoo's watch thread makes its next call."""

    client: int

    def __str__(self) -> str:
        return f"{self.client}w"


class Crash(NamedTuple):
    client: int

    def __str__(self) -> str:
        return f"{self.client}x"


class Lose(NamedTuple):
    """A connection is lost, with the requests on their way or, if they are done, their answers."""

    client: int
    ensemble: int
    is_done: bool

    def __str__(self) -> str:
        return f"{self.client}{'a' if self.is_done else 'r'}{self.ensemble}"


class GiveUp(NamedTuple):
    """A client does not wait any more for the answer to an operation, the one with this number."""

    client: int
    operation: int

    def __str__(self) -> str:
        return f"{self.client}g{self.operation}"


class Take(NamedTuple):
    """A connection has room: it takes the oldest request that waits for it."""

    client: int
    ensemble: int

    def __str__(self) -> str:
        return f"{self.client}t{self.ensemble}"


Move = Serve | Deliver | CallBack | Crash | Lose | GiveUp | Take
WRITTEN = re.compile(r"(\d+)([sdwxargt])(\d*)(?:@(\d+))?")


def parse_moves(text: str) -> list[Move]:
    """:raises ValueError: it is none."""
    return [_parse(each) for each in text.split(",") if each]


def _parse(text: str) -> Move:
    found = WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no move")
    client, kind = int(found[1]), found[2]
    if kind == "w":
        return CallBack(client)
    if kind == "x":
        return Crash(client)
    ensemble = int(found[3])
    if kind == "g":
        return GiveUp(client, ensemble)
    if kind == "t":
        return Take(client, ensemble)
    if kind == "s":
        return Serve(client, ensemble, None if found[4] is None else int(found[4]))
    return Deliver(client, ensemble) if kind == "d" else Lose(client, ensemble, kind == "a")
