"""Whether a history of operations on some znodes could have come from one ZooKeeper, one operation at a time.

A history is linearizable if every operation can be given one moment between its call and its return so that, in
the order of these moments, a single server would have answered what was answered. An operation of unknown outcome
may have any moment after its call, or none.

The search is Lowe's just-in-time linearization. In the order of the returns, it keeps every configuration from
which the answers so far can have come: the tree, and the operations in it that have not returned yet. Two rules
keep them few. An operation that a configuration answers rightly, without a change, is taken at once, because that
can do no harm. A configuration that has used more operations of unknown outcome than another, for the same tree,
is dropped. porcupine/ compares the verdicts with porcupine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

CONFIGURATIONS_MAX = 300_000
STATES_SHOWN = 3
OK = "ok"

Call = tuple[Any, ...]
Tree = frozenset[tuple[str, str, int]]  # path, data, version


class Operation(NamedTuple):
    """What a client did to some znodes.

    :param called: when, in any unit.
    :param returned: when its result was there; None if there is none, as after a lost connection.
    :param call: a name and its arguments. Paths are relative, and the parent of ``"d"`` is always there:
        ``("create", path, data)``, ``("delete", path, version)``, ``("check", path, version)`` and
        ``("set_acls", path)`` give ``"ok"``, ``("set", path, data, version)`` and ``("exists", path)`` the
        version, ``("get", path)`` data and version, ``("children", path)`` the sorted names;
        ``("transaction", (call, ...))`` the results of all, or ``("failed", index, error)``.
    :param result: what the name says, or the name of kazoo's exception. Tuples, no lists.
    """

    called: float
    returned: float | None
    call: Call
    result: Any


class Refusal(NamedTuple):
    """No order explains a history.

    :param operation: the first, by the time of its return, that cannot have been answered so.
    :param trees: some of what there may have been before it.
    """

    operation: Operation
    trees: Sequence[Tree]

    def __str__(self) -> str:
        call, result = self.operation.call, self.operation.result
        trees = " or ".join(str(sorted(tree)) for tree in self.trees[:STATES_SHOWN])
        more = f" or {len(self.trees) - STATES_SHOWN} others" if len(self.trees) > STATES_SHOWN else ""
        return (
            f"{call} cannot have been answered {result!r} between {self.operation.called} and "
            f"{self.operation.returned}: before it there was {trees}{more}"
        )


class TooManyOrdersError(Exception):
    """The history could not be judged."""


# ---- one ZooKeeper ---------------------------------------------------------------------------


def execute(tree: Tree, call: Call) -> tuple[Any, Tree]:
    """The answer of one ZooKeeper, and its tree after that."""
    if call[0] != "transaction":
        return _execute(tree, call)
    results, after = [], tree
    for index, each in enumerate(call[1]):
        result, after = _execute(after, each)
        if isinstance(result, str) and result != OK:
            return ("failed", index, result), tree
        results.append(result)
    return tuple(results), after


def _execute(tree: Tree, call: Call) -> tuple[Any, Tree]:
    name, path, *rest = call
    znodes = {each[0]: each for each in tree}
    znode = znodes.get(path)
    if name == "create":
        parent = path.rpartition("/")[0]
        if parent and parent not in znodes:
            return "NoNodeError", tree
        return ("NodeExistsError", tree) if znode else (OK, tree | {(path, rest[0], 0)})
    if name == "children":
        if path and znode is None:
            return "NoNodeError", tree
        return tuple(sorted(each.rpartition("/")[2] for each in znodes if each.rpartition("/")[0] == path)), tree
    if znode is None:
        return "NoNodeError", tree
    version = znode[2]
    if name in ("set", "delete", "check") and rest[-1] not in (-1, version):
        return "BadVersionError", tree
    if name == "set":
        return version + 1, tree - {znode} | {(path, rest[0], version + 1)}
    if name == "delete":
        if any(each.startswith(path + "/") for each in znodes):
            return "NotEmptyError", tree
        return OK, tree - {znode}
    return {"get": znode[1:], "exists": version, "check": OK, "set_acls": OK}[name], tree


# ---- the search ------------------------------------------------------------------------------


class _Search:
    """The configurations that explain a history so far: a tree, and a bit for each operation that is in it.

    An operation has a bit (its slot) from its call to its return; one of unknown outcome keeps it.
    """

    def __init__(self, configurations_max: int) -> None:
        self.configurations: set[tuple[Tree, int]] = {(frozenset(), 0)}
        self._open: dict[int, Operation] = {}  # by bit
        self._unknown = 0
        self._free: list[int] = []
        self._answers: dict[tuple[Tree, Call], tuple[Any, Tree | None]] = {}
        self._left = configurations_max

    def call(self, operation: Operation) -> int:
        """Returns the operation's bit."""
        bit = self._free.pop() if self._free else 1 << len(self._open)
        self._open[bit] = operation
        if operation.returned is None:
            self._unknown |= bit
        return bit

    def answer(self, bit: int) -> None:
        """Keep the configurations with this operation in them."""
        found: set[tuple[Tree, int]] = set()
        seen = {self._settled(tree, done) for tree, done in self.configurations}
        to_do = list(seen)
        while to_do:
            tree, done = to_do.pop()
            if done & bit:
                found.add((tree, done & ~bit))
                continue
            self._left -= 1
            if self._left < 0:
                raise TooManyOrdersError(f"of {len(self._open)} concurrent operations")
            for other, operation in self._open.items():
                if done & other:
                    continue
                result, after = self._execute(tree, operation.call)
                if after is None or (result != operation.result and not other & self._unknown):
                    continue
                then = self._settled(after, done | other)
                if then not in seen:
                    seen.add(then)
                    to_do.append(then)
        self.configurations = self._least(found)
        del self._open[bit]
        self._free.append(bit)

    def _execute(self, tree: Tree, call: Call) -> tuple[Any, Tree | None]:
        """As `execute`; None for a tree that has not changed."""
        answer = self._answers.get((tree, call))
        if answer is None:
            result, after = execute(tree, call)
            answer = self._answers[tree, call] = result, (None if after == tree else after)
        return answer

    def _settled(self, tree: Tree, done: int) -> tuple[Tree, int]:
        """With every operation in it that is answered rightly and changes nothing."""
        for bit, operation in self._open.items():
            if not (done | self._unknown) & bit:
                result, after = self._execute(tree, operation.call)
                if after is None and result == operation.result:
                    done |= bit
        return tree, done

    def _least(self, configurations: set[tuple[Tree, int]]) -> set[tuple[Tree, int]]:
        """Without those that have used more operations of unknown outcome than another."""
        if not self._unknown:
            return configurations
        kept: dict[tuple[Tree, int], list[int]] = {}
        for tree, done in sorted(configurations, key=lambda each: (each[1] & self._unknown).bit_count()):
            used = done & self._unknown
            least = kept.setdefault((tree, done & ~self._unknown), [])
            if not any(other & used == other for other in least):
                least.append(used)
        return {(tree, done | used) for (tree, done), least in kept.items() for used in least}


def find_refusal(history: Iterable[Operation], configurations_max: int = CONFIGURATIONS_MAX) -> Refusal | None:
    """None if the history is linearizable. It begins with no znode at all.

    :param configurations_max: how many may be looked at.

    :raises TooManyOrdersError: too much is concurrent, or of unknown outcome.
    """
    operations = list(history)
    events = [(operation.called, 0, index) for index, operation in enumerate(operations)]
    events += [(each.returned, 1, index) for index, each in enumerate(operations) if each.returned is not None]
    search, bits = _Search(configurations_max), {}
    for _, is_return, index in sorted(events):  # a call at the same time as a return is concurrent with it
        if not is_return:
            bits[index] = search.call(operations[index])
            continue
        before = search.configurations
        search.answer(bits.pop(index))
        if not search.configurations:
            return Refusal(operations[index], sorted({tree for tree, _ in before}, key=sorted))
    return None
