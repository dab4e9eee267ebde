"""The clients of a scenario: production code, run with what a client has received.

What comes of that is a position; it is found once for each way to be in it. A client runs on from its last
position if it has received more since, and else again from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Protocol

from kazoo.protocol.states import WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.compat.creation import Creation
from parkazoo.engine.ports import AbandonedError, Reply, is_abandoned
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.placement import logical
from tests.explore.answers import freeze, freeze_exactly, stats_in
from tests.explore.client import Asked, Client
from tests.explore.model import Model
from tests.explore.scenario import Asking, GivenUp, Knows, Makepath, Program, Rise, Scenario, Violation
from tests.explore.world import Arrival, ClientState, Ended, Position, Received, Told
from tests.explore.znodes import Answer, Request, has_watch, is_lasting, path_of
from tests.fakes.result import Result

NOTHING = Received(None, 0, None, 0)
WATCH_THREAD, GAVE_UP, TOOK = -1, -2, -3  # in place of an ensemble: see Received


class Clients:
    """All clients of a scenario, in all their states."""

    def __init__(self, scenario: Scenario) -> None:
        self._beginning = scenario.beginning
        self._placement = scenario.beginning.placement
        self._sessions = scenario.sessions
        self._programs = scenario.programs
        self._has_total_order = scenario.has_total_order
        self._troubles = scenario.troubles
        self._plain: dict[tuple[int, int, Hashable], int] = {}
        self._exact: dict[tuple[int, int, Hashable], int] = {}
        self._positions: dict[tuple[int, int], Position] = {}
        self._watching: dict[tuple[int, int], Position] = {}
        self._last: dict[int, tuple[Received, Client, LooseRun]] = {}

    def new(self, index: int) -> ClientState:
        """A client that has received nothing."""
        inboxes = tuple(() for _ in range(self._placement.ensembles))
        return ClientState(NOTHING, self._position(index, NOTHING), inboxes)

    def receive(self, index: int, client: ClientState, ensemble: int, arrival: Arrival) -> ClientState:
        """The client when it has read that."""
        before = client.received
        plain = self._plain.setdefault((before.plain, ensemble, arrival.plain), len(self._plain) + 1)
        received = Received(before, ensemble, arrival.what, plain)
        return ClientState(
            received, self._position(index, received), client.inboxes, client.called, client.is_alive
        )

    def _position(self, index: int, received: Received) -> Position:
        found = self._positions.get((index, received.plain))
        if found is None:
            found = self._positions[index, received.plain] = self._replay(index, received)
        if found.is_watching:  # which tells lives of a directory by zxids
            key = index, self._exact_number(received)
            if key not in self._watching:
                self._watching[key] = self._replay(index, received)
            found = self._watching[key]
        return found

    def _exact_number(self, received: Received) -> int:
        number = 0
        for each in received.all():
            if each.exact < 0:
                key = number, each.ensemble, freeze_exactly(each.what)
                each.exact = self._exact.setdefault(key, len(self._exact) + 1)
            number = each.exact
        return number

    def _replay(self, index: int, received: Received) -> Position:
        last, client, run = self._last.pop(index) if index in self._last else self._begin(index)
        if not received.is_after(last):
            last, client, run = self._begin(index)
        for each in received.all()[last.length :]:
            if each.ensemble == WATCH_THREAD:
                client.callbacks.popleft()()
            elif each.ensemble == GAVE_UP:
                run.give_up(each.what)  # type: ignore[arg-type]  # the number of an operation
            elif each.ensemble <= TOOK:
                client.members[TOOK - each.ensemble].take()
            elif isinstance(each.what, WatchedEvent):
                client.members[each.ensemble].tell(each.what)
            else:
                run.heard.add(each.ensemble)
                member = client.members[each.ensemble]
                member.answer(*member.outbox.popleft(), each.what)
            run.advance()
            if client.mistakes:
                raise Violation(client.mistakes[0])
        self._last[index] = received, client, run
        kept = tuple(member.kept for member in client.members)
        outboxes = tuple(
            tuple(request for request, _ in islice(member.outbox, len(member.outbox) - member.kept))
            for member in client.members
        )
        return Position(
            outboxes,
            tuple(run.calls),
            tuple(run.ended),
            len(client.callbacks),
            tuple(run.told),
            any(outboxes) or any(kept),
            any(has_watch(request) for request in run.calls),
            kept,
            run.awaited(),
            run.is_idle and client.driver.is_idle,
            run.watching(),
        )

    def _begin(self, index: int) -> tuple[Received, Client, LooseRun]:
        model, knows = Model(self._placement.ensembles), self._beginning.knows
        who, mine = self._sessions[index], knows[index] if knows else None
        client = Client(
            self._placement,
            model,
            who,
            f"p{index}-",
            mine,
            has_total_order=self._has_total_order,
            keeps=() if index else self._troubles.keeps,
            may_give_up=self._troubles.given_up > 0 and not index,
        )
        run = LooseRun(client, self._programs[index])
        run.advance()
        return NOTHING, client, run

    def key(self, client: ClientState, model: Model) -> Hashable:
        """What tells a client's states apart: no zxids; but a watch knows the life of a directory by one."""
        plain: tuple[Hashable, ...] = (client.received.plain, client.is_alive)
        if any(client.inboxes):
            plain += tuple(tuple(arrival.plain for arrival in inbox) for inbox in client.inboxes)
        return (plain, self._lives(client, model)) if client.position.is_watching else plain

    def _lives(self, client: ClientState, model: Model) -> tuple[int, ...]:
        """The lives of directories that a client has heard of, numbered as it heard of them."""
        names: dict[tuple[int, int], int] = {}
        heard = [(each.ensemble, each.what) for each in client.received.all()]
        heard += [(e, arrival.what) for e, inbox in enumerate(client.inboxes) for arrival in inbox]
        lives = [
            names.setdefault((ensemble, stat.czxid), len(names))
            for ensemble, what in heard
            for stat in stats_in(what)
        ]
        for request in client.position.calls:
            home = self._beginning.home(model, path_of(request) or "/")
            znode = model.nodes[home.ensemble].get(home.path)
            lives.append(names.get((home.ensemble, znode.czxid), -1) if znode else -2)
        return tuple(lives)


def arrival(what: Answer) -> Arrival:
    return Arrival(what, freeze(what))


class Issuing(Protocol):
    def call(self, request: Request) -> Result:
        """Issue an operation."""

    def rise(self, knows: Knows) -> None:
        """Go on to the next form of the map."""


class Run:
    """A program at work on a client."""

    def __init__(self, client: Issuing, program: Program) -> None:
        self.client = client
        self.calls: list[Request] = []
        self.ended: list[Ended] = []
        self.watches: dict[object, int] = {}  # and the operations that have left them
        self.heard: set[int] = set()  # the ensembles that have answered since an operation was issued alone
        self.told: list[Told] = []
        self._program: Asking = program() if callable(program) else one_by_one(program)
        self._results: list[Result] = []
        self._awaited: list[Result] = []
        self._is_many = False
        self._left: set[int] = set()  # operations that have not ended

    def advance(self) -> None:
        """Issue what the program wants to, after what it waits for."""
        self._note()
        while all(result.told or result.is_abandoned for result in self._awaited):
            values = [GivenUp() if result.is_abandoned else result.value for result in self._awaited]
            try:
                if not self.calls:
                    asked = next(self._program)
                else:
                    asked = self._program.send(values if self._is_many else values[0])
            except StopIteration:
                return
            self._is_many = isinstance(asked, list)
            self.heard.clear()
            self._awaited = []
            for each in asked if isinstance(asked, list) else [asked]:
                if isinstance(each, Rise):
                    self.client.rise(each.knows)
                else:
                    self._awaited.append(self._issue(each))
            self._note()

    def _issue(self, request: Request | Makepath) -> Result:
        assert not isinstance(request, Makepath)
        number = len(self.calls)
        self.calls.append(request)
        self._left.add(number)
        if has_watch(request):
            request = _with_watcher(request, lambda event: self.told.append(Told(number, event.type)))
            self.watches[request.watcher] = number  # type: ignore[attr-defined]
            if is_lasting(self.calls[-1]):
                outlasting(request.watcher)  # type: ignore[attr-defined]
        self._results.append(self.client.call(request))
        return self._results[-1]

    def counts(self) -> list[int]:
        """How many answers each operation has got."""
        return [len(result.told) for result in self._results]

    def _note(self) -> None:
        for number in sorted(self._left):
            if self._results[number].told:
                self._left.remove(number)
                result = self._results[number]
                is_known = len(self.heard) == 1 and not (self._is_many or result.is_abandoned)
                self.ended.append(Ended(number, result.value, next(iter(self.heard)) if is_known else -1))


class Part(Asked):
    """The reply to one of several operations that a call takes; it passes the answer on.

    One that begins when the call has been given up may be done, as what the call has begun is finished.
    """

    def __init__(self, reply: Reply, whole: Asked) -> None:
        super().__init__()
        self._reply = reply
        self._whole = whole
        self.is_prepared = self.is_given_up

    @property
    def is_given_up(self) -> bool:
        return self._whole.is_given_up

    @property
    def is_abandoned(self) -> bool:  # type: ignore[override]  # read only
        return is_abandoned(self._reply)

    def set(self, value: Answer = None) -> None:
        super().set(value)
        self._reply.set(value)

    def set_exception(self, exception: Exception) -> None:
        super().set_exception(exception)
        self._reply.set_exception(exception)


class LooseRun(Run):
    """A program whose client may give up what it has issued.

    A call of several operations goes by the number of the first one.
    """

    client: Client

    def __init__(self, client: Client, program: Program) -> None:
        super().__init__(client, program)
        self._asked: dict[int, Result] = {}

    def _issue(self, request: Request | Makepath) -> Result:
        number = len(self.calls)
        if not isinstance(request, Makepath):
            self._asked[number] = super()._issue(request)
        else:
            self._asked[number] = whole = Asked()
            Creation(Calls(self, whole), request.request, whole, makes_above=True).begin()
        return self._asked[number]

    def advance(self) -> None:
        super().advance()
        for each in self.ended:
            if isinstance(each.result, AbandonedError) and not self._results[each.number].is_abandoned:
                self.client.mistakes.append("an operation fails as if it had been given up")

    def issue_part(self, request: Request, reply: Reply, whole: Asked) -> None:
        self._left.add(len(self.calls))
        self.calls.append(request)
        self._results.append(Part(reply, whole))
        self.client.ask(request, self._results[-1])

    def give_up(self, number: int) -> None:
        self._asked[number].is_abandoned = True

    def awaited(self) -> tuple[int, ...]:
        """What may be given up."""
        return tuple(number for number, each in self._asked.items() if not (each.told or each.is_abandoned))

    @property
    def is_idle(self) -> bool:
        """Whether each operation has one answer."""
        return not self._left and all(len(each.told) == 1 for each in self._asked.values())

    def watching(self) -> frozenset[int]:
        """The operations of which a watch is in a table of the client's."""
        if not self.watches:
            return frozenset()
        left = [watch for member in self.client.members for watch in member.watches.left()]
        return frozenset(self.watches[getattr(each, "watcher", each)] for each in left)


class Calls:
    """A client, as a call of several operations sees it."""

    chroot = ""
    default_acl = OPEN_ACL_UNSAFE
    unchroot = staticmethod(logical)

    def __init__(self, run: LooseRun, whole: Asked) -> None:
        self._run = run
        self._whole = whole

    def _call(self, request: Request, reply: Reply) -> None:
        self._run.issue_part(request, reply, self._whole)


def one_by_one(requests: Sequence[Request]) -> Asking:
    for request in requests:  # noqa: UP028 - a list cannot be sent the results
        yield request


def _with_watcher(request: Request, watcher: Callable[[WatchedEvent], None]) -> Request:
    replaced: Request = request._replace(watcher=watcher)  # type: ignore[attr-defined]
    return replaced
