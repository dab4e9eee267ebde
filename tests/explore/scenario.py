"""What is explored: a state to begin with, what clients do, what goes wrong meanwhile, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parkazoo.kazoo_private import Create
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import Place, Placement
from tests.explore.answers import of_one_moment
from tests.explore.model import Model
from tests.explore.pinned import home_by_pins
from tests.explore.znodes import Answer, Request, Who
from tests.where_is import where_is

UNPINNED = -2  # where a client thinks that children are: below their home, and no pin says that they stay
MOVED = -3  # where a move has brought them: to this ensemble, as the generation with this name
MOVED_TO, MOVE = 2, "00000000000000000000000000000001"


class Violation(AssertionError):
    """Something does not hold."""


class Knows(NamedTuple):
    """Where a client of a map that has grown thinks that children of directories are.

    :param guess: the ensemble of a directory by its newest epoch.
    :param hints: directories, and where their children are: an ensemble, NATIVE, UNPINNED or MOVED.
    :param form: of its map.
    """

    guess: Callable[[str], int]
    hints: Sequence[tuple[str, int]] = ()
    form: Form = Form.GROWN


class Rise(NamedTuple):
    """In a list of requests: those behind it are issued by the next form of the client's map."""

    knows: Knows


class Makepath(NamedTuple):
    """In place of a request: a create with all that is missing above it, as the client's calls make it."""

    request: Create


class GivenUp(Exception):
    """In place of a result: the client has given the operation up. Its answer is judged all the same."""


AtOnce = list[Request] | list[Request | Makepath] | list[Request | Rise]
# What a client does: it yields a request, or a list to be issued at once, and is sent the result, or their list.
# A true watcher in a request is replaced by one whose calls are judged.
Asking = Generator[Request | Makepath | AtOnce, Answer, None]
Program = Sequence[Request] | Callable[[], Asking]


@dataclass(frozen=True)
class Beginning:
    """The state to begin with.

    :param specification: the same state in one ZooKeeper.
    :param knows: what each client of a map that has grown, or grows, knows; None for one of a plain map. The last
        is for a client that comes at the end.
    :param abandoned: requests that were abandoned by then: each may come true later.
    """

    placement: Placement
    model: Model
    specification: Model
    abandoned: Sequence[Request] = ()
    knows: Sequence[Knows | None] = ()

    def home(self, model: Model, path: str) -> Place:
        """Where a znode is, or would be."""
        if self.knows:
            return home_by_pins(model, self.placement.of_children("/"), path)
        return where_is(self.placement, path).home


class Troubles(NamedTuple):
    """What may go wrong.

    :param crashes: how many clients may stop for ever between two requests.
    :param losses: how often a connection may be lost, with or without its requests done; the client goes on.
    :param has_lag: servers may answer reads from the past, as far as the session allows.
    :param given_up: how many operations client 0 may give up before it has their answers.
    :param keeps: ensembles whose connections to client 0 have no room at first: its requests wait for it, and one
        that was given up by then is not sent.
    """

    crashes: int = 0
    losses: int = 0
    has_lag: bool = False
    given_up: int = 0
    keeps: Collection[int] = ()


class Requests(NamedTuple):
    """Before all orders are tried: so many of a client's requests are answered, first those to ensemble 0."""

    client: int
    answered: int


class Turn(NamedTuple):
    """Before all orders are tried: a client works alone until so many operations have ended; None for all."""

    client: int
    operations: int | None = None


class Stop(NamedTuple):
    """Before all orders are tried: a client crashes."""

    client: int


def no_more(model: Model, has_crashed: bool) -> None:
    """At the end nothing else is judged."""


@dataclass(frozen=True)
class Promises:
    """What must hold: always no mirror without a home and a pin, and at the end what one ZooKeeper would answer.

    :param judge: what of a result is compared.
    :param observe: requests that a client makes at the end; they must fit the history too.
    :param mirrors_per_life: how often a directory may get its mirror while it lives; None for any number.
    :param at_end: called with each last state, before anything is observed, and whether a client crashed.
    :param of_watches: whether the events of watches must be one ZooKeeper's.
    :param is_in_order: what a client issues at once is done in its order. Several ensembles promise that only as
        long as no other client is at work there.
    """

    judge: Callable[[Request, Hashable], Hashable] = of_one_moment
    observe: Sequence[Request] = ()
    mirrors_per_life: int | None = 1
    at_end: Callable[[Model, bool], None] = no_more
    of_watches: bool = True
    is_in_order: bool = False


@dataclass(frozen=True)
class Scenario:
    """:param name: by which tests/explore/families.py makes it again; empty if it cannot.
    :param opening: what happens before all orders are tried.
    :param whos: the clients' sessions, if they are not to have all rights.
    :param has_total_order: for all clients all ensembles have one order.
    """

    name: str
    beginning: Beginning
    programs: Sequence[Program]
    troubles: Troubles = Troubles()  # noqa: RUF009 - it never changes
    opening: Sequence[Requests | Turn | Stop] = ()
    promises: Promises = field(default_factory=Promises)
    whos: Sequence[Who] = ()
    has_total_order: bool = False

    @property
    def sessions(self) -> Sequence[Who]:
        return self.whos or [Who(owners=(100 * index + 7,) * 5) for index in range(len(self.programs))]


@dataclass(frozen=True)
class Bounds:
    """How far a scenario is explored.

    :param longest: how many answers each client gets before it is left alone.
    :param most: how many states are visited before the rest is left out.
    """

    longest: int | Sequence[int] = 24
    most: int | None = None

    def of(self, client: int) -> int:
        return self.longest if isinstance(self.longest, int) else self.longest[client]
