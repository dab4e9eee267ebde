"""What the journals of loads/registers.py must say.

A read is judged if its client first made the ensemble catch up, by a sync or by a write beside the znode. The
read must be as new as the moment at which that was *issued*. ZooKeeper's sync asks the leader but no quorum. So
a leader that has been replaced and does not know it yet answers the sync, and then the read, with an old value;
plain kazoo shows it too (``python -m tests.faults.deposed``). If the checker refuses a history, it therefore
leaves out reads behind a mere sync that were under way while a server was frozen or cut off, or just after. It
counts the group, and the rest must be linearizable.

Nor does a leader wait with its answer to a sync until it has applied what it has committed. Its followers may be
a moment ahead, and their clients know (``python -m tests.faults.leading``, with plain kazoo). So if the checker
still refuses a history, reads behind a mere sync may be older than the sync by that moment, and the group is
counted.

Reads behind a write have no such excuse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.faults.linearizable import OK, Call, Operation, TooManyOrdersError, find_refusal
from tests.faults.load import Fault, Judgement, Record, Run
from tests.faults.loads.registers import REFUSALS
from tests.faults.schedule import ENSEMBLE_KINDS, HEARING_KINDS

DEPOSED_S = 5.0  # until a leader that lost its followers notices: syncLimit * tickTime
LEADER_LAG_S = 0.25  # on a machine whose processors are all busy
REFUSED = {each.__name__ for each in REFUSALS}
READS = ("get", "exists", "children")
PROBLEMS_SHOWN = 20


def judge(run: Run) -> Judgement:
    history = History(run.records)
    problems = list(history.problems)
    doubtful = _doubtful(run.faults)
    stale = lagging = 0
    for group, operations in sorted(history.groups.items()):
        try:
            refusal = find_refusal(operation for operation, _ in operations)
            if refusal is not None:
                refusal = find_refusal(
                    each for each, is_synced in operations if not (is_synced and doubtful(each))
                )
                stale += refusal is None
            if refusal is not None:
                refusal = find_refusal(
                    each._replace(called=each.called - LEADER_LAG_S) if is_synced else each
                    for each, is_synced in operations
                    if not (is_synced and doubtful(each))
                )
                lagging += refusal is None
        except TooManyOrdersError as error:
            problems.append(f"group {group} could not be judged: {error}")
            continue
        if refusal is not None:
            problems.append(f"group {group}: {refusal}")
    figures = {
        "operations": history.count,
        "writes acknowledged": history.writes,
        "of unknown outcome": history.unknown,
        "reads not judged": history.unjudged,
        "groups of znodes": len(history.groups),
        "groups stale behind a deposed leader": stale,
        "groups stale behind a leader's sync": lagging,
    }
    return Judgement(problems[:PROBLEMS_SHOWN], figures)


class _Asked:
    """A call on its way, and what the client had done before it that a read may stand on."""

    def __init__(self, at_s: float, number: int, call: Call, grounds: list[_Ground]) -> None:
        self.at_s = at_s
        self.number = number
        self.call = call
        self.grounds = grounds


class _Ground(NamedTuple):
    """A sync or a write that was answered: what the client reads later is no older than its call.

    In a later session too: each begins with a write, its registration.
    """

    at_s: float
    number: int
    is_write: bool


class History:
    """The operations of each group, from the records of all clients."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.groups: dict[str, list[tuple[Operation, bool]]] = defaultdict(list)
        self.count = self.unknown = self.writes = self.unjudged = 0
        self.problems: list[str] = []
        self._asked: dict[tuple[int, int, int], _Asked] = {}
        self._grounds: dict[tuple[int, int, str], _Ground] = {}  # by client and what it is good for
        for record in records:
            if record.what == "call":
                self._call(record)
            elif record.what == "answer":
                self._answer(record)
        for asked in self._asked.values():
            self._add_unknown(asked)

    def _call(self, record: Record) -> None:
        number, call = record.fields["number"], _tuples(record.fields["call"])
        grounds: list[_Ground] = []
        if call[0] in READS:
            path: str = call[1]
            good_for = [f"sync {path}"]
            if call[0] != "children":  # which needs both of a directory's ensembles
                good_for += [f"sync {_parent(path)}", f"write {_parent(path)}"]
            client = record.worker, record.life
            found = (self._grounds.get((*client, each)) for each in good_for)
            grounds = [ground for ground in found if ground]
        self._asked[record.worker, record.life, number] = _Asked(record.at_s, number, call, grounds)

    def _answer(self, record: Record) -> None:
        fields, client = record.fields, (record.worker, record.life)
        asked = self._asked.pop((*client, fields["number"]))
        if "unknown" in fields:
            self._add_unknown(asked)
            return
        name, result = asked.call[0], _tuples(fields["result"])
        if isinstance(result, str) and result != OK and result not in REFUSED:
            self.problems.append(f"{asked.call} raised {result}")
            return
        ground = _Ground(asked.at_s, asked.number, name != "sync")
        operation = Operation(asked.at_s, record.at_s, asked.call, result)
        if name == "sync":
            if result == OK:
                self._grounds[(*client, f"sync {asked.call[1]}")] = ground
        elif name in READS:
            own = self._grounds.get((*client, f"sync {asked.call[1]}"))  # also one that was not awaited
            if own and own.number < asked.number:
                asked.grounds.append(own)
            if not asked.grounds:
                self.unjudged += 1
                return
            best = max(asked.grounds, key=lambda each: (each.is_write, each.at_s))
            self._add(operation._replace(called=best.at_s), is_behind_sync=not best.is_write)
        else:
            if _is_done(result):
                self.writes += 1
                for path in _paths(asked.call):
                    self._grounds[(*client, f"write {_parent(path)}")] = ground
            self._add(operation)

    def _add_unknown(self, asked: _Asked) -> None:
        if asked.call[0] not in (*READS, "sync"):
            self.unknown += 1
            self._add(Operation(asked.at_s, None, asked.call, None))

    def _add(self, operation: Operation, is_behind_sync: bool = False) -> None:
        self.count += 1
        for group, call, result in _by_group(operation.call, operation.result, self.groups):
            self.groups[group].append((operation._replace(call=call, result=result), is_behind_sync))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _paths(call: Call) -> list[str]:
    return [each[1] for each in call[1]] if call[0] == "transaction" else [call[1]]


def _is_done(result: Any) -> bool:
    return result == OK or isinstance(result, int) or (isinstance(result, tuple) and result[:1] != ("failed",))


def _split(path: str) -> tuple[str, str]:
    """Group and the path within it, of a path below the root: ``"2.17.d/a"`` is ``"2.17", "d/a"``."""
    kind, number, rest = path.split(".", 2)
    return f"{kind}.{number}", rest


def _by_group(call: Call, result: Any, groups: Iterable[str]) -> Iterator[tuple[str, Call, Any]]:
    """A call with paths as its group names them. The root's listing at the end is about every group."""
    if call == ("children", ""):
        names: dict[str, list[str]] = {group: [] for group in groups}
        for group, name in map(_split, result):
            names.setdefault(group, []).append(name)
        for group, each in names.items():
            yield group, call, tuple(sorted(each))
    elif call[0] == "transaction":
        group, _ = _split(call[1][0][1])
        yield (
            group,
            ("transaction", tuple((name, _split(path)[1], *rest) for name, path, *rest in call[1])),
            result,
        )
    else:
        name, path, *rest = call
        group, path = _split(path)
        yield group, (name, path, *rest), result


def _doubtful(faults: Sequence[Fault]) -> Callable[[Operation], bool]:
    """Whether an operation was under way when a server may have thought itself leader that was not."""
    spans = [
        (fault.began_s, fault.ended_s + DEPOSED_S)
        for fault in faults
        if fault.kind in ("freeze", "cut off", *HEARING_KINDS, *ENSEMBLE_KINDS, "freeze and kill")
    ]

    def is_doubtful(operation: Operation) -> bool:
        return any(
            operation.called <= ended and (operation.returned is None or operation.returned >= began)
            for began, ended in spans
        )

    return is_doubtful
