"""What is said of a cluster's writes: how hot its ensembles are, by whom, and what growing would bring. Pure.

Each adviser yields sentences with their figures, and none where it cannot know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from parkazoo.admin.rates import ClientRates, Rates
from parkazoo.admin.rebalance_plan import WORTH, branches_of, make_plan
from parkazoo.admin.write_counts import DirectoryWrites, is_own
from parkazoo.protocol.placement import ROOT

FOLLOW, SAMPLE = "follow", "sample"
# Judgement, not measured.
LONG_QUEUE = 10
SLOW_MS = 100.0
UNEXPLAINED = 0.1  # of the writes: more is said, and then no share is
MOSTLY = 0.5  # of the writes: more are unexplained, and then the directories were not seen
FEW = 10  # transactions: less says nothing
UNEVEN = 1.25  # times an ensemble's share by weight
BUSY_CLIENT = 0.25  # of all requests
ONE_ZNODE = 0.5  # of its directory's writes
LITTLE = 0.05  # of all writes
PERIODS = {"an hour": 3600.0, "a day": 86400.0, "a week": 604800.0}
OLDER = 10  # times a period a tree has to be, so that its young directories say something
ADOPTED = 3  # ensembles, of which a ZooKeeper that is adopted becomes one
NO_ANSWER = "not all servers answer `srvr` and `mntr`"
NO_P99 = "`mntr` tells no p99 of its writes, which ZooKeeper has since 3.6"
NAMED = 2  # directories of a busy ensemble
MOVES_NAMED = 3
SHOWN = 30
REBALANCES = "`parkazoo map rebalance` can move"


class Sentence(NamedTuple):
    """:param kind: for programs. :param figures: that the text has, unrounded; shares are from 0 to 1."""

    kind: str
    text: str
    figures: Mapping[str, object] = {}


@dataclass(frozen=True)
class Measured:
    """Describes what was seen of a cluster, or of a ZooKeeper that is none yet.

    :param measure: FOLLOW or SAMPLE. :param seconds: that writes were counted.
    :param rates: of ensembles, servers and clients in that time; `queue` waited at its begin and at its end.
    :param directories: all that were written, the hottest first.
    :param weights: by ensemble, of the newest epoch.
    :param bound: directories that a rule of the map keeps from a new ensemble.
    :param ruled: directories that a rule of the map is about.
    :param can_move: whether directories can move: by the map's form.
    :param tree_s: how old the oldest top-level znode is; None: not known.
    :param now_s: since the epoch.
    :param is_plain: whether it has no map yet.
    :param unseen: by ensemble: why its directories, or some, were not seen.
    """

    measure: str
    seconds: float
    rates: Rates
    directories: Sequence[DirectoryWrites]
    weights: Mapping[str, int]
    bound: frozenset[str] = frozenset()
    ruled: frozenset[str] = frozenset()
    can_move: bool = False
    tree_s: float | None = None
    now_s: float = 0.0
    is_plain: bool = False
    unseen: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def explained(self) -> Mapping[str, float]:
        """The writes/s of the directories that were measured, by ensemble."""
        found: dict[str, float] = defaultdict(float)
        for each in self.directories:
            found[each.ensemble] += each.writes
        return found

    @cached_property
    def whole(self) -> Mapping[str, float | None]:
        """All writes/s, by ensemble; None: not known. A transaction of several writes counts as that many."""
        return {
            each.ensemble: None if each.writes is None else max(each.writes, self.explained[each.ensemble])
            for each in self.rates.ensembles
        }

    @cached_property
    def total(self) -> float | None:
        """The writes/s of all ensembles; None if those of one are not known."""
        found = self.whole.values()
        return None if None in found else sum(each or 0.0 for each in found)

    def unexplained(self, ensemble: str) -> float:
        """Returns which part of its writes is in no directory that was seen; 0.0 if they are few, or not known."""
        whole = self.whole[ensemble]
        rest = whole - self.explained[ensemble] if whole else 0.0
        return rest / whole if whole and rest * self.seconds >= FEW else 0.0

    def carriers(self) -> Sequence[str]:
        """Returns the ensembles to which new directories go."""
        return [each.ensemble for each in self.rates.ensembles if self.weights.get(each.ensemble)]


class Advice(NamedTuple):
    measured: Measured
    sentences: Sequence[Sentence]

    def share(self, each: DirectoryWrites) -> float | None:
        """Returns its part of all writes; None if these are not known."""
        total = self.measured.total
        return each.writes / total if total else None

    def age_s(self, each: DirectoryWrites) -> float | None:
        """Returns how old a directory is; None if that is not known, or it is ``/``."""
        return self.measured.now_s - each.made_s if each.made_s else None

    def is_blind(self) -> bool:
        """Whether an ensemble's directories were not seen, or mostly not, or nobody told how much is written."""
        whole = self.measured.whole
        return (
            bool(self.measured.unseen)
            or all(each is None for each in whole.values())
            or any(self.measured.unexplained(name) > MOSTLY for name in whole)
        )

    def to_json(self) -> dict[str, Any]:
        measured = self.measured
        return {
            "cluster": None if measured.is_plain else measured.rates.cluster,
            "map": None if measured.is_plain else measured.rates.map,
            "measure": measured.measure,
            "seconds": round(measured.seconds, 3),
            "advice": [{**each._asdict(), "figures": dict(each.figures)} for each in self.sentences],
            "ensembles": [
                {
                    "ensemble": each.ensemble,
                    "weight": measured.weights.get(each.ensemble),
                    "writes": each.writes,
                    "share": each.share,
                    "queue": each.queue,
                    "p99_ms": each.p99_ms,
                }
                for each in measured.rates.ensembles
            ],
            "directories": [
                {
                    "directory": each.directory,
                    "ensemble": each.ensemble,
                    "writes": round(each.writes, 2),
                    "share": None if (share := self.share(each)) is None else round(share, 4),
                    "age_s": None if (age_s := self.age_s(each)) is None else round(age_s),
                }
                for each in measured.directories[:SHOWN]
            ],
            "clients": [each._asdict() for each in measured.rates.clients[:SHOWN]],
            "unseen": dict(measured.unseen),
        }


def advise_on(measured: Measured) -> Advice:
    return Advice(measured, [sentence for adviser in ADVISERS for sentence in adviser(measured)])


# ---- the advisers --------------------------------------------------------------------------------


def _looked(measured: Measured) -> Iterator[Sentence]:
    writes = measured.total
    how = "each change was counted" if measured.measure == FOLLOW else "by two looks at each znode"
    told = "" if writes is None else f": {writes:,.0f} writes/s"
    yield Sentence("looked", f"Looked for {measured.seconds:.0f} s, {how}{told}.", {"writes": writes})
    for name, why in measured.unseen.items():
        yield Sentence(
            "unseen",
            f"The directories of {_on(measured, name)} were not all seen: {why}.",
            {"ensemble": name, "why": why},
        )
    for each in measured.rates.ensembles:
        if each.writes is None:
            yield Sentence(
                "unknown-writes",
                f"How much is written on {_on(measured, each.ensemble)} is not known: its leader has "
                "changed, or does not answer.",
                {"ensemble": each.ensemble},
            )


def _needed(measured: Measured) -> Iterator[Sentence]:
    """Whether anything is needed at all."""
    ensembles = measured.rates.ensembles
    hot = [each for each in ensembles if each.queue is not None and each.queue > LONG_QUEUE]
    slow = [each for each in ensembles if each.p99_ms is not None and each.p99_ms > SLOW_MS]
    troubled = {each.ensemble for each in measured.rates.servers if each.trouble}
    unknown: dict[str, list[str]] = {}
    for each in ensembles:
        if each.queue is None or (each.p99_ms is None and each.ensemble in troubled):
            unknown.setdefault(NO_ANSWER, []).append(each.ensemble)
        elif each.p99_ms is None:
            unknown.setdefault(NO_P99, []).append(each.ensemble)
    for each in hot:
        yield Sentence(
            "hot",
            f"{_begun(_on(measured, each.ensemble))} is hot: {each.queue:,} requests and more waited whenever "
            f"they were counted.{_by_whom(measured, each.ensemble)}",
            {"ensemble": each.ensemble, "queue": each.queue, "directories": _hottest_of(measured, each.ensemble)},
        )
    for each in slow:
        yield Sentence(
            "slow",
            f"{_begun(_on(measured, each.ensemble))} was slow: of its writes 1% took {each.p99_ms:,.0f} ms and "
            "more since its servers' start.",
            {"ensemble": each.ensemble, "p99_ms": each.p99_ms},
        )
    for why, names in unknown.items():
        yield Sentence(
            "unknown-need",
            f"Whether {_list([_on(measured, name) for name in names])} can keep up is not known: {why}.",
            {"ensembles": names},
        )
    if not unknown and not hot and not slow:
        queue = max(each.queue or 0 for each in ensembles)
        slowest = max(each.p99_ms or 0.0 for each in ensembles)
        waiting = f"no more than {queue} of an ensemble's requests wait" if queue else "no request waits"
        yield Sentence(
            "nothing-needed",
            f"You need nothing: {waiting}, and 99% of the writes took at most {slowest:,.0f} ms (since each "
            "server's start).",
            {"queue": queue, "p99_ms": slowest},
        )


def _hottest_of(measured: Measured, ensemble: str) -> dict[str, float]:
    """The hottest directories of an ensemble, with their shares of its writes; none if these are not known."""
    mine = [each for each in measured.directories if each.ensemble == ensemble and not is_own(each)]
    whole = measured.whole[ensemble]
    return {each.directory: each.writes / whole for each in mine[:NAMED]} if whole else {}


def _by_whom(measured: Measured, ensemble: str) -> str:
    """The same, as a sentence; empty if they are not known."""
    told = [f"{directory} {share:.0%}" for directory, share in _hottest_of(measured, ensemble).items()]
    return f" Of its writes have: {_list(told)}." if told else ""


def _limited(measured: Measured) -> Iterator[Sentence]:
    """By the ensemble that has more than its share by weight."""
    carriers = measured.carriers()
    if _enough(measured) is None or len(carriers) < 2:
        return
    writes = {name: each or 0.0 for name, each in measured.whole.items()}
    carried = sum(writes[name] for name in carriers)
    weights = sum(measured.weights[name] for name in carriers)
    even = {name: measured.weights[name] / weights for name in carriers}
    fullest = max(carriers, key=lambda name: writes[name] / even[name])
    others = [each for name, each in writes.items() if name not in even]
    if writes[fullest] <= max(others, default=0.0):
        return  # an ensemble that gets nothing new has most: the weights say nothing of it
    shares = {name: writes[name] / carried for name in carriers}
    where = "Of the writes where new directories go" if any(others) else "Of all writes"
    told = f"{where} have: {', '.join(f'{name} {shares[name]:.0%}' for name in carriers)}."
    figures = {
        "shares": shares,
        "fullest": fullest,
        "carries": 1 / shares[fullest],
        "could_carry": 1 / even[fullest],
    }
    if shares[fullest] <= UNEVEN * even[fullest]:
        yield Sentence("even", f"{told} That is even.", figures)
    else:
        yield Sentence(
            "uneven",
            f"{told} {fullest} is the first to limit you: as the writes are spread, all together carry "
            f"{1 / shares[fullest]:.1f} times as much as {fullest} alone, and {1 / even[fullest]:.1f} times if "
            f"it had the {even[fullest]:.0%} of its weight.{_by_whom(measured, fullest)}",
            {**figures, "directories": _hottest_of(measured, fullest)},
        )


def _clients(measured: Measured) -> Iterator[Sentence]:
    clients = measured.rates.clients
    if len(clients) < 2:
        return
    are_all_seen = all(each.requests is not None for each in clients) and not any(
        each.trouble for each in measured.rates.servers
    )
    of_which = "all requests" if are_all_seen else "the requests that were seen"
    for each in clients:
        if each.share is not None and each.share > BUSY_CLIENT:
            yield Sentence(
                "busy-client",
                f"{describe_asker(each)} sends {each.share:.0%} of {of_which} ({each.requests:,.0f}/s).",
                {"client": each.client, "share": each.share, "requests": each.requests},
            )


def _enough(measured: Measured) -> float | None:
    """All writes/s; None if they are not known, or too few to say anything."""
    total = measured.total
    return total if total and total * measured.seconds >= FEW else None


def _unexplained(measured: Measured) -> Iterator[Sentence]:
    for each in measured.rates.ensembles:
        share = measured.unexplained(each.ensemble)
        if share > UNEXPLAINED and each.ensemble not in measured.unseen:
            rest = share * (measured.whole[each.ensemble] or 0.0)
            yield Sentence(
                "unexplained",
                f"{share:.0%} of the writes on {_on(measured, each.ensemble)} ({rest:,.0f}/s) are "
                f"in no directory that was seen: {_list(_invisible(measured), 'or')}.",
                {"ensemble": each.ensemble, "share": share, "writes": rest},
            )


def _invisible(measured: Measured) -> Sequence[str]:
    always = [
        "sessions that begin and end",
        "writes that fail",
        "set_acls",
        "znodes that this identity may not read",
    ]
    return always if measured.measure == FOLLOW else [*always, "znodes that came and went between the looks"]


def _indivisible(measured: Measured) -> Iterator[Sentence]:
    """The directories with more of all writes than one of the ensembles should have, after one more has come."""
    total = _enough(measured)
    if not total:
        return
    even = 1 / ensembles_then(measured)
    for each in measured.directories:
        share = each.writes / total
        if share <= even or is_own(each):
            continue
        child, part = each.hottest
        figures = {"directory": each.directory, "ensemble": each.ensemble, "share": share}
        if part > ONE_ZNODE:
            yield Sentence(
                "one-znode",
                f"{child} alone has {part * share:.0%} of all writes: no ensemble, and no bucket, can take a "
                "part of one znode's.",
                {**figures, "znode": child, "znode_share": part * share},
            )
        else:
            yield Sentence(
                "one-directory",
                f"{each.directory} alone has {share:.0%} of all writes: no ensemble can take a part of it. "
                f"client.Spread({each.directory!r}, buckets) puts its children on all; its programs must change "
                "for that, and can have no sequence numbers there, so neither kazoo's locks nor its queues.",
                figures,
            )


def _growing(measured: Measured) -> Iterator[Sentence]:
    """By the writes in directories that are so young that a new ensemble could have had them."""
    total = _enough(measured)
    if not total:
        return
    if why := _why_unknown(measured, total):
        yield Sentence(
            "unknown-growth",
            f"How much growing would bring cannot be said: {why}. {REBALANCES} what is there.",
        )
        return
    assert measured.tree_s is not None
    then = ensembles_then(measured)
    more = then - len(measured.carriers())
    periods = {name: seconds for name, seconds in PERIODS.items() if measured.tree_s >= OLDER * seconds}
    young = {name: _young(measured, seconds) / total for name, seconds in periods.items()}
    brings = {name: share * more / then for name, share in young.items()}
    who = "One more ensemble gets" if more == 1 else f"{more} more ensembles get"
    told = _list([f"{share:.0%} in directories younger than {name}" for name, share in young.items()])
    after = _list([f"{share:.0%} after {name}" for name, share in brings.items()])
    of_them = "one" if more == 1 else str(more)
    text = (
        f"{who} only directories that are made from then on, {of_them} in {then}. Of all writes are {told}. If "
        f"such directories go on coming, {'it has' if more == 1 else 'they have'} {after}; the others stay where "
        f"they are. {REBALANCES} them."
    )
    if max(brings.values()) < LITTLE:
        text += " Growing would bring little."
    yield Sentence("growth", text, {"young": young, "brings": brings})


def _why_unknown(measured: Measured, total: float) -> str:
    if measured.tree_s is None:
        return "the age of the tree is not known"
    shortest = min(PERIODS.values())
    if measured.tree_s < OLDER * shortest:
        return f"the tree is {describe_age(measured.tree_s)} old, too young to tell new directories from others"
    aged = sum(each.writes for each in measured.directories if each.made_s is not None or is_own(each))
    if aged < (1 - UNEXPLAINED) * total:
        return f"of {1 - aged / total:.0%} of the writes it is not known how old their directories are"
    return ""


def _young(measured: Measured, period_s: float) -> float:
    """The writes/s in directories that were made within the period, and that could go elsewhere."""
    return sum(
        each.writes
        for each in measured.directories
        if each.made_s is not None
        and measured.now_s - each.made_s < period_s
        and not is_own(each)
        and each.directory not in measured.bound
    )


def _moving(measured: Measured) -> Iterator[Sentence]:
    """Which moves would spread the writes: as `map rebalance` plans them, but for how many znodes they copy."""
    loads = {each.ensemble: measured.explained.get(each.ensemble, 0.0) for each in measured.rates.ensembles}
    total = sum(loads.values())
    if not measured.can_move or measured.unseen or _enough(measured) is None or not total:
        return
    plan = make_plan(
        "writes/s",
        loads,
        measured.weights,
        branches_of(measured.directories, worth=WORTH * total),
        lambda branch, to: measured.ruled.isdisjoint(branch.below),
    )
    if not plan.moves:
        return
    giver = max(loads, key=lambda name: loads[name] - plan.after[name])
    before, then = loads[giver] / total, plan.after[giver] / total
    first = [f"{each.directory} ({each.load / total:.0%}) to {to}" for each, to in plan.moves[:MOVES_NAMED]]
    many = "1 move" if len(plan.moves) == 1 else f"{len(plan.moves):,} moves"
    yield Sentence(
        "moves",
        f"{many} of directories would bring {giver} from {before:.0%} of the seen writes to {then:.0%}: "
        f"{'first ' if len(plan.moves) > MOVES_NAMED else ''}{_list(first)}. `parkazoo map rebalance` makes them.",
        {
            "moves": [{"directory": each.directory, "from": each.ensemble, "to": to} for each, to in plan.moves],
            "ensemble": giver,
            "before": before,
            "then": then,
        },
    )


# In this order they are printed.
ADVISERS: Sequence[Callable[[Measured], Iterator[Sentence]]] = (
    _looked,
    _needed,
    _limited,
    _clients,
    _unexplained,
    _indivisible,
    _growing,
    _moving,
)


# ---- words ---------------------------------------------------------------------------------------


def ensembles_then(measured: Measured) -> int:
    """Returns how many ensembles get directories after one more has come, or after the adoption."""
    return ADOPTED if measured.is_plain else len(measured.carriers()) + 1


def describe_asker(each: ClientRates) -> str:
    """Names a client by where it runs, and its id."""
    if not each.is_registered:
        return f"{each.host} ({each.client}, not registered)"
    return f"{each.host}:{each.pid} ({each.client})"


def describe_age(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def describe_directory(each: DirectoryWrites) -> str:
    return f"{ROOT} (ParKazoo's own)" if is_own(each) else each.directory


def _on(measured: Measured, ensemble: str) -> str:
    return "this ZooKeeper" if measured.is_plain else f"ensemble {ensemble}"


def _begun(words: str) -> str:
    return words[0].upper() + words[1:]


def _list(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
