"""Watches: every change and every event recorded; none lost, none twice, none out of order for a znode.

Only the first worker changes anything: directories whose children live on the same ensemble and on another, and
leaves. It creates, sets and deletes them, gives them children and removes these. Each value is the number of its
change. The others watch the data, the existence and the children of all of that, and set each watch again after
its event. They also read without a watch.

The judge checks for each process and znode: reads do not go back. A watch gets at most one event, and none if it
was refused. The event is the change that comes next after what was read when the watch was set, and does not come
before that change was begun. If the process reads something newer, the watch gets an event, at least that of a
lost connection, within a session timeout, or at all if the run is not timed.
"""

from __future__ import annotations

import itertools
import queue
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from tests.faults import fresh
from tests.faults.holding import LOST, Life, beating, lives, until_answered
from tests.faults.load import Judgement, Record, Run, Worker

WRITERS_PREDECESSOR_S = 12.0  # what a killed writer has sent may arrive until its session has expired
RETRY_S = 0.2
PROBE_S = 0.3
SHARE_PROBED = 0.2
LEAVES = 2
CREATED, CHANGED, DELETED, CHILD, NONE = "CREATED", "CHANGED", "DELETED", "CHILD", "NONE"
CHANGES_OF_DATA = ("create", "set", "delete")
CHANGES_OF_CHILDREN = ("create", "add", "drop", "delete")
EVENTS = {"create": CREATED, "set": CHANGED, "delete": DELETED, "add": CHILD, "drop": CHILD}
Value = Any  # of data: the number of a change; of children: their sorted names; None if there is no znode


class WatchesLoad:
    name = "watches"
    about = "Watches: no event is lost, doubled, untrue or out of order for a znode"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        fresh.prepare(client, root)
        for base in {path.rpartition("/")[0] for path in _directories(client, root)}:
            client.create(base)

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        with beating(worker):
            if worker.number == 0:
                Writer(worker, client).work()
            else:
                Watcher(worker, client).work()
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        pass

    def judge(self, run: Run) -> Judgement:
        histories, problems = read_histories(run)
        values = _values(run)
        by_life = lives(run)
        readings: dict[tuple[int, int, str, str], list[Reading]] = defaultdict(list)
        watches: dict[tuple[int, int, int], Watch] = {}
        for record in run.records:
            fields, process = record.fields, (record.worker, record.life)
            if record.what in ("armed", "read"):
                reading = Reading(record.at_s, _value(values, record))
                readings[(*process, fields["path"], _aspect(fields["kind"]))].append(reading)
            if record.what in ("armed", "refused", "event"):
                name = (
                    f"{by_life[process].name}: watch {fields['watch']} on the {fields['kind']} of {fields['path']}"
                )
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
            problems += watch.untruths(histories[watch.path])
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


def _directories(client: Any, root: str) -> list[str]:
    """Two whose children live where they do, and two whose children live elsewhere, of two homes."""
    placement = client.cluster_map.make_placement()
    found: dict[tuple[int, bool], str] = {}
    for base, number in itertools.product(range(20), range(20)):
        path = f"{root}/{base}/{number}"
        home, children = placement.of_children(f"{root}/{base}"), placement.of_children(path)
        homes = {home for home, _ in found}
        if home in homes or len(homes) < 2:
            found.setdefault((home, home == children), path)
    return sorted(found.values())


def _aspect(kind: str) -> str:
    return "children" if kind == "children" else "data"


# ---- the one who writes --------------------------------------------------------------------------


class Writer:
    def __init__(self, worker: Worker, client: Any) -> None:
        self._worker = worker
        self._client = client
        directories = _directories(client, worker.root)
        self._leaves = [f"{directories[0].rpartition('/')[0]}/leaf{number}" for number in range(LEAVES)]
        self._paths = directories + self._leaves
        self._data: dict[str, int | None] = {}
        self._children: dict[str, list[str]] = {}
        self._numbers = itertools.count(worker.life * 10**9 + 1)

    def work(self) -> None:
        if self._worker.life:
            self._worker.pause(WRITERS_PREDECESSOR_S)
        for path in self._paths:
            until_answered(partial(self._find, path))
        fresh = {*self._paths}
        while not self._worker.is_over():
            path = self._worker.dice.choice(self._paths)
            kind = self._worker.dice.choice(self._possible(path))
            self._change(path, kind, path in fresh)
            fresh.discard(path)
            self._worker.pause(self._worker.dice.uniform(0.0, 0.15))

    def _possible(self, path: str) -> list[str]:
        if self._data[path] is None:
            return ["create"]
        if path in self._leaves:
            return ["set", "set", "delete"]
        return ["set", "add", "drop", "drop"] if self._children[path] else ["set", "add", "add", "delete"]

    def _change(self, path: str, kind: str, is_first: bool) -> None:
        number = next(self._numbers)
        value = b"%d" % number
        child = self._worker.dice.choice(self._children[path]) if kind == "drop" else f"child{number}"
        self._worker.record("changing", path=path, kind=kind, number=number, child=child)
        stat = None
        try:
            if kind == "create":
                _, stat = self._client.create(path, value, include_data=True)
                self._data[path], self._children[path] = number, []
            elif kind == "set":
                stat = self._client.set(path, value)
                self._data[path] = number
            elif kind == "delete":
                self._client.delete(path)
                self._data[path], self._children[path] = None, []
            elif kind == "add":
                self._client.create(f"{path}/{child}", value)
                self._children[path].append(child)
            else:
                self._client.delete(f"{path}/{child}")
                self._children[path].remove(child)
        except LOST:
            until_answered(partial(self._find, path))
        except (NodeExistsError, NoNodeError, NotEmptyError) as error:
            self._worker.record("contradicted", path=path, number=number, error=repr(error), is_first=is_first)
            until_answered(partial(self._find, path))
        else:
            self._worker.record("changed", path=path, number=number, znode=_znode(stat), value=number)

    def _find(self, path: str) -> None:
        """Look what is there: no other worker changes it."""
        fresh.refresh(self._client, self._worker.root, path.rpartition("/")[0], path)
        stat = None
        try:
            value, stat = self._client.get(path)
            self._data[path] = int(value)
            self._children[path] = self._client.get_children(path)
        except NoNodeError:
            self._data[path], self._children[path] = None, []
        found = {"value": self._data[path], "children": sorted(self._children[path])}
        self._worker.record("found", path=path, znode=_znode(stat), **found)


# ---- those who watch -----------------------------------------------------------------------------


class Watcher:
    def __init__(self, worker: Worker, client: Any) -> None:
        self._worker = worker
        self._client = client
        directories = _directories(client, worker.root)
        leaves = [f"{directories[0].rpartition('/')[0]}/leaf{number}" for number in range(LEAVES)]
        self._all = [(path, kind) for path in directories for kind in ("data", "exists", "children")]
        self._all += [(path, kind) for path in leaves for kind in ("data", "exists")]
        self._numbers = itertools.count(1)
        self._due: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def work(self) -> None:
        for each in self._all:
            self._due.put(each)
        refused: list[tuple[float, tuple[str, str]]] = []  # and when to try again
        while not self._worker.is_over():
            with suppress(queue.Empty):
                each = self._due.get(timeout=PROBE_S)
                if not self._is_armed(*each):
                    refused.append((time.monotonic() + RETRY_S, each))
            while refused and refused[0][0] < time.monotonic():
                self._due.put(refused.pop(0)[1])
            if self._worker.dice.random() < SHARE_PROBED:
                self._probe(*self._worker.dice.choice(self._all))

    def _is_armed(self, path: str, kind: str) -> bool:
        """Set a watch; False if that failed."""
        told = {"watch": next(self._numbers), "path": path, "kind": kind}
        try:
            found = self._read(path, kind, partial(self._tell, told))
        except NoNodeError:
            self._worker.record("refused", **told)
            return False
        except LOST:
            return False
        self._worker.record("armed", **told, **found)
        return True

    def _probe(self, path: str, kind: str) -> None:
        try:
            found = self._read(path, kind, None)
        except NoNodeError:
            found = {"value": None, "znode": None}
        except LOST:
            return
        self._worker.record("read", path=path, kind=kind, **found)

    def _read(self, path: str, kind: str, watch: Callable[[Any], None] | None) -> dict[str, Any]:
        if kind == "children":
            return {"value": sorted(self._client.get_children(path, watch))}
        if kind == "data":
            value, stat = self._client.get(path, watch)
            return {"value": int(value), "znode": _znode(stat)}
        return {"znode": _znode(self._client.exists(path, watch))}

    def _tell(self, told: dict[str, Any], event: Any) -> None:
        self._worker.record("event", **told, type=str(event.type), of=event.path)
        self._due.put((told["path"], told["kind"]))


def _znode(stat: Any) -> list[int] | None:
    """What tells the state of a znode's data from all others of its path."""
    return stat and [stat.czxid, stat.version]


# ---- what they have written, judged --------------------------------------------------------------


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

    def untruths(self, history: History) -> list[str]:
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
            if is_next and (EVENTS[kind], self.path) == (event.fields["type"], event.fields["of"]):
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
    """What the data of a znode was, by path, czxid and version."""
    return {
        (record.fields["path"], *record.fields["znode"]): record.fields["value"]
        for record in run.records
        if record.fields.get("znode") and record.fields.get("value") is not None
    }


def _value(values: dict[tuple[str, int, int], int], record: Record) -> Value:
    """What a read says; of one that shows no data, by the versions."""
    fields = record.fields
    if "value" in fields or fields["znode"] is None:
        return fields.get("value")
    return values.get((fields["path"], *fields["znode"]), f"czxid and version {fields['znode']}")


LOAD = WatchesLoad()
