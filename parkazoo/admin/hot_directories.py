"""The directories with the most changes, from the events of a recursive watch. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from struct import Struct
from typing import NamedTuple

from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType

from parkazoo.admin.rates import DirectoryRates, Rates
from parkazoo.kazoo_private import WATCH_XID
from parkazoo.protocol.placement import logical_directory

EVENT = Struct("!iiqiiii")  # length, xid, zxid, error; type, state, length of the path
KEPT_AT_ONCE = 20_000  # directories, between two looks
KEPT_PATHS = 100_000
KEPT_LONG = 2_000  # of those
WITHIN_S = 15.0
MOST_ROWS = 50
SEEN = 0.9  # of an ensemble's writes: if fewer came as events, some are not seen
FEW = 20  # writes, which say nothing


class Seen(NamedTuple):
    """:param counts: events by directory, as clients name it; or by path, as the ensemble has it.
    :param events: all, also those whose count is not kept.
    :param made: if by path: those that were created, as far as they are kept.
    """

    counts: Mapping[str, int]
    events: int
    made: Collection[str] = ()


class EventCounts:
    """Counts events by directory, or by path, in bounded memory.

    If there are too many, those with fewer events are forgotten; their events still count together.
    """

    def __init__(self, *, by_path: bool = False) -> None:
        self._by_path = by_path
        self._most = KEPT_PATHS if by_path else KEPT_AT_ONCE
        self._counts: Counter[bytes] = Counter()
        self._made: set[bytes] = set()
        self._events = 0

    def add(self, data: bytes | bytearray, begin: int, end: int) -> bool:
        """Counts the event that this frame is; whether it is one.

        :raises ConnectionDropped: it is none that a server sends.
        """
        if end - begin < EVENT.size:
            return False
        _, xid, _, _, kind, _, length = EVENT.unpack_from(data, begin)
        if xid != WATCH_XID:
            return False
        path_begin = begin + EVENT.size
        if not 0 < length <= end - path_begin:
            raise ConnectionDropped("the server's event is not ZooKeeper's")
        path = bytes(data[path_begin : path_begin + length])
        self._counts[path if self._by_path else path[: path.rfind(b"/")]] += 1
        self._events += 1
        if self._by_path and EVENT_TYPE_MAP.get(kind) == EventType.CREATED:
            self._made.add(path)
        if len(self._counts) > self._most:
            self._counts = Counter(dict(self._counts.most_common(self._most // 2)))
            self._made &= self._counts.keys()
        return True

    def seen(self) -> Seen:
        if self._by_path:
            paths = {path.decode(errors="replace"): count for path, count in self._counts.items()}
            return Seen(paths, self._events, {path.decode(errors="replace") for path in self._made})
        counts: Counter[str] = Counter()
        for directory, count in self._counts.items():
            counts[logical_directory(directory.decode(errors="replace") or "/")] += count
        return Seen(dict(counts.most_common(KEPT_LONG)), self._events)


class _Sample(NamedTuple):
    seconds: float
    seen: Mapping[str, Seen]
    writes: Mapping[str, float | None]  # by ensemble: in these seconds


class HotDirectories:
    """Has the changes of the last `WITHIN_S` seconds: shorter times tell too little."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def add(self, rates: Rates, span_s: float, seen: Mapping[str, Seen], unfollowed: Mapping[str, str]) -> Rates:
        """Returns the rates with the hottest directories.

        :param span_s: since the last call. If looks are slow, the rates' own time is another.
        :param seen: in it, by ensemble. :param unfollowed: by ensemble: why its events do not come.
        """
        writes = {each.ensemble: None if each.writes is None else each.writes * span_s for each in rates.ensembles}
        self._samples.append(_Sample(span_s, seen, writes))
        while sum(each.seconds for each in self._samples) - self._samples[0].seconds >= WITHIN_S:
            self._samples.popleft()
        seconds = sum(each.seconds for each in self._samples)
        rows: list[DirectoryRates] = []
        unseen = [f"the directories of {name}: {why}" for name, why in unfollowed.items()]
        for name in writes:
            counts, events = self._counts(name)
            rows += [
                DirectoryRates(directory, name, round(count / seconds, 2), round(count / events, 4))
                for directory, count in counts.most_common(MOST_ROWS)
            ]
            if name not in unfollowed:
                unseen += self._unseen(name, events)
        rows.sort(key=lambda each: (-each.writes, each.directory))
        return rates._replace(
            directories=rows[:MOST_ROWS], directories_s=round(seconds, 3), unseen=[*rates.unseen, *unseen]
        )

    def _counts(self, name: str) -> tuple[Counter[str], int]:
        counts: Counter[str] = Counter()
        events = 0
        for each in self._samples:
            if name in each.seen:
                counts.update(each.seen[name].counts)
                events += each.seen[name].events
        return counts, events

    def _unseen(self, name: str, events: int) -> list[str]:
        written = [each.writes.get(name) for each in self._samples]
        whole = sum(each for each in written if each is not None)
        if None in written or whole < FEW or events >= SEEN * whole:
            return []
        return [
            f"the directories of {name}: {1 - events / whole:.0%} of its writes are not seen: writes have failed, "
            "sessions began and ended, the identity may not read the znodes, or the watch was lost for a while"
        ]
