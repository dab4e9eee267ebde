"""What the journals of loads/dictionary.py must say.

The judge checks of each thread's own keys: the value is that of the last write that was done, or of one behind it
that may have been; the version counts the writes, so none was done twice. Of each shared key: its value is its
version, and counts the adds. Of the items: each was popped once, or is there. What each worker heard of a key
never goes back, and at its end it had heard of all that was there. A write that was cut short by a KILL may have
been done or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.faults.load import Judgement, Record, Run

DONE, UNKNOWN = "done", "unknown"


@dataclass
class Key:
    """What its writers know.

    :param done: the last value that was written for certain; 0: none. :param maybe: those that may have been.
    :param writes: so many are certain.
    """

    done: int = 0
    maybe: list[int] = field(default_factory=list)
    writes: int = 0


@dataclass
class Items:
    putting: set[str] = field(default_factory=set)
    put: set[str] = field(default_factory=set)
    popped: Counter[str] = field(default_factory=Counter)
    maybe_popped: set[str] = field(default_factory=set)


def judge(run: Run) -> Judgement:
    own, adds, maybe_adds = defaultdict[str, Key](Key), Counter[str](), Counter[str]()
    items, found = Items(), dict[str, tuple[int, int]]()
    for record in _ended(run.records):
        fields = record.fields
        outcome = fields.get("outcome", UNKNOWN)
        if record.what == "written":
            for key, value in fields["values"].items():
                _write(own[key], value, outcome if outcome == UNKNOWN else outcome[key])
        elif record.what == "added":
            adds[fields["key"]] += outcome == DONE
            maybe_adds[fields["key"]] += outcome == UNKNOWN
        elif record.what == "put":
            if outcome != "not done":
                items.putting.add(fields["item"])
            if outcome == DONE:
                items.put.add(fields["item"])
        elif record.what == "popped":
            items.popped[fields["item"]] += outcome == DONE
            if outcome == UNKNOWN:
                items.maybe_popped.add(fields["item"])
        elif record.what == "found":
            found[fields["key"]] = fields["value"], fields["version"]
    problems = [*_own(own, found), *_shared(adds, maybe_adds, found), *_items(items, found)]
    problems += [*_seen(run.records), *_told(run.records)]
    what = Counter(record.what for record in run.records)
    if not what["found"]:
        problems.append("no record has the entries at the end")
    figures = {
        "written": sum(key.writes for key in own.values()),
        "added": adds.total(),
        "popped": items.popped.total(),
        "in doubt": sum(len(key.maybe) for key in own.values()) + maybe_adds.total() + len(items.maybe_popped),
        "changes heard of": what["seen"],
    }
    if not all(figures[name] for name in ("written", "added", "popped", "changes heard of")):
        problems.append(f"too little was done: {figures}")
    return Judgement(problems, figures)


def _ended(records: Sequence[Record]) -> Iterator[Record]:
    """The end of each operation; of one that was cut short by a KILL, one without an outcome."""
    ends = {"writing": "written", "adding": "added", "putting": "put", "popping": "popped"}
    begun: dict[tuple[int, int, int], Record] = {}  # by thread
    for record in records:
        thread = record.worker, record.life, record.fields.get("client", 0)
        if record.what in ends:
            begun[thread] = record
        elif record.what in ends.values():
            begun.pop(thread, None)
            yield record
        elif record.what == "found":
            yield record
    yield from (record._replace(what=ends[record.what]) for record in begun.values())


def _write(key: Key, value: int, outcome: str) -> None:
    if outcome == DONE:
        key.done, key.writes = value, key.writes + 1
    elif outcome == UNKNOWN:
        key.maybe.append(value)


def _own(own: dict[str, Key], found: dict[str, tuple[int, int]]) -> Iterator[str]:
    for name, key in own.items():
        value, version = found.get(name, (0, -1))
        allowed = {key.done, *(each for each in key.maybe if each > key.done)}
        if value not in allowed:
            yield f"{name} holds {value}, not one of {sorted(allowed)}"
        if not key.writes <= version + 1 <= key.writes + len(key.maybe):
            yield f"{name} was written {version + 1} times, not {key.writes} to {key.writes + len(key.maybe)}"


def _shared(adds: Counter[str], maybe: Counter[str], found: dict[str, tuple[int, int]]) -> Iterator[str]:
    for name, (value, version) in found.items():
        if name.startswith("shared-"):
            if value != version:
                yield f"{name} holds {value}, but was written {version} times"
            if not adds[name] <= value <= adds[name] + maybe[name]:
                yield f"{name} holds {value}, not {adds[name]} to {adds[name] + maybe[name]}"
        elif name.startswith("common-") and not adds[name] <= version <= adds[name] + maybe[name]:
            yield f"{name} was written {version} times, not {adds[name]} to {adds[name] + maybe[name]}"


def _items(items: Items, found: dict[str, tuple[int, int]]) -> Iterator[str]:
    left = {name for name in found if name.startswith("item-")}
    yield from (f"{item} was popped {count} times" for item, count in items.popped.items() if count > 1)
    yield from (f"{item} was popped and is still there" for item in left if items.popped[item])
    popped = {item for item, count in items.popped.items() if count}
    yield from (f"nobody has put {item}" for item in (left | popped) - items.putting)
    yield from (f"{item} is lost" for item in items.put - left - popped - items.maybe_popped)


def _seen(records: Sequence[Record]) -> Iterator[str]:
    """No key with a version is ever deleted."""
    last: dict[tuple[int, int, str], tuple[int, int]] = {}
    for record in records:
        if record.what == "seen":
            worker, key = f"worker {record.worker}, life {record.life}", record.fields["key"]
            at = record.worker, record.life, key
            version, value = record.fields["version"], record.fields["value"]
            if version is None:
                yield f"{worker} heard that {key} is gone"
            elif (version, value) <= last.get(at, (-1, -1)):
                yield f"{worker}: {key} went from {last[at]} to {(version, value)}"
            else:
                last[at] = version, value


def _told(records: Sequence[Record]) -> Iterator[str]:
    told = [record for record in records if record.what == "told"]
    if not told:
        yield "no worker says what it was told"
    for record in told:
        for key, version in record.fields["missing"].items():
            yield f"worker {record.worker} was never told of version {version} of {key}"
