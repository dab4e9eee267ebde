"""Mutations of sessions, members and handshakes, each of which breaks a promise in the explorer's sight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from kazoo.protocol.states import KeeperState

from parkazoo.engine.driver import Driver
from parkazoo.engine.following import Following
from parkazoo.engine.form_change import FormChange
from parkazoo.engine.parting import Parting
from parkazoo.engine.registering import Registering
from parkazoo.engine.roster import Roster
from parkazoo.engine.session import Session
from parkazoo.kazoo_private import Delete, Transaction
from parkazoo.protocol import atlas, states
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.holdings import Holdings
from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.past import Past
from parkazoo.protocol.standing import Standing
from parkazoo.protocol.steps import Request
from parkazoo.wire import kept_watches
from parkazoo.wire.attempt import Steps
from parkazoo.wire.dialogue import ask
from parkazoo.wire.exchange import Exchange
from parkazoo.wire.handshake import _register
from parkazoo.wire.kept_watches import KeptWatches
from parkazoo.wire.member import Member
from parkazoo.wire.own_read import OWN_READS
from tests.explore.mutation import Callers, Fault, Mutation, Right, Wrong, instead, left_out, nothing, together
from tests.explore.sessions.families import LEFT, WHOLE, Sessions

BEFORE = "before the registration|is not registered"
NO_COPY, NOT_NEWEST = "before the copy of the map", "the newest map that it has read"
NOT_LOST, LIVES_ON = "the client was not LOST", "lives on"
STATE, NEVER = "it waits for", "never told"
NO_NEIGHBOUR = "a request of form"
MISSED, IN_SILENCE = "has missed a change", "dropped in silence"


@dataclass(frozen=True)
class SessionMutant(Mutation):
    """A mutation, and the scenario in which it is seen.

    :param violation: what the explorer says.
    :param late: the ensembles from which the first client reads late.
    """

    violation: str
    seen_in: Sessions
    late: Collection[int] = ()


def seen_in(
    program: str, troubles: str = "le", *, other: str = "nothing", start: str = "a", pace: str = "at once"
) -> Sessions:
    return Sessions(program, other, troubles, start, pace)


ONE_IN_EACH = partial(patch.object, kept_watches, "MOST_BYTES", 8)  # request


# ---- what is wrong -----------------------------------------------------------------------------


def only_once(right: Right) -> Right:
    return lambda member, session: not (member.is_renewing or member._registered)


def as_before(right: Right) -> Right:
    """The newer map is taken for one whose servers are the same."""
    return lambda roster, before: right(roster, roster.cluster_map)


def reads_first(right: Right) -> Right:
    """The copy is asked for in front of the registration."""

    def wrong(exchange: Exchange, requests: Sequence[Request], answers: list[Any]) -> bytes:
        registration, *reads = requests
        if reads == [*OWN_READS]:
            requests = [reads[0], registration, *reads[1:]]
        found: bytes = right(exchange, requests, answers)
        return found

    return wrong


def answers_registration_first(right: Right) -> Right:
    def wrong(*arguments: Any) -> Steps[list[Any]]:
        copy, answer, *others = yield from right(*arguments)
        return [answer, copy, *others]

    return wrong


def taken_later() -> Fault:
    """A copy that the handshake has read does not count; one that is read because it has changed does."""
    callers = Callers()

    def wrong(right: Right) -> Right:
        return lambda *arguments: right(*arguments) if callers.names else None

    return together(instead(Member._have_read_again, callers), instead(Session.take_copy, wrong))


def one_later(right: Right) -> Right:
    return lambda kept, zxid: right(kept, zxid + 1)


def since_the_last(right: Right) -> Right:
    def wrong(kept: KeptWatches, zxid: int) -> None:
        kept.forget()
        right(kept, zxid)

    return wrong


def the_first(right: Right) -> Right:
    return lambda *arguments: right(*arguments)[:1]


def without(kind: str) -> Wrong:
    """Requests that keep none of these."""
    return lambda right: lambda *arguments: [each._replace(**{kind: ()}) for each in right(*arguments)]


def of_the_unknown(right: Right) -> Right:
    def wrong(roster: Any, member: Member, *copy: Any) -> Exception | None:
        return None if member in roster.known else right(roster, member, *copy)

    return wrong


def of_the_copy(right: Right) -> Right:
    def wrong(known: ClusterMap, copy: ClusterMap, server: str) -> ClusterMap:
        right(known, copy, server)
        return known if copy.epoch == known.epoch else copy

    return wrong


def with_nobody(right: Right) -> Right:
    def wrong(registering: Any, epoch: int, members: Sequence[Member], is_one: bool) -> None:
        right(registering, epoch, (), is_one)

    return wrong


def counting_at_once(right: Right) -> Right:
    def wrong(registering: Any, member: Member, is_one: bool) -> None:
        right(registering, member, is_one)
        if registering._standing.is_connected(member):
            registering._registered[member] = registering.epoch

    return wrong


def without_transactions(right: Right) -> Right:
    def wrong(holdings: Holdings, requests: Iterable[Request]) -> None:
        right(holdings, [request for request in requests if request.type != Transaction.type])

    return wrong


def unless_of(kind: Any) -> Wrong:
    def wrong(right: Right) -> Right:
        def holds(holdings: Holdings, request: Request, answer: Any) -> None:
            if request.type != kind.type:
                right(holdings, request, answer)

        return holds

    return wrong


def keeping_silent(right: Right) -> Right:
    """The program does not hear that the client is LOST."""

    def silent(change: Right) -> Right:
        return lambda session, state, *cause: (
            state == KeeperState.EXPIRED_SESSION or change(session, state, *cause)
        )

    def wrong(*arguments: Any) -> None:
        with instead(Session._change, silent)():
            right(*arguments)

    return wrong


def ending_no_others(right: Right) -> Right:
    def wrong(session: Any, why: str, expired: Member | None = None) -> None:
        if expired is None:
            right(session, why)
        else:
            session._change(KeeperState.EXPIRED_SESSION)

    return wrong


def renumbering(right: Right) -> Right:
    def wrong(registering: Any, *arguments: Any) -> Any:
        registering.renumber()
        return right(registering, *arguments)

    return wrong


def keeping_the_number(right: Right) -> Right:
    def wrong(registering: Any, *arguments: Any) -> Any:
        number = registering.number
        request = right(registering, *arguments)
        registering.number = number
        return request

    return wrong


def keeping_watches(right: Right) -> Right:
    def wrong(member: Member, state: str) -> None:
        tables = member._child_watchers, member._data_watchers
        right(member, state)
        member._child_watchers, member._data_watchers = tables

    return wrong


def awaiting_none(right: Right) -> Right:
    def wrong(
        standing: Any, member: Member, has_ephemerals: bool, has_watches: bool, has_unanswered: bool
    ) -> bool:
        is_shaken = has_unanswered and not (has_ephemerals or has_watches)
        found: bool = right(standing, member, False, False, is_shaken)
        return found

    return wrong


def awaiting_it_still(right: Right) -> Right:
    def wrong(standing: Any, member: Member, state: str) -> None:
        is_awaited = member in standing._awaited
        right(standing, member, state)
        if is_awaited:
            standing.awaits(member)

    return wrong


def awaiting_all_still(right: Right) -> Right:
    def wrong(standing: Any) -> None:
        awaited = [*standing._awaited]
        right(standing)
        for member in awaited:
            standing.awaits(member)

    return wrong


def at_a_renewal(also: Callable[[Any, str], object]) -> Wrong:
    """Something is done to the requests that wait, when a session has expired that does not end the client's."""

    def wrong(right: Right) -> Right:
        def callback(member: Any, state: str) -> None:
            is_renewal = state == KeeperState.EXPIRED_SESSION and not member.is_renewing
            is_renewal = is_renewal and not member.owner.is_fatal(member)
            right(member, state)
            if is_renewal:
                also(member, state)

        return callback

    return wrong


def joining_the_first(right: Right) -> Right:
    def wrong(roster: Any, come: Sequence[str]) -> None:
        right(roster, come)
        roster._join(come[0])

    return wrong


def counting_members(right: Right) -> Right:
    def wrong(session: Any, member: Member) -> bool:
        is_alone = len(session.roster.members) == 1 or session.driver is None
        return states.is_fatal(member.has_ephemerals, is_alone)

    return wrong


def by_its_own_hosts(right: Right) -> Right:
    def wrong(roster: Any, member: Member, name: str) -> None:
        if member is roster.first:
            member.settle(name, None, (), None)
        else:
            right(roster, member, name)

    return wrong


def behind_nothing(right: Right) -> Right:
    def wrong(past: Past, ensembles: int) -> None:
        known = len(past._written)
        right(past, ensembles)
        past._written[known:] = [past._count] * (ensembles - known)

    return wrong


def counting_nothing(right: Right) -> Right:
    def wrong(past: Past, ensembles: int) -> None:
        counts = past._forgotten, past._count
        right(past, ensembles)
        past._forgotten, past._count = counts

    return wrong


def acknowledging_at_once(right: Right) -> Right:
    def wrong(following: Any) -> None:
        was_changing = following.is_changing
        right(following)
        if following.is_changing and not was_changing:
            following._acknowledge()

    return wrong


def forgetting_the_pending(right: Right) -> Right:
    def wrong(member: Any, requests: deque[tuple[Any, ...]], *state: Any, **error: Any) -> None:
        if requests is member._pending:
            requests.clear()
        else:
            right(member, requests, *state, **error)

    return wrong


# ---- where it is seen --------------------------------------------------------------------------

GROWS, RISES = "one becomes two, hold", "plain becomes grown, first children"
LATER = "tolerant becomes grown, hold and read"
STEPS = "mmm"  # until the form behind the next one is published
PINNED_THERE = "a pin names an ensemble that has left"
HOLD, HOLD_MANY, READ = "hold and read", "hold by transaction and read", "read only"
MUTANTS: Mapping[str, SessionMutant] = {
    "a session registers after its first request": SessionMutant(
        instead(Member.must_register, lambda _: lambda member, session: False),
        BEFORE,
        seen_in(HOLD),
    ),
    "a renewed session does not register": SessionMutant(
        instead(Member.must_register, only_once),
        BEFORE,
        seen_in(READ),
    ),
    "the copy is read before the registration": SessionMutant(
        together(instead(ask, reads_first), instead(_register, answers_registration_first)),
        NO_COPY,
        seen_in(HOLD),
    ),
    "the copy is not taken at a join": SessionMutant(taken_later(), NOT_NEWEST, seen_in(HOLD, "mm")),
    "the copy is not taken at a renewal": SessionMutant(
        instead(Roster.take_copy, of_the_unknown),
        NOT_NEWEST,
        seen_in(READ, "lemm"),
    ),
    "an older copy lowers the epoch": SessionMutant(
        instead(atlas.newer_of, of_the_copy),
        "older map",
        seen_in(HOLD, "lmmm"),
    ),
    "a newer map is not registered": SessionMutant(
        instead(Registering.acknowledge, with_nobody),
        "newest map",
        seen_in(HOLD, "lmmm"),
    ),
    "a registration whose answer is lost counts": SessionMutant(
        instead(Registering.register_again, counting_at_once),
        "newest map",
        seen_in(READ, "lm"),
    ),
    "addresses of a newer map are not taken over": SessionMutant(
        instead(Roster._follow, as_before),
        "servers",
        seen_in(HOLD, "lmmm"),
    ),
    "a session with an ephemeral is renewed": SessionMutant(
        instead(states.is_fatal, lambda _: lambda has_ephemerals, is_alone: is_alone), NOT_LOST, seen_in(HOLD)
    ),
    "a create without an answer does not count": SessionMutant(
        instead(Holdings.lost, nothing), NOT_LOST, seen_in(HOLD)
    ),
    "a transaction without an answer does not count": SessionMutant(
        instead(Holdings.lost, without_transactions),
        NOT_LOST,
        seen_in(HOLD_MANY),
    ),
    "a transaction's create does not count": SessionMutant(
        instead(Holdings.answered, unless_of(Transaction)), STATE, seen_in(HOLD_MANY)
    ),
    "a deleted ephemeral counts": SessionMutant(
        instead(Holdings._done, unless_of(Delete)),
        "though it had no ephemeral|it waits for",
        seen_in("hold and let go"),
    ),
    "LOST is not told": SessionMutant(
        instead(Session._lose, keeping_silent),
        "number|LOST",
        seen_in(HOLD),
    ),
    "an expired session with an ephemeral does not end the others": SessionMutant(
        instead(Session._lose, ending_no_others),
        "number|LOST|lives on",
        seen_in("hold on both"),
    ),
    "the other sessions are not closed": SessionMutant(
        instead(Member.renew, nothing), f"{LIVES_ON}|{STATE}", seen_in("hold on both")
    ),
    "the number outlives LOST": SessionMutant(
        left_out(Registering.renumber, Session._lose), "number", seen_in(HOLD)
    ),
    "a renewal changes the number": SessionMutant(
        instead(Registering.make, renumbering),
        "number",
        seen_in(READ),
    ),
    "a watch is told twice": SessionMutant(
        instead(Member.drop_watches, keeping_watches),
        "told twice",
        seen_in("watch both"),
    ),
    "watches elsewhere are not told of SUSPENDED": SessionMutant(
        left_out(Session.drop_watches, Session._change), NEVER, seen_in("watch both")
    ),
    "watches are not told of LOST": SessionMutant(
        left_out(Member.drop_watches, Session._lose, Session._change),
        NEVER,
        seen_in("watch both", "leg"),
    ),
    "a lost connection is not told to watches": SessionMutant(
        left_out(Member.drop_watches, Member._session_callback, Session.member_changed),
        "told|silence",
        seen_in("watch both", "lep"),
    ),
    "an ensemble is not awaited": SessionMutant(
        instead(Standing.lost, awaiting_none), STATE, seen_in("watch and hold")
    ),
    "an ensemble is awaited for ever": SessionMutant(
        instead(Standing.changed, awaiting_it_still), STATE, seen_in("watch both", "ll")
    ),
    "an ensemble is awaited after LOST": SessionMutant(
        instead(Standing.begins_anew, awaiting_all_still), STATE, seen_in("hold on both", "llee")
    ),
    "every ensemble is awaited": SessionMutant(
        instead(states.matters, lambda _: lambda has_ephemerals, has_watches: True), STATE, seen_in(READ)
    ),
    "a watch that has waited in vain is not missed": SessionMutant(
        instead(Session.member_missed, nothing),
        STATE,
        seen_in("watch both", "lep"),
    ),
    "what waits is dropped at a renewal": SessionMutant(
        instead(Member._session_callback, at_a_renewal(lambda member, state: member.backlog.clear())),
        "no answer",
        seen_in(READ),
    ),
    "what waits fails at a renewal": SessionMutant(
        instead(Member._session_callback, at_a_renewal(lambda member, state: member._fail(member.backlog, state))),
        "expired, but|no request of it was lost",
        seen_in(READ),
    ),
    "the number changes when ensembles come": SessionMutant(
        instead(Registering.make, keeping_the_number), "number", seen_in(GROWS, "mm")
    ),
    "ensembles that come have no ports": SessionMutant(
        left_out(Roster._add, Roster._grow), "does not know an ensemble", seen_in(GROWS, "mm")
    ),
    "an ensemble that comes is joined at once": SessionMutant(
        instead(Roster._grow, joining_the_first),
        "joined what it does not need",
        seen_in("one becomes two, not joined", "mm"),
    ),
    "a client that has joined one ensemble is of one": SessionMutant(
        instead(Session.is_fatal, counting_members),
        "though it had no ephemeral",
        seen_in("one becomes two, not joined", "mmlee"),
    ),
    "requests to the first of several ensembles wait for ever": SessionMutant(
        instead(Roster._settle, by_its_own_hosts),
        "for ever|servers",
        seen_in(GROWS, "mml"),
    ),
    "what waits when ensembles come waits for ever": SessionMutant(
        left_out(Member._be_patient, Member.settle), "for ever", seen_in(GROWS, "mmlg")
    ),
    "a new ensemble is behind nothing": SessionMutant(
        instead(Past.grow, behind_nothing),
        "not behind what the client has changed",
        seen_in(GROWS, "mm"),
    ),
    "another ensemble is behind nothing": SessionMutant(
        instead(Past.grow, behind_nothing),
        "not behind what the client has changed",
        seen_in("two become three, hold", "mm"),
    ),
    "what one ensemble was asked for is not past": SessionMutant(
        instead(Past.grow, counting_nothing),
        "not behind what the client has changed",
        seen_in(GROWS, "mm"),
    ),
    "what is under way does not end first": SessionMutant(
        partial(patch.object, Driver, "has_older", False),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS),
    ),
    "what is under way too long goes on": SessionMutant(
        left_out(Following._fail_older, FormChange._await_older),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS + "f"),
    ),
    "what waits for a connection goes on": SessionMutant(
        left_out(Member.fail_waiting, Following._fail_waiting),
        NO_NEIGHBOUR,
        seen_in(LATER, STEPS + "f"),
    ),
    "what waits when others begin goes on": SessionMutant(
        left_out(Following._fail_waiting, FormChange._await_threads, FormChange._await_older),
        NO_NEIGHBOUR,
        seen_in("plain becomes grown, behind another", WHOLE + "lle", pace="apart"),
    ),
    "what an operation that takes too long has left waiting goes on": SessionMutant(
        left_out(Following._fail_waiting, FormChange._await_older),
        NO_NEIGHBOUR,
        seen_in("tolerant becomes grown, read", WHOLE + "l", pace="apart"),
    ),
    "a session that begins meanwhile is used": SessionMutant(
        instead(Following.unready, nothing),
        NO_NEIGHBOUR,
        seen_in(LATER, STEPS + "f"),
    ),
    "a client says a form before it works by it": SessionMutant(
        instead(Following.go_on, acknowledging_at_once),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS),
    ),
    "a client stays at its form": SessionMutant(
        instead(Following.go_on, lambda _: lambda following: following._acknowledge()),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS),
    ),
    "a client says at once that an ensemble leaves": SessionMutant(
        instead(Following.go_on, acknowledging_at_once),
        PINNED_THERE,
        seen_in("b leaves, first child", LEFT, other="empties", start="ab", pace="apart"),
        late=(0, 1),
    ),
    "an ensemble leaves while what is older is under way": SessionMutant(
        partial(patch.object, Driver, "has_older", False),
        PINNED_THERE,
        seen_in("b leaves, first child", LEFT, other="empties", start="ab", pace="apart"),
        late=(0, 1),
    ),
    "a client parts with an ephemeral": SessionMutant(
        left_out(Session._lose, Parting._part),
        NOT_LOST,
        seen_in("b leaves, hold", LEFT, other="lets go, empties"),
    ),
    "a client parts with nothing": SessionMutant(
        instead(Parting.go_on, nothing),
        "does not part",
        seen_in("b leaves, empty", LEFT),
    ),
    "what outlasts a connection is kept since too late": SessionMutant(
        instead(KeptWatches.lose, one_later),
        MISSED,
        seen_in("keep one", "l", other="sets it", start="b", pace="apart"),
    ),
    "what outlasts a connection is kept since the last one": SessionMutant(
        instead(KeptWatches.lose, since_the_last),
        MISSED,
        seen_in("keep one", "lll", other="sets it", start="b", pace="apart"),
    ),
    "a lost answer counts for what is kept": SessionMutant(
        instead(Member._have_kept, lambda _: lambda member, answer: member._kept.answered()),
        IN_SILENCE,
        seen_in("keep one", "lll", start="b"),
    ),
    "some of what outlasts a connection is not kept": SessionMutant(
        together(ONE_IN_EACH, instead(KeptWatches.requests, the_first)),
        IN_SILENCE,
        seen_in("keep what is not there", "l"),
    ),
    "nothing outlasts a connection": SessionMutant(
        instead(KeptWatches.requests, lambda _: lambda *_: []),
        IN_SILENCE,
        seen_in("keep and hold", "l"),
    ),
    "what is not there is not kept": SessionMutant(
        instead(KeptWatches.requests, without("missing")),
        IN_SILENCE,
        seen_in("keep what is not there", "l"),
    ),
    "children are not kept": SessionMutant(
        instead(KeptWatches.requests, without("children")),
        IN_SILENCE,
        seen_in("keep children", "l"),
    ),
    "what outlasts a connection is told of its end": SessionMutant(
        instead(outlasts, lambda _: lambda watch: False),
        "nothing has happened",
        seen_in("keep both", "l"),
    ),
    "what outlasts a connection outlasts its session": SessionMutant(
        instead(Member._drop_kept, nothing),
        NEVER,
        seen_in("keep both", "le"),
    ),
    "a request that was lost is sent again": SessionMutant(
        instead(Member._fail, forgetting_the_pending),
        "no answer",
        seen_in(HOLD),
    ),
}
