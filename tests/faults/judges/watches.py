"""What the journals of loads/watches.py must say.

The judge checks for each process and znode: reads do not go back. A watch gets at most one event, and none if
it was refused. The event is the change that comes next after what was read when the watch was set, and does not
come before that change was begun (for a known gap see History.is_gone_after_first_child). If the process reads
something newer, the watch gets an event, at least that of a lost connection, within a session timeout, or at all
if the run is not timed. If directories move, a read that shows no data is judged if another shows which data that
was, and a znode that has changed and gone may be told as gone.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tests.faults.judges.holding import Life, lives
from tests.faults.load import Judgement, Record, Run

CREATED, CHANGED, DELETED, CHILD, NONE = "CREATED", "CHANGED", "DELETED", "CHILD", "NONE"
CHANGES_OF_DATA = ("create", "set", "delete")
CHANGES_OF_CHILDREN = ("create", "add", "drop", "delete")
EVENTS = {"create": CREATED, "set": CHANGED, "delete": DELETED, "add": CHILD, "drop": CHILD}
UNKNOWN = "what nobody has read"
Value = Any  # of data: the number of a change; of children: their sorted names; None if there is no znode


def judge(run: Run) -> Judgement:
    histories, problems = read_histories(run)
    values = _values(run)
    by_life = lives(run)
    readings: dict[tuple[int, int, str, str], list[Reading]] = defaultdict(list)
    watches: dict[tuple[int, int, int], Watch] = {}
    for record in run.records:
        fields, process = record.fields, (record.worker, record.life)
        if record.what in ("armed", "read"):
            value = _value(values, record)
            reading = None if value == UNKNOWN and run.has_moves else Reading(record.at_s, value)
            if reading is not None:
                readings[(*process, fields["path"], _aspect(fields["kind"]))].append(reading)
        if record.what in ("armed", "refused", "event"):
            name = f"{by_life[process].name}: watch {fields['watch']} on the {fields['kind']} of {fields['path']}"
            watch = Watch(name, by_life[process], fields["path"], _aspect(fields["kind"]))
            watch = watches.setdefault((*process, fields["watch"]), watch)
            if record.what == "armed":
                watch.armed = reading
            elif record.what == "refused":
                watch.is_refused = True
            else:
                watch.events.append(record)
    for (worker, life, path, aspect), found in readings.items():
        problems += histories[path].disorder(f"worker {worker}, life {life}", aspect, found)
    for (worker, life, _), watch in watches.items():
        problems += watch.untruths(histories[watch.path], has_moves=run.has_moves)
        problems += watch.losses(readings[worker, life, watch.path, watch.aspect], run)
    types = Counter(each.fields["type"] for each in run.records if each.what == "event")
    if not types.keys() & {*EVENTS.values()}:
        problems.append("no watch got an event")
    figures = {
        "changes": sum(len(history.changes) for history in histories.values()),
        "watches": sum(watch.armed is not None for watch in watches.values()),
        "events": sum(types.values()) - types[NONE],
        "events of a lost connection": types[NONE],
    }
    return Judgement(problems, figures)


def _aspect(kind: str) -> str:
    return "children" if kind == "children" else "data"


class Reading(NamedTuple):
    at_s: float
    value: Value


class Change(NamedTuple):
    """:param data: the znode's value afterwards; None if there is none. So with its children."""

    began_s: float
    kind: str
    data: int | None
    children: list[str] | None


class History:
    """The changes of one znode and its children, which have one author."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.changes: list[Change] = []

    def apply(self, record: Record) -> None:
        """:param record: "changing"."""
        fields, kind = record.fields, record.fields["kind"]
        data = self.changes[-1].data if self.changes else None
        children = self.changes[-1].children if self.changes else None
        if kind in ("create", "set"):
            data = fields["number"]
        if kind == "create":
            children = []
        elif kind == "delete":
            data, children = None, None
        elif kind == "add":
            children = sorted([*(children or []), fields["child"]])
        elif kind == "drop":
            children = [name for name in children or [] if name != fields["child"]]
        self.changes.append(Change(record.at_s, kind, data, children))

    def is_as(self, record: Record) -> bool:
        """:param record: "found"."""
        data = self.changes[-1].data if self.changes else None
        children = self.changes[-1].children if self.changes else None
        return (data, children or []) == (record.fields["value"], record.fields["children"])

    def aspect(self, aspect: str) -> list[tuple[float, str, Value]]:
        """When each change was begun that concerns the aspect, its kind, and the value that came of it."""
        kinds = CHANGES_OF_CHILDREN if aspect == "children" else CHANGES_OF_DATA
        found: list[tuple[float, str, Value]] = [(0.0, "", None)]
        found += [(each.began_s, each.kind, getattr(each, aspect)) for each in self.changes if each.kind in kinds]
        return found

    @cached_property
    def ends(self) -> dict[tuple[str, str], list[tuple[float, float, str]]]:
        """By aspect and value: when it came, when it went, by which kind of change."""
        found = defaultdict(list)
        for aspect in ("data", "children"):
            for (began_s, _, value), (next_s, kind, _) in itertools.pairwise(self.aspect(aspect)):
                found[aspect, str(value)].append((began_s, next_s, kind))
        return found

    def is_gone_after_first_child(self, armed_s: float, told_s: float) -> bool:
        """Whether the znode has had its first child, lost it, and been deleted, all between these moments.

        The client may have looked again only then: docs/design/protocol.md, "Known gaps".
        """
        life: list[Change] = []
        for change in self.changes:
            if change.kind == "create" and change.began_s <= armed_s:
                life.clear()
            elif change.kind in CHANGES_OF_CHILDREN and change.began_s <= told_s:
                life.append(change)
        kinds = [each.kind for each in life]
        return "delete" in kinds and kinds[0] == "add" and life[0].began_s >= armed_s

    def has_gone(self, since_s: float, until_s: float) -> bool:
        """Whether a delete began between these moments."""
        return any(each.kind == "delete" and since_s <= each.began_s <= until_s for each in self.changes)

    def disorder(self, who: str, aspect: str, readings: Sequence[Reading]) -> list[str]:
        """Readings that go back, or show what was not yet there, or never."""
        states = self.aspect(aspect)
        problems = []
        at = 0
        for reading in readings:
            fits = (
                index
                for index in range(at, len(states))
                if states[index][2] == reading.value and states[index][0] <= reading.at_s
            )
            found = next(fits, None)
            if found is None:
                problems.append(
                    f"{who} read {reading.value} as {aspect} of {self.path} at {reading.at_s:.3f} s, which does "
                    f"not come after {states[at][2]}"
                )
            else:
                at = found
        return problems


@dataclass
class Watch:
    """:param armed: what was read when it was set. None: it failed; after a lost connection it may be set."""

    name: str
    life: Life
    path: str
    aspect: str
    armed: Reading | None = None
    is_refused: bool = False
    events: list[Record] = field(default_factory=list)

    def untruths(self, history: History, *, has_moves: bool) -> list[str]:
        if len(self.events) > 1:
            return [f"{self.name} got {len(self.events)} events"]
        if not self.events:
            return []
        event = self.events[0]
        if self.is_refused:
            return [f"{self.name} got an event at {event.at_s:.3f} s, though it had been refused"]
        if self.armed is None or event.fields["type"] == NONE:
            return []
        for began_s, next_s, kind in history.ends[self.aspect, str(self.armed.value)]:
            is_next = began_s <= self.armed.at_s and next_s <= event.at_s
            kinds = [EVENTS[kind]]
            if has_moves and history.has_gone(next_s, event.at_s):  # all of it while the watch moved
                kinds.append(DELETED)
            if is_next and event.fields["type"] in kinds and event.fields["of"] == self.path:
                return []
        is_deleted = (event.fields["type"], event.fields["of"], self.armed.value) == (DELETED, self.path, [])
        if is_deleted and history.is_gone_after_first_child(self.armed.at_s, event.at_s):
            return []
        return [
            f"{self.name}, set at {self.armed.at_s:.3f} s on {self.armed.value}, got {event.fields['type']} "
            f"of {event.fields['of']} at {event.at_s:.3f} s, which is not what came next"
        ]

    def losses(self, readings: Sequence[Reading], run: Run) -> list[str]:
        if self.armed is None or (self.events and not run.is_timed):
            return []
        told_s = self.events[0].at_s if self.events else float("inf")
        for reading in readings[bisect_right(readings, self.armed.at_s, key=lambda each: each.at_s) :]:
            latest_s = reading.at_s + run.session_timeout_s
            if latest_s >= told_s:
                break
            if reading.value != self.armed.value and not self.life.is_broken(reading.at_s, latest_s):
                return [
                    f"{self.name}, set at {self.armed.at_s:.3f} s on {self.armed.value}, got no event until "
                    f"{latest_s:.3f} s, though {reading.value} was read at {reading.at_s:.3f} s"
                ]
        return []


def read_histories(run: Run) -> tuple[dict[str, History], list[str]]:
    """What the writer has changed, by path; and where it found something else than that."""
    histories: dict[str, History] = {}
    problems = []
    begun: dict[str, Record] = {}  # by path: a change of which the end is not known yet
    for record in run.records:
        if record.what not in ("changing", "changed", "contradicted", "found"):
            continue
        path = record.fields["path"]
        history = histories.setdefault(path, History(path))
        if record.what == "changing":
            begun[path] = record
        elif record.what == "changed":
            history.apply(begun.pop(path))
        elif record.what == "contradicted":
            change = begun.pop(path)
            if not record.fields["is_first"]:
                problems.append(f"{path}: {change.fields['kind']} was answered {record.fields['error']}")
        else:
            if path in begun:
                change = begun.pop(path)
                if not history.is_as(record):
                    history.apply(change)
            if not history.is_as(record):
                problems.append(
                    f"{path}: the writer found {record.fields['value']} and {record.fields['children']} at "
                    f"{record.at_s:.3f} s, not what it had written"
                )
    for path, change in begun.items():
        histories[path].apply(change)
    return histories, problems


def _values(run: Run) -> dict[tuple[str, int, int], int]:
    """What the data of a znode was, by path, czxid, ctime and version."""
    return {
        (record.fields["path"], *record.fields["znode"]): record.fields["value"]
        for record in run.records
        if record.fields.get("znode") and record.fields.get("value") is not None
    }


def _value(values: dict[tuple[str, int, int], int], record: Record) -> Value:
    """What a read says; of one that shows no data, by the numbers that a move does not carry."""
    fields = record.fields
    if "value" in fields or fields["znode"] is None:
        return fields.get("value")
    return values.get((fields["path"], *fields["znode"]), UNKNOWN)
