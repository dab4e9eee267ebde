"""A case on both sides, call by call, and the first difference."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from parkazoo import ParKazooClient
from parkazoo.protocol.placement import join
from tests.fuzz.cases import ENSEMBLES, LIFE, WATCHERS, Call, Case
from tests.fuzz.documented import Difference, identities_of, kazoos_answer, rule_for
from tests.fuzz.sides import Player, Side, plain, wait_until

PATIENCE_WATCHED_S = 10.0
NOTHING_MORE = "NONE None"  # the event of a watch whose connection is lost
QUEUES = "lockingqueue"  # of these the layout is another


@dataclass(frozen=True)
class Answers:
    """
    :param about: the call, or what was looked at when all calls had been made.
    """

    about: str
    kazoo: Any
    parkazoo: Any

    @property
    def differ(self) -> bool:
        return bool(self.kazoo != self.parkazoo)

    def __str__(self) -> str:
        if not self.differ:
            return f"{self.about}\n      both: {self.kazoo}"
        return f"{self.about}\n     kazoo: {self.kazoo}\n  ParKazoo: {self.parkazoo}"


@dataclass
class Outcome:
    """What came of a case.

    :param answers: up to the first difference, which is the last.
    :param failure: one that docs/reference/differences.md does not name; and what makes two of them the same.
    :param ended_by: the sentence of docs/reference/differences.md that ended it.
    """

    answers: list[Answers]
    failure: tuple[str, ...] | None = None
    ended_by: str = ""


class Arena:
    """Both sides, kept for many cases.

    :param client_class: what stands in ParKazooClient's place.
    :param form: of the map of the three ensembles.
    :param parkazoo: what stands in the place of clients that know the three ensembles.
    """

    def __init__(
        self,
        client_class: Callable[..., Any] = ParKazooClient,
        form: str = "plain",
        parkazoo: Side | None = None,
    ) -> None:
        self.kazoo = Side(KazooClient, 1)
        self.parkazoo = parkazoo or Side(client_class, ENSEMBLES, form)
        self.outcomes: Counter[str] = Counter()  # how often each call was answered how
        self.allowed: Counter[str] = Counter()  # how often which sentence of docs/reference/differences.md applied

    @contextmanager
    def running(self) -> Iterator[Arena]:
        with self.kazoo.running(), self.parkazoo.running():
            yield self

    def run(self, case: Case) -> Outcome:
        """Make all calls of the case, on both sides, up to the first difference. Nothing is left behind."""
        with ExitStack() as stack:
            for side in (self.kazoo, self.parkazoo):
                stack.callback(side.wipe, case.root)
            run = _Run(self, case, stack)
            try:
                outcome = run.run()
            finally:
                stops = run.end()
        if outcome.failure is None and any(each.differ for each in stops):
            outcome = Outcome([*outcome.answers, *stops], ("stop",))
        self.allowed += run.allowed
        self.outcomes += run.counts
        return outcome


class _Run:
    def __init__(self, arena: Arena, case: Case, stack: ExitStack) -> None:
        self.case = case
        self.is_grown = arena.parkazoo.form == "grown"
        self.at_gateway = arena.parkazoo.client_class is KazooClient
        self.sides = (arena.kazoo, arena.parkazoo)
        self.superusers = [stack.enter_context(side.superuser()) for side in self.sides]
        for superuser in self.superusers:
            for path in ("", *case.made):
                superuser.create(case.root + path)
        self.identities = [{each.identity} - {""} for each in case.clients]
        self.owners: tuple[dict[int, str], dict[int, str]] = ({}, {})
        self.players = [
            [Player(side, case, number, owners) for number in range(len(case.clients))]
            for side, owners in zip(self.sides, self.owners, strict=True)
        ]
        self.has_watchers = any(call.name in WATCHERS for call in case.calls)
        self.lives: dict[int, int] = {}  # by the call that made a ChildrenWatch
        self.answers: list[Answers] = []
        self.waiting: list[tuple[int, Call, Callable[[], Any], Callable[[], Any]]] = []
        self.allowed: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def run(self) -> Outcome:
        for players in self.players:
            for player in players:
                player.start()
        for number, call in enumerate(self.case.calls):
            is_apart = call.name in LIFE or any(waiting.client != call.client for _, waiting, *_ in self.waiting)
            if is_apart and (outcome := self._compare_waiting()) is not None:
                return outcome
            self._begin(number, call)
            if call.waits and (outcome := self._compare_waiting()) is not None:
                return outcome
            if call.waits and self.has_watchers:  # what they ask at an event comes before the next call
                self._settle()
        return self._compare_waiting() or self._compare_end()

    def _settle(self) -> None:
        for players in self.players:
            for player in players:
                player.settle()

    def _begin(self, number: int, call: Call) -> None:
        theirs, ours = (players[call.client] for players in self.players)
        if call.name == "add_auth":
            self.identities[call.client].add(call.args["identity"])
        if call.name == "ChildrenWatch":
            self.lives[number] = self._life(call)
        refusal = kazoos_answer(self.case, call, at_gateway=self.at_gateway) if theirs.is_running else None
        kazoo = theirs.begin(number, call) if refusal is None else lambda: refusal
        self.waiting.append((number, call, kazoo, ours.begin(number, call)))

    def _compare_waiting(self) -> Outcome | None:
        waiting, self.waiting = self.waiting, []
        for number, call, kazoo, parkazoo in waiting:
            answers = Answers(f"{number:3} {call}", kazoo(), parkazoo())
            self.answers.append(answers)
            self.counts[f"{call.name}: {_kind(answers.kazoo)}"] += 1
            names = identities_of(self.identities[call.client])
            difference = Difference(
                self.case, call, answers.kazoo, answers.parkazoo, names, self._acl_of, self.is_grown
            )
            rule = rule_for(difference)
            if rule is not None:
                self.allowed[rule.sentence] += 1
                if rule.ends:
                    return Outcome(self.answers, ended_by=rule.sentence)
            elif answers.differ:
                return Outcome(self.answers, (call.name, _kind(answers.kazoo), _kind(answers.parkazoo)))
        return None

    def _acl_of(self, path: str) -> Any:
        return self.superusers[1].get_acls(path)[0]

    def _compare_end(self) -> Outcome:
        """The watches that were called, the listeners, and the tree."""
        self._settle()
        looks: list[tuple[str, Callable[[int], Any]]] = [
            ("events of the watch of call", self._events),
            ("states told to the listener of client", self._states),
            ("tree:", self._tree),
            ("last told to the watcher of call", self._watched),
        ]
        wait_until(lambda: self._watched(0) == self._watched(1), PATIENCE_WATCHED_S)  # they ask at an event
        for about, look in looks:
            kazoo, parkazoo = look(0), look(1)
            differing = [key for key in sorted({*kazoo, *parkazoo}) if kazoo.get(key) != parkazoo.get(key)]
            for key in differing:
                self.answers.append(Answers(f"    {about} {key}", kazoo.get(key), parkazoo.get(key)))
            if differing:
                first = self.answers[-len(differing)]
                return Outcome(self.answers, (about, *map(_kind_of_end, (first.kazoo, first.parkazoo))))
        return Outcome(self.answers)

    def _events(self, side: int) -> dict[int, Any]:
        """The events of watches. With kazoo, the NONE of a stopped client comes at its next start, or never."""
        stopped = {call.client for call in self.case.calls if call.name in ("stop", "restart")}
        return {
            number: sorted(event for event in events if each.number not in stopped or event != NOTHING_MORE)
            for each in self.players[side]
            for number, events in each.events.items()
        }

    def _states(self, side: int) -> dict[int, Any]:
        return {each.number: each.stray_states() for each in self.players[side]}

    def _watched(self, side: int) -> dict[int, Any]:
        """Without the ChildrenWatch of a directory that was deleted: it may have missed its last children.

        A TreeCache is compared without what LockingQueues keep, in another layout.
        """
        watched = {
            number: [line for line in latest if f"/{QUEUES}/" not in str(line)] if is_tree else latest
            for each in self.players[side]
            for number, latest in each.watched().items()
            for is_tree in [self.case.calls[number].name == "TreeCache"]
        }
        ended = {number for number, life in self.lives.items() if self._life(self.case.calls[number]) != life}
        return {number: latest for number, latest in watched.items() if number not in ended}

    def _life(self, call: Call) -> int:
        """The zxid with which the znode was made; -1 if there is none."""
        stat = self.superusers[0].exists(self.case.full_path(call))
        return stat.czxid if stat else -1

    def _tree(self, side: int) -> dict[str, list[str]]:
        """What is below the root. Paths that differ in a uuid alone are one."""
        client, found, todo = self.superusers[side], defaultdict(list), [self.case.root]
        while todo:
            path = todo.pop()
            try:
                (data, stat), (acl, _), names = client.get(path), client.get_acls(path), client.get_children(path)
            except NoNodeError:
                found[plain(path, {})].append("listed, but not there")
                continue
            found[plain(path, {})].append(str(self.players[side][0].plain([data, stat, acl])))
            todo += [join(path, name) for name in names if name != QUEUES]
        return {path: sorted(znodes) for path, znodes in found.items()}

    def end(self) -> list[Answers]:
        """End all clients."""
        return [
            Answers(f"    stop() of client {theirs.number}", plain(theirs.end(), {}), plain(ours.end(), {}))
            for theirs, ours in zip(*self.players, strict=True)
        ]


def _kind(answer: Any) -> str:
    """What makes two answers of the same kind."""
    if isinstance(answer, str) and answer.startswith("raises"):
        return answer
    if isinstance(answer, list) and any(isinstance(each, str) and each.startswith("raises") for each in answer):
        return ", ".join(each for each in answer if isinstance(each, str) and each.startswith("raises"))
    return "nothing" if answer is None else "an answer"


def _kind_of_end(found: Any) -> str:
    """The same for events and states: their types, without paths."""
    words = found if isinstance(found, list) else []
    return " ".join(str(each).partition(" ")[0] for each in words if not str(each).startswith("["))
