"""What the journals of loads/elsewhere.py must say.

Each state was recorded when it changed, with the ensembles that were not connected then, so no clock decides what
follows. Of a client that holds something on one ensemble the judge checks:

- it is SUSPENDED only if that ensemble is not connected, and LOST only if its session there has expired;
- a request fails only if the client was not CONNECTED meanwhile, or did not hold anything yet;
- it is LOST before it finds an ephemeral of its own gone;
- after LOST it writes nothing under a lock that it acquired before, unless a server may have called a living
  session expired; and for all clients, the locks as in lock.py;
- its id is another one only after LOST.

While all servers of an ensemble are away, for more than two session time-outs and with nothing else wrong:

- a client that holds something there is SUSPENDED, and gets no answer;
- a client that holds something elsewhere gets answers, and waits for none longer than two session time-outs;
- a client starts, and reads on another ensemble.

At all times a client stops, unless its process was frozen meanwhile.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kazoo.handlers.threading import KazooTimeoutError

from parkazoo import ClusterMapError
from tests.faults.judges import guarded_writes
from tests.faults.judges.holding import Life, lives
from tests.faults.judges.spans import Spans
from tests.faults.load import Fault, Judgement, Record, Run
from tests.faults.loads.elsewhere import HOLDERS
from tests.faults.loads.one_down import NAMES
from tests.faults.retries import LOST
from tests.faults.schedule import ENSEMBLE_KINDS

LOST_NAMES = {error.__name__ for error in LOST}
REFUSED_NAMES = {*LOST_NAMES, KazooTimeoutError.__name__, ClusterMapError.__name__}  # of a start
REASONS = {"SUSPENDED": "away", "LOST": "expired"}  # the field of a state that has its ensembles
LONG = 2.0  # session timeouts
# Faults in which a server calls sessions expired that live: it is another ensemble's, or shuts down.
UNTRUE = ("address moves", "restart")


class Outage(NamedTuple):
    """A long time in which no server of an ensemble answers.

    :param well: the other ensembles that had no fault in that time, nor just before.
    """

    ensemble: str
    since_s: float
    until_s: float
    well: frozenset[str]

    def __str__(self) -> str:
        return f"while ensemble {self.ensemble} was away, from {self.since_s:.3f} to {self.until_s:.3f} s"

    def holds(self, record: Record) -> bool:
        """Whether what the record tells was begun and done in that time."""
        return self.since_s <= record.fields["began"] and record.at_s <= self.until_s


def judge(run: Run) -> Judgement:
    holders = run._replace(records=[*_holders(run)])
    judged = guarded_writes.judge(holders)
    outages = outages_of(run)
    problems = [*judged.problems]
    untouched, answers = 0, 0
    clients = _clients(holders)
    for client in clients:
        problems += client.problems()
        for outage in outages:
            if outage.ensemble == client.ensemble:
                problems += client.untold(outage)
            elif client.ensemble in outage.well and client.is_well(outage):
                untouched += 1
                answers += len(client.answers(outage))
                problems += client.held_up(outage, LONG * run.session_timeout_s)
    starts = _Starts(run)
    problems += starts.problems(outages)
    states = [each.fields["state"] for client in clients for each in client.states]
    figures = {
        **judged.figures,
        "times an ensemble was away": len(outages),
        "clients that held nothing there": untouched,
        "answers to them": answers,
        "starts meanwhile": sum(starts.count(outage) for outage in outages),
        "SUSPENDED": states.count("SUSPENDED"),
        "LOST": states.count("LOST"),
    }
    return Judgement(problems, figures)


def _holders(run: Run) -> Iterator[Record]:
    """Without the clients that start and stop; the states are those that were seen when they changed."""
    for record in run.records:
        if record.what == "seen":
            yield record._replace(what="state")
        elif record.what != "state" and record.worker < HOLDERS:
            yield record


def outages_of(run: Run) -> list[Outage]:
    """The long ones."""
    on_servers = [each for each in run.faults if "/" not in each.target]
    faults = {
        name: Spans(
            (each.began_s, each.ended_s + run.session_timeout_s) for each in on_servers if name in each.target
        )
        for name in NAMES
    }
    return [
        Outage(
            each.target,
            each.since_s,
            each.until_s,
            frozenset(name for name in NAMES if not faults[name].touch(each.since_s, each.until_s)),
        )
        for each in on_servers
        if each.kind in ENSEMBLE_KINDS and each.until_s - each.since_s > LONG * run.session_timeout_s
    ]


def _clients(run: Run) -> list[_Client]:
    records: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in run.records:
        records[record.worker, record.life].append(record)
    return [_Client(life, records[key], run.faults) for key, life in lives(run).items()]


class _Client:
    """One life of a worker that holds something, until it stops its client."""

    def __init__(self, life: Life, records: Sequence[Record], faults: Sequence[Fault]) -> None:
        self._life = life
        self._records = [*itertools.takewhile(lambda each: each.what != "stopping", records)]
        self.ensemble = NAMES[records[0].worker % len(NAMES)]
        self._untrue = Spans(
            (each.began_s, each.ended_s)
            for each in faults
            if each.kind in UNTRUE and each.target.startswith(self.ensemble)
        )
        self.states = self._of("state")
        self._lost_s = [each.at_s for each in self.states if each.fields["state"] == "LOST"]
        made_s = [each.at_s for each in self._of("made")]
        empty = [(since_s, _after(made_s, since_s)) for since_s in (0.0, *self._lost_s)]
        self._connected_s = [each.at_s for each in self.states if each.fields["state"] == "CONNECTED"]
        unconnected = [
            (each.at_s, _after(self._connected_s, each.at_s))
            for each in self.states
            if each.fields["state"] != "CONNECTED"
        ]
        self._empty = Spans(empty)  # it holds nothing yet
        self._excused = Spans([*empty, *unconnected])

    def _of(self, what: str) -> list[Record]:
        return [each for each in self._records if each.what == what]

    def __str__(self) -> str:
        return f"{self._life.name}, which holds something on {self.ensemble},"

    def problems(self) -> list[str]:
        return [*self._reasonless(), *self._other_ids(), *self._failures(), *self._losses(), *self._beliefs()]

    def _reasonless(self) -> Iterator[str]:
        since_s = next((each.at_s for each in self._of("settled")), float("inf"))
        for each in self.states:
            reason = REASONS.get(each.fields["state"])
            if reason and since_s < each.at_s and self.ensemble not in each.fields[reason]:
                yield f"{self} was {each.fields['state']} at {each.at_s:.3f} s: {reason}: {each.fields[reason]}"

    def _other_ids(self) -> Iterator[str]:
        connected = [each for each in self.states if each.fields["state"] == "CONNECTED"]
        for before, after in itertools.pairwise(connected):
            ids = before.fields["id"], after.fields["id"]
            if ids[0] != ids[1] and not self._is_lost(before.at_s, after.at_s):
                yield f"{self} had the id {ids[0]}, and {ids[1]} at {after.at_s:.3f} s without LOST"

    def _is_lost(self, since_s: float, until_s: float) -> bool:
        return any(since_s <= each <= until_s for each in self._lost_s)

    def _failures(self) -> Iterator[str]:
        for each in self._of("done"):
            error = each.fields["error"]
            if error and error not in LOST_NAMES:
                yield f"{self} was answered {error} at {each.at_s:.3f} s"
            elif error and not self._excused.touch(each.fields["began"], each.at_s):
                yield f"{self} was answered {error} at {each.at_s:.3f} s and was CONNECTED"

    def _losses(self) -> Iterator[str]:
        made = {each.fields["path"]: each for each in self._of("made")}
        for each in self._of("missed"):
            path = each.fields["path"]
            # A server may answer before it says that the session has ended.
            until_s = _after(self._connected_s, each.at_s)
            if not self._is_lost(made[path].fields["began"], until_s):
                yield f"{self} found its ephemeral {path} gone at {each.at_s:.3f} s and was not LOST"

    def _beliefs(self) -> Iterator[str]:
        acquired = {each.fields["hold"]: each for each in self._of("acquired")}
        truly_lost_s = [at_s for at_s in self._lost_s if not self._untrue.touch(at_s, at_s)]
        for each in self._of("guarded"):
            since_s = acquired[each.fields["hold"]].at_s
            if any(since_s <= at_s <= each.fields["began"] for at_s in truly_lost_s):
                yield f"{self} acquired the lock at {since_s:.3f} s, was LOST, and wrote at {each.at_s:.3f} s"

    def answers(self, outage: Outage) -> list[Record]:
        return [each for each in self._of("done") if not each.fields["error"] and outage.holds(each)]

    def is_well(self, outage: Outage) -> bool:
        """Whether it held something before, was CONNECTED all the time, and ran."""
        when = outage.since_s, outage.until_s
        return not self._empty.touch(*when) and not self._life.is_broken(*when)

    def untold(self, outage: Outage) -> Iterator[str]:
        """What it has on the ensemble that is away."""
        if self.is_well(outage):
            yield f"{self} was CONNECTED {outage}"
        if self.answers(outage):
            yield f"{self} was answered {outage}"

    def held_up(self, outage: Outage, longest_s: float) -> Iterator[str]:
        if not self.answers(outage):
            yield f"{self} was not answered {outage}"
        for each in self._of("done"):
            began_s = each.fields["began"]
            if outage.since_s <= began_s and min(each.at_s, outage.until_s) - began_s > longest_s:
                yield f"{self} had to wait from {began_s:.3f} to {each.at_s:.3f} s {outage}"


class _Starts:
    """Of the clients that start, read on one ensemble, and stop."""

    def __init__(self, run: Run) -> None:
        records = [each for each in run.records if each.worker == HOLDERS]
        self._visits = [each for each in records if each.what == "visited"]
        self._unclosed = [each for each in records if each.what == "unclosed"]
        self._lives = lives(run._replace(records=records)).values()

    def count(self, outage: Outage) -> int:
        return sum(
            outage.holds(each) and not each.fields["error"] and each.fields["ensemble"] in outage.well
            for each in self._visits
        )

    def problems(self, outages: Sequence[Outage]) -> Iterator[str]:
        for each in self._visits:
            if each.fields["error"] and each.fields["error"] not in REFUSED_NAMES:
                yield f"a start, or the read behind it, raised {each.fields['error']} at {each.at_s:.3f} s"
        for each in self._unclosed:
            began_s = each.fields["began"]
            if not any(life.is_broken(began_s, each.at_s) for life in self._lives if life.first_s <= began_s):
                yield f"a stop from {began_s:.3f} to {each.at_s:.3f} s did not end the sessions"
        for outage in outages:
            if outage.well and self._runs_through(outage) and not self.count(outage):
                yield f"no client could start {outage}"

    def _runs_through(self, outage: Outage) -> bool:
        return any(
            life.first_s < outage.since_s and not life.is_broken(outage.since_s, outage.until_s)
            for life in self._lives
        )


def _after(times_s: Iterable[float], since_s: float) -> float:
    """The first of them since then; they are in order."""
    return next((each for each in times_s if each >= since_s), float("inf"))
