"""The lasting watches that a client has on one ensemble, by physical path."""

from __future__ import annotations

from collections.abc import Iterator

from kazoo.protocol.states import EventType

from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.newer_requests import SetWatches2
from parkazoo.protocol.placement import above
from parkazoo.types import AddWatchMode

MOST_LETTERS = 1 << 17  # of the paths in one request


class LastingTable:
    """Only the loop changes it."""

    def __init__(self) -> None:
        self._watches: tuple[dict[str, list[LastingWatch]], ...] = tuple({} for _ in AddWatchMode)

    def __bool__(self) -> bool:
        return any(self._watches)

    def __iter__(self) -> Iterator[LastingWatch]:
        return iter([each for table in self._watches for watches in [*table.values()] for each in watches])

    def add(self, path: str, watch: LastingWatch) -> None:
        watches = self._watches[watch.mode].setdefault(path, [])
        if watch not in watches:
            watches.append(watch)

    def on(self, path: str) -> list[LastingWatch]:
        return [each for table in self._watches for each in table.get(path, ())]

    def discard(self, path: str, watch: object) -> bool:
        """Returns whether it was there."""
        for table in self._watches:
            if watch in table.get(path, ()):
                table[path] = [each for each in table[path] if each is not watch]
                if not table[path]:
                    del table[path]
                return True
        return False

    def clear(self) -> None:
        for table in self._watches:
            table.clear()

    def heard(self, kind: str, path: str) -> list[LastingWatch]:
        """Those that are to hear an event."""
        single, recursive = self._watches
        found = list(single.get(path, ()))
        if recursive and kind != EventType.CHILD:
            found += [each for level in (path, *above(path)) for each in recursive.get(level, ())]
        return found

    def requests(self, zxid: int) -> list[SetWatches2]:
        """What has a server keep them all again.

        :param zxid: of the last answer; servers tell of nothing that came since.
        """
        requests: list[SetWatches2] = []
        single: list[str] = []
        recursive: list[str] = []
        letters = 0
        for table, paths in zip(self._watches, (single, recursive), strict=True):
            for path in table:
                paths.append(path)
                letters += len(path)
                if letters > MOST_LETTERS:
                    requests.append(SetWatches2(zxid, tuple(single), tuple(recursive)))
                    single.clear()
                    recursive.clear()
                    letters = 0
        if single or recursive:
            requests.append(SetWatches2(zxid, tuple(single), tuple(recursive)))
        return requests
