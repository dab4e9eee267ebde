"""Random histories, from a server that is right and from servers that are wrong in one way each.

The same seed makes the same histories with every Python: nothing but ``random.Random.random`` is used, which
promises that.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Sequence
from typing import Any

from tests.faults.linearizable import Call, Operation, Tree, execute

PATHS = ("d", "d/a", "d/b", "e")
RIGHT = "right"
#: what is wrong with a server, and how often
FLAWS = {
    "a write is acknowledged and lost": 0.3,
    "a read is stale": 0.3,
    "a write is acknowledged, and comes true later": 0.3,
    "a deleted znode comes back": 0.5,
    "versions are not checked": 1.0,
    "a directory is deleted with what is in it": 1.0,
    "a child is made without its directory": 0.4,
    "half of a transaction comes true": 1.0,
    "a failed write comes true": 0.5,
    "an answer is another's": 0.05,
}
UNKNOWN = 0.08
STEP = 1_000  # the unit of time is arbitrary


class Dice:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, bound: int) -> int:
        return int(self._random() * bound)

    def of(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    def is_so(self, chance: float) -> bool:
        return self._random() < chance


class Server:
    """A tree that answers, wrongly at times."""

    def __init__(self, flaw: str, dice: Dice) -> None:
        self._flaw = flaw
        self._dice = dice
        self._past: list[Tree] = [frozenset()]
        self._late: list[Call] = []
        self._removed: list[tuple[str, str, int]] = []
        self._last: Any = None

    def execute(self, call: Call) -> Any:
        tree = self._past[-1]
        result, after = execute(tree, call)
        if self._dice.is_so(FLAWS.get(self._flaw, 0)):
            result, after = self._err(tree, call, result, after)
        self._removed += sorted(tree - after)
        self._past.append(after)
        self._last = result
        return result

    def _err(self, tree: Tree, call: Call, result: Any, after: Tree) -> tuple[Any, Tree]:
        name, flaw = call[0], self._flaw
        is_write = after != tree
        if flaw == "a write is acknowledged and lost" and is_write:
            return result, tree
        if flaw == "a read is stale" and name in ("get", "exists", "children"):
            return execute(self._past[-min(len(self._past), 2 + self._dice.below(4))], call)[0], tree
        if flaw == "a write is acknowledged, and comes true later":
            late, self._late = self._late, [call] if is_write else []
            for each in late:
                tree = execute(tree, each)[1]
            return (result, tree) if is_write else execute(tree, call)
        if flaw == "a deleted znode comes back" and self._removed:
            znode = self._dice.of(self._removed)
            if znode[0] not in {each[0] for each in after}:
                return result, after | {znode}
        if flaw == "versions are not checked" and name in ("set", "delete"):
            return execute(tree, (*call[:-1], -1))
        if flaw == "a directory is deleted with what is in it" and result == "NotEmptyError":
            return "ok", frozenset(each for each in tree if each[0] != call[1])
        if flaw == "a child is made without its directory" and name == "create" and result == "NoNodeError":
            return "ok", frozenset(each for each in tree if each[0] != call[1]) | {(call[1], call[2], 0)}
        if flaw == "half of a transaction comes true" and name == "transaction" and is_write:
            return result, execute(tree, call[1][0])[1]
        if flaw == "a failed write comes true" and result == "BadVersionError":
            return result, execute(tree, (*call[:-1], -1))[1]
        if flaw == "an answer is another's" and self._last is not None:
            return self._last, after
        return result, after


def _make_call(dice: Dice, number: int, path: str = "") -> Call:
    path = path or dice.of(PATHS)
    version = dice.of((-1, -1, 0, 1, 2))
    calls: dict[Call, int] = {
        ("create", path, f"{number}"): 5,
        ("set", path, f"{number}", version): 5,
        ("delete", path, version): 2,
        ("get", path): 5,
        ("exists", path): 1,
        ("children", dice.of(("", "d"))): 2,
        ("set_acls", path): 1,
    }
    return dice.of([call for call, weight in calls.items() for _ in range(weight)])  # type: ignore[no-any-return]


def _make_transaction(dice: Dice, number: int) -> Call:
    calls = []
    for path in dice.of((("d", "e"), ("d/a", "d/b"))):
        call = _make_call(dice, number, path)
        calls.append(call if call[0] in ("create", "set", "delete") else ("check", path, dice.of((-1, 0, 1))))
    return ("transaction", tuple(calls))


def make_history(flaw: str, seed: str) -> list[Operation]:
    """What two to five clients saw of a server, each with one call at a time."""
    dice = Dice(f"{flaw} {seed}")
    server = Server(flaw, dice)
    history: list[Operation] = []
    count = 10 + dice.below(60)
    # (time, tie-breaker, what happens, operation); what happens to an operation: call, effect, return
    events = [(dice.below(STEP), -1 - client, "call", -1) for client in range(2 + dice.below(4))]
    results: dict[int, Any] = {}
    while events:
        now, tie, what, number = heapq.heappop(events)
        if what == "call":
            if len(history) == count:
                continue
            number = len(history)
            call = _make_transaction(dice, number) if dice.is_so(0.12) else _make_call(dice, number)
            history.append(Operation(now, None, call, None))
            if dice.is_so(UNKNOWN):  # the client goes on at once; the call comes true later, or never
                heapq.heappush(events, (now + dice.below(STEP), tie, "call", -1))
                if dice.is_so(0.6):
                    heapq.heappush(events, (now + dice.below(20 * STEP), number, "late effect", number))
            else:
                heapq.heappush(events, (now + 1 + dice.below(STEP), tie, "effect", number))
        elif what == "return":
            history[number] = history[number]._replace(returned=now, result=results[number])
            heapq.heappush(events, (now + 1 + dice.below(STEP), tie, "call", -1))
        else:
            results[number] = server.execute(history[number].call)
            if what == "effect":
                heapq.heappush(events, (now + dice.below(STEP), tie, "return", number))
    return history


def make_corpus(count: int, seed: str = "") -> list[tuple[str, list[Operation]]]:
    """That many histories of a right server, and of each wrong one: with what is wrong."""
    return [(flaw, make_history(flaw, f"{seed}{n}")) for flaw in (RIGHT, *FLAWS) for n in range(count)]


def as_json(history: Sequence[Operation]) -> str:
    """``[[called, returned, call, result], ...]``; null for what is not known."""
    return json.dumps(history)
