"""Mutations of sessions, members and handshakes, each of which breaks a promise in the explorer's sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parkazoo.engine.following import Following
from parkazoo.engine.form_change import FormChange
from parkazoo.engine.registering import Registering
from parkazoo.engine.roster import Roster
from parkazoo.engine.session import Session
from parkazoo.protocol import atlas, states
from parkazoo.protocol.holdings import Holdings
from parkazoo.protocol.past import Past
from parkazoo.protocol.standing import Standing
from parkazoo.wire import handshake
from parkazoo.wire.member import Member
from tests.explore.mutation import Mutation, reworded
from tests.explore.sessions.families import WHOLE, Sessions

BEFORE = "before the registration|is not registered"
NO_COPY, NOT_NEWEST = "before the copy of the map", "the newest map that it has read"
NOT_LOST, LIVES_ON = "the client was not LOST", "lives on"
STATE, NEVER = "it waits for", "never told"
NO_NEIGHBOUR = "a request of form"


@dataclass(frozen=True)
class SessionMutant(Mutation):
    """A mutation, and the scenario in which it is seen.

    :param violation: what the explorer says.
    """

    violation: str
    seen_in: Sessions


def seen_in(
    program: str, troubles: str = "le", *, other: str = "nothing", start: str = "a", pace: str = "at once"
) -> Sessions:
    return Sessions(program, other, troubles, start, pace)


GROWS, RISES = "one becomes two, hold", "plain becomes grown, first children"
LATER = "tolerant becomes grown, hold and read"
STEPS = "mmm"  # until the form behind the next one is published
HOLD, HOLD_MANY, READ = "hold and read", "hold by transaction and read", "read only"
TAKE_COPY = "_verify(member.owner.take_copy(member, copy, str(address)))"
MUTANTS: Mapping[str, SessionMutant] = {
    "a session registers after its first request": SessionMutant(
        reworded(
            Member.must_register, ["return not self.is_renewing and self._registered != session", "return False"]
        ),
        BEFORE,
        seen_in(HOLD),
    ),
    "a renewed session does not register": SessionMutant(
        reworded(Member.must_register, ["self._registered != session", "not self._registered"]),
        BEFORE,
        seen_in(READ),
    ),
    "the copy is read before the registration": SessionMutant(
        reworded(
            handshake._register,
            [
                "[create, *OWN_READS]",
                "[OWN_READS[0], create, OWN_READS[1]]",
                "return answers",
                "return [answers[1], answers[0], *answers[2:]]",
            ],
        ),
        NO_COPY,
        seen_in(HOLD),
    ),
    "the copy is not taken at a join": SessionMutant(
        reworded(handshake._open_session, [TAKE_COPY, "pass"]), NOT_NEWEST, seen_in(HOLD, "mm")
    ),
    "the copy is not taken at a renewal": SessionMutant(
        reworded(Roster.take_copy, ["    try:", "    if member in self.known:\n        return None\n    try:"]),
        NOT_NEWEST,
        seen_in(READ, "lemm"),
    ),
    "an older copy lowers the epoch": SessionMutant(
        reworded(atlas.newer_of, ["if kind is not CopyKind.NEWER:", "if kind is CopyKind.SAME:"]),
        "older map",
        seen_in(HOLD, "lmmm"),
    ),
    "a newer map is not registered": SessionMutant(
        reworded(Registering.acknowledge, ["self.register_again(member, is_one)", "pass"]),
        "newest map",
        seen_in(HOLD, "lmmm"),
    ),
    "a registration whose answer is lost counts": SessionMutant(
        reworded(
            Registering.register_again,
            ["registered = OnAnswer(", "self._registered[member] = epoch\n        registered = OnAnswer("],
        ),
        "newest map",
        seen_in(READ, "lm"),
    ),
    "addresses of a newer map are not taken over": SessionMutant(
        reworded(Roster._follow, ["self._settle(member, member.name)", "pass"]), "servers", seen_in(HOLD, "lmmm")
    ),
    "a session with an ephemeral is renewed": SessionMutant(
        reworded(states.is_fatal, ["has_ephemerals or is_alone", "is_alone"]), NOT_LOST, seen_in(HOLD)
    ),
    "a create without an answer does not count": SessionMutant(
        reworded(Holdings.lost, ["self._add(", "(lambda path: None)("]), NOT_LOST, seen_in(HOLD)
    ),
    "a transaction without an answer does not count": SessionMutant(
        reworded(Holdings.lost, ["_operations(request)", "(request,)"]),
        NOT_LOST,
        seen_in(HOLD_MANY),
    ),
    "a transaction's create does not count": SessionMutant(
        reworded(Holdings.answered, ["elif answer", "elif not answer"]), STATE, seen_in(HOLD_MANY)
    ),
    "a deleted ephemeral counts": SessionMutant(
        reworded(Holdings._done, ["self._paths.discard(operation.path)", "pass"]),
        "though it had no ephemeral|it waits for",
        seen_in("hold and let go"),
    ),
    "LOST is not told": SessionMutant(
        reworded(Session._lose, ["self._change(KeeperState.EXPIRED_SESSION)", "pass"]),
        "number|LOST",
        seen_in(HOLD),
    ),
    "an expired session with an ephemeral does not end the others": SessionMutant(
        reworded(
            Session.member_changed,
            [
                'self._lose(f"that on ensemble {member.name} has expired", member)',
                "self._change(KeeperState.EXPIRED_SESSION)",
            ],
        ),
        "number|LOST|lives on",
        seen_in("hold on both"),
    ),
    "the other sessions are not closed": SessionMutant(
        reworded(Session._lose, ["member.renew(why)", "pass"]), f"{LIVES_ON}|{STATE}", seen_in("hold on both")
    ),
    "the number outlives LOST": SessionMutant(
        reworded(Session._lose, ["self.registering.renumber()", "pass"]), "number", seen_in(HOLD)
    ),
    "a renewal changes the number": SessionMutant(
        reworded(
            Registering.make,
            [
                "self._registered[member]",
                "self.renumber()\n    self._registered[member]",
            ],
        ),
        "number",
        seen_in(READ),
    ),
    "a watch is told twice": SessionMutant(
        reworded(
            Member.drop_watches,
            ["self._child_watchers, self._data_watchers = defaultdict(set), defaultdict(set)", "pass"],
        ),
        "told twice",
        seen_in("watch both"),
    ),
    "watches elsewhere are not told of SUSPENDED": SessionMutant(
        reworded(Session._change, ["self.drop_watches(state)", "pass"]), NEVER, seen_in("watch both")
    ),
    "watches are not told of LOST": SessionMutant(
        reworded(Session._lose, ["member.drop_watches(KeeperState.EXPIRED_SESSION)", "pass"]),
        NEVER,
        seen_in("watch both", "leg"),
    ),
    "a lost connection is not told to watches": SessionMutant(
        reworded(Member._session_callback, ["self.drop_watches(state)", "pass"]),
        "told|silence",
        seen_in("watch both", "lep"),
    ),
    "an ensemble is not awaited": SessionMutant(
        reworded(Standing.lost, ["self._awaited.add(member)", "pass"]), STATE, seen_in("watch and hold")
    ),
    "an ensemble is awaited for ever": SessionMutant(
        reworded(Standing.changed, ["self._awaited.discard(member)", "pass"]), STATE, seen_in("watch both", "ll")
    ),
    "an ensemble is awaited after LOST": SessionMutant(
        reworded(Standing.begins_anew, ["self._awaited.clear()", "pass"]), STATE, seen_in("hold on both", "llee")
    ),
    "every ensemble is awaited": SessionMutant(
        reworded(states.matters, ["has_ephemerals or has_watches", "True"]), STATE, seen_in(READ)
    ),
    "a watch that has waited in vain is not missed": SessionMutant(
        reworded(Member._fail_oldest, ["if any(leaves_watch(request) for request, _ in oldest):", "if False:"]),
        STATE,
        seen_in("watch both", "lep"),
    ),
    "what waits is dropped at a renewal": SessionMutant(
        reworded(
            Member._session_callback,
            [
                "    self._forget_session()\n        return",
                "    self.backlog.clear()\n        self._forget_session()\n        return",
            ],
        ),
        "no answer",
        seen_in(READ),
    ),
    "what waits fails at a renewal": SessionMutant(
        reworded(
            Member._session_callback,
            [
                "    self._forget_session()\n        return",
                "    self._fail(self.backlog, state)\n        self._forget_session()\n        return",
            ],
        ),
        "expired, but|no request of it was lost",
        seen_in(READ),
    ),
    "the number changes when ensembles come": SessionMutant(
        reworded(Registering.make, ["self.number = session", "pass"]), "number", seen_in(GROWS, "mm")
    ),
    "ensembles that come have no ports": SessionMutant(
        reworded(Roster._grow, ["self._add(come)", "pass"]), "does not know an ensemble", seen_in(GROWS, "mm")
    ),
    "an ensemble that comes is joined at once": SessionMutant(
        reworded(Roster._grow, ["self._add(come)", "self._add(come)\n    self._join(come[0])"]),
        "joined what it does not need",
        seen_in("one becomes two, not joined", "mm"),
    ),
    "a client that has joined one ensemble is of one": SessionMutant(
        reworded(Session.is_fatal, ["self.roster.is_of_one", "len(self.roster.members) == 1"]),
        "though it had no ephemeral",
        seen_in("one becomes two, not joined", "mmlee"),
    ),
    "requests to the first of several ensembles wait for ever": SessionMutant(
        reworded(Roster._settle, ["self._atlas.is_of_one", "member is self.first"]),
        "for ever|servers",
        seen_in(GROWS, "mml"),
    ),
    "what waits when ensembles come waits for ever": SessionMutant(
        reworded(Member.settle, ["self._be_patient()", "pass"]), "for ever", seen_in(GROWS, "mmlg")
    ),
    "a new ensemble is behind nothing": SessionMutant(
        reworded(Past.grow, ["+= [0] *", "+= [self._count] *"]),
        "not behind what the client has changed",
        seen_in(GROWS, "mm"),
    ),
    "another ensemble is behind nothing": SessionMutant(
        reworded(Past.grow, ["+= [0] *", "+= [self._count] *"]),
        "not behind what the client has changed",
        seen_in("two become three, hold", "mm"),
    ),
    "what one ensemble was asked for is not past": SessionMutant(
        reworded(Past.grow, ["self._forgotten = self._count = 1", "pass"]),
        "not behind what the client has changed",
        seen_in(GROWS, "mm"),
    ),
    "what is under way does not end first": SessionMutant(
        reworded(FormChange._await_older, ["if self._driver.has_older:", "if False:"]),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS),
    ),
    "what is under way too long goes on": SessionMutant(
        reworded(FormChange._await_older, ["self._fail_older()", "pass"]),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS + "f"),
    ),
    "what waits for a connection goes on": SessionMutant(
        reworded(Following._fail_waiting, ["member.fail_waiting(None)", "pass"]),
        NO_NEIGHBOUR,
        seen_in(LATER, STEPS + "f"),
    ),
    "what waits when others begin goes on": SessionMutant(
        reworded(FormChange._await_threads, ["self._fail_waiting()", "pass"]),
        NO_NEIGHBOUR,
        seen_in("plain becomes grown, behind another", WHOLE + "lle", pace="apart"),
    ),
    "what an operation that takes too long has left waiting goes on": SessionMutant(
        reworded(FormChange._await_older, ["self._fail_waiting()", "pass"]),
        NO_NEIGHBOUR,
        seen_in("tolerant becomes grown, read", WHOLE + "l", pace="apart"),
    ),
    "a session that begins meanwhile is used": SessionMutant(
        reworded(Following.unready, ["if self._form_change is None:", "if True:"]),
        NO_NEIGHBOUR,
        seen_in(LATER, STEPS + "f"),
    ),
    "a client says a form before it works by it": SessionMutant(
        reworded(
            Following.go_on,
            [
                "        return\n    if isinstance",
                "    if isinstance",
            ],
        ),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS),
    ),
    "a client stays at its form": SessionMutant(
        reworded(Following.go_on, ["driver.context.form < cluster_map.form", "False"]),
        NO_NEIGHBOUR,
        seen_in(RISES, STEPS),
    ),
    "a request that was lost is sent again": SessionMutant(
        reworded(Member._session_callback, ["self._fail(self._pending, state)", "self._pending.clear()"]),
        "no answer",
        seen_in(HOLD),
    ),
}
