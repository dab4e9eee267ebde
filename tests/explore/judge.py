"""Whether the answers and events of clients could have come from one ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kazoo.protocol.states import EventType

from parkazoo.engine.ports import AbandonedError
from parkazoo.errors import CrossEnsembleError
from parkazoo.kazoo_private import Create, Create2, Delete, Transaction
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import make_context, make_grown, outcome
from tests.explore.answers import freeze, result_of
from tests.explore.history import Called, Chain, Event
from tests.explore.lives import mirrored
from tests.explore.model import Model
from tests.explore.scenario import Promises, Scenario, Violation
from tests.explore.world import Told
from tests.explore.znodes import (
    ANYONE,
    READS,
    Answer,
    Request,
    Who,
    Znode,
    difference,
    has_watch,
    path_of,
    watch_kind,
)

AllTold = Mapping[int, Sequence[Told]]  # by client; without those that may not know yet


class Observed(NamedTuple):
    """What a client that comes at the end sees."""

    request: Request
    result: Hashable


class Call(NamedTuple):
    """An operation as it is judged.

    :param called: when, as a number of events. :param returned: None if its outcome is unknown.
    """

    request: Request
    who: Who
    client: int
    number: int
    called: int
    returned: int | None = None
    result: Hashable = None
    ensemble: int = -1


class Judge:
    """Judges each end of a scenario's exploration once."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._judged: set[object] = set()
        self._observed: dict[object, list[Observed]] = {}

    def judge(self, model: Model, history: Chain[Event], told: AllTold) -> None:
        """:raises Violation: no ZooKeeper would have said that."""
        model_key = model.key()
        observed = self._observed.get(model_key)
        if observed is None:
            observed = self._observed[model_key] = self.observe(model)
        key = history.number, tuple(each.result for each in observed), tuple(told.items())
        if key in self._judged:
            return
        self._judged.add(key)
        beginning, promises = self._scenario.beginning, self._scenario.promises
        calls = [*calls_of(history, self._scenario.sessions)]
        calls += [Call(request, ANYONE, -1, -1, -1) for request in beginning.abandoned]
        past = binds_all if self._scenario.has_total_order else binds
        lagging = past if self._scenario.troubles.has_lag else None
        order = Linearization(promises, lagging, calls, observed, told)
        if not order.exists(beginning.specification):
            raise Violation("not linearizable")

    def observe(self, model: Model) -> list[Observed]:
        """What a client that comes at the end is answered.

        :raises Violation: it leaves what must not be.
        """
        beginning = self._scenario.beginning
        context, plans = make_context(beginning.placement, "observer"), PLANS
        if beginning.knows and (knows := beginning.knows[-1]) is not None:
            context, plans = make_grown(context, beginning.placement, knows), PLANS
        model = model.copy()
        model.on_event = lambda who, ensemble, event: None
        observed = []
        for request in self._scenario.promises.observe:
            answer = outcome(model, plans[request.type].operation(context, request))
            observed.append(Observed(request, self._scenario.promises.judge(request, result_of(request, answer))))
        [*mirrored(beginning, model)]
        return observed


def calls_of(history: Iterable[Event], sessions: Sequence[Who]) -> Iterable[Call]:
    calls: dict[tuple[int, int], Call] = {}
    for time, event in enumerate(history):
        which = event.client, event.operation
        if isinstance(event, Called):
            calls[which] = Call(event.request, sessions[event.client], *which, time)
        else:
            calls[which] = calls[which]._replace(returned=time, result=event.result, ensemble=event.ensemble)
    return [call for call in calls.values() if call.result != AbandonedError.__name__]  # which was not sent


class Linearization:
    """An order of all operations in which one ZooKeeper would have answered each as it was answered.

    An operation of unknown outcome may have any place behind its call, or none: it may take place while the client
    that comes at the end looks, which may have helped it on.

    :param binds_lagging: if servers lag, a read may be of the past, but not of before the operations for which
        this is true; None if they do not.
    """

    def __init__(
        self,
        promises: Promises,
        binds_lagging: Callable[[Call, Call], bool] | None,
        calls: Sequence[Call],
        observed: Sequence[Observed],
        told: AllTold,
    ) -> None:
        self._judge: Callable[[Request, Hashable], Hashable] = promises.judge
        self._is_in_order = promises.is_in_order
        self._binds_lagging = binds_lagging
        self._calls = calls
        self._observed = observed
        self._told = told
        self._before = [[i for i, each in enumerate(calls) if self._binds(each, call)] for call in calls]

    def exists(self, specification: Model) -> bool:
        return self._fits(Specification(specification, {}), frozenset(range(len(self._calls))), None)

    def _fits(self, specification: Specification, left: frozenset[int], seen: int | None) -> bool:
        """Whether what is left has an order.

        :param seen: how much of what is observed at the end; None while not everything known has happened.
        """
        if seen is None:
            may_end = all(self._calls[i].returned is None for i in left)
            if may_end and specification.told(self._told) and self._fits(specification, left, 0):
                return True
        elif self._sees(specification, left, seen):
            return True
        for i in left:
            call = self._calls[i]
            if left.isdisjoint(self._before[i]):
                if call.result == CrossEnsembleError.__name__:  # refused: nothing was done
                    after, is_right = specification, True
                else:
                    after, got = specification.execute(call)
                    is_right = call.returned is None or self._judge(call.request, freeze(got)) == call.result
                if is_right and self._fits(after, left - {i}, seen):
                    return True
        return False

    def _binds(self, one: Call, other: Call) -> bool:
        """Whether `one` comes before `other` in every order."""
        if one.returned is None:
            return False
        is_issued_before = one.client == other.client and one.number < other.number
        if not (one.returned < other.called or (self._is_in_order and is_issued_before)):
            return False
        if self._binds_lagging is None or not isinstance(other.request, READS):
            return True
        return self._binds_lagging(one, other)

    def _sees(self, specification: Specification, left: frozenset[int], seen: int) -> bool:
        """Whether what is observed next fits, and all that is behind it."""
        if seen == len(self._observed):
            return True
        request, result = self._observed[seen]
        after, got = specification.observe(request)
        return self._judge(request, freeze(got)) == result and self._fits(after, left, seen + 1)


def binds(own: Call, read: Call) -> bool:
    """Whether a read that may be of the past must not be of before an operation.

    It must not if that is the session's own, and a create or delete of the same znode or of one above or below it,
    or if one and the same ensemble has given all answers to both.
    """
    if own.client != read.client:
        return False
    if own.ensemble == read.ensemble >= 0:
        return True
    changes = own.request.operations if isinstance(own.request, Transaction) else [own.request]
    return any(
        is_related(change.path, path_of(read.request))
        for change in changes
        if isinstance(change, (Create, Create2, Delete))
    )


def binds_all(own: Call, read: Call) -> bool:
    """As :func:`binds`, if all ensembles have one order: no read is of before what its own client did earlier."""
    return own.client == read.client


def is_related(one: str, other: str) -> bool:
    """Whether one path is the other, or above it."""
    one, other = one.rstrip("/"), other.rstrip("/")  # of the root nothing is left
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


class Left(NamedTuple):
    """A watch that an operation has left. `is_sure`: its call has succeeded."""

    client: int
    number: int
    kind: str
    path: str
    is_sure: bool


class Specification:
    """One ZooKeeper, and what has happened since to the watches left there."""

    def __init__(self, model: Model, events: Mapping[Left, tuple[str, ...]]) -> None:
        self.model = model
        self._events = events

    def execute(self, call: Call) -> tuple[Specification, Answer]:
        model = self.model.copy()
        before = model.nodes[0]
        got = model.execute(0, call.request, call.who)
        events = self._events
        if events and model.nodes[0] is not before:
            events = {
                watch: (*seen, *_change(watch, before.get(watch.path), model.nodes[0].get(watch.path)))
                for watch, seen in events.items()
            }
        if has_watch(call.request) and not isinstance(got, Exception):
            is_sure = call.returned is not None
            watch = Left(call.client, call.number, watch_kind(call.request), path_of(call.request), is_sure)
            events = {**events, watch: ()}
        return Specification(model, events), got

    def observe(self, request: Request) -> tuple[Specification, Answer]:
        """As :meth:`execute`, by a client that nobody knows and no watch tells of."""
        model = self.model.copy()
        return Specification(model, {}), model.execute(0, request)

    def told(self, told: AllTold) -> bool:
        """Each watch was called once if anything happened, for the first thing that did, or for the end.

        After a lost connection it is unknown whether there is a watch.
        """
        for watch, events in self._events.items():
            seen = [event for of, event in told.get(watch.client, ()) if of == watch.number]
            if seen == [EventType.NONE]:  # the connection was lost: the program sets it again
                continue
            is_silent = watch.client in told and watch.is_sure and events and not seen
            if len(seen) > min(1, len(events)) or is_silent:
                return False
            if seen and not (seen[0] == events[0] or (seen[0] == EventType.DELETED and seen[0] in events)):
                return False
        watches = {(watch.client, watch.number) for watch in self._events}
        return all((client, number) in watches for client, events in told.items() for number, _ in events)


def _change(watch: Left, before: Znode | None, after: Znode | None) -> tuple[str, ...]:
    event = difference(watch.kind, before, after)
    return () if event is None else (event,)
