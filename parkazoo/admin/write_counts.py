"""Writes by directory: from the events of a watch on all znodes, or from two looks at each znode. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from parkazoo.admin.hot_directories import KEPT_PATHS, Seen
from parkazoo.protocol.placement import (
    MIRRORS,
    PROOF,
    ROOT,
    directory_of_pin,
    is_reserved,
    join,
    logical,
    split,
)


class DirectoryWrites(NamedTuple):
    """Describes the writes in a directory: its children created, set and deleted.

    :param directory: as clients name it; ROOT has all that is ParKazoo's own.
    :param path: its path on the ensemble, where its children are.
    :param writes: per second.
    :param made_s: when it was made at `path`, since the epoch; None: not known.
    :param hottest: the path of the child that is written most, as clients name it, and its part of `writes`.
    """

    ensemble: str
    directory: str
    path: str
    writes: float
    made_s: float | None = None
    hottest: tuple[str, float] = ("", 0.0)


class Znode(NamedTuple):
    """Describes a znode as one look saw it.

    :param at_s: by a clock that only goes on. :param created_s: since the epoch.
    :param version: its sets. :param cversion: the creates and deletes of its children, which is exact.
    """

    at_s: float
    czxid: int
    created_s: float
    version: int
    cversion: int


class ChangeCounts:
    """Counts the changes of an ensemble by path, in bounded memory.

    With too many paths, those with fewer changes count in their directory alone. With too many directories, those
    with fewer changes are forgotten.
    """

    def __init__(self) -> None:
        self._paths: Counter[str] = Counter()
        self._directories: Counter[str] = Counter()
        self._made: set[str] = set()

    def add(self, seen: Seen) -> None:
        """:param seen: by path, since the last call."""
        self._paths.update(seen.counts)
        if len(self._made) < KEPT_PATHS:
            self._made.update(seen.made)
        if len(self._paths) > KEPT_PATHS:
            self._fold()

    def _fold(self) -> None:
        kept = Counter(dict(self._paths.most_common(KEPT_PATHS // 2)))
        for path in self._paths.keys() - kept.keys():
            self._directories[directory_of(path)] += self._paths[path]
        self._paths = kept
        if len(self._directories) > KEPT_PATHS:
            self._directories = Counter(dict(self._directories.most_common(KEPT_PATHS // 2)))

    def directories(self, ensemble: str, seconds: float, now_s: float) -> list[DirectoryWrites]:
        """Returns the writes of each directory, the hottest first.

        :param seconds: that the changes were counted. :param now_s: since the epoch.
        """
        counts = [(directory_of(path), path, count) for path, count in self._paths.items()]
        counts += [(directory, "", count) for directory, count in self._directories.items()]
        writes = ((directory, path, count / seconds) for directory, path, count in counts)
        return _summed(ensemble, writes, dict.fromkeys(self._made, now_s - seconds))


def counted_by_looks(
    ensemble: str, before: Mapping[str, Znode], now: Mapping[str, Znode], seconds: float
) -> list[DirectoryWrites]:
    """Returns the writes of each directory, the hottest first.

    Not seen are sets of znodes that are gone, and all in directories that came and went between the looks.

    :param before: by path. :param seconds: between the begins of the two looks.
    """
    writes = []
    for path, znode in now.items():
        was = before.get(path)
        if was is not None and was.czxid == znode.czxid and znode.at_s > was.at_s:
            sets, changes, passed_s = (
                znode.version - was.version,
                znode.cversion - was.cversion,
                znode.at_s - was.at_s,
            )
        else:  # it is new: its counts begin at 0
            sets, changes, passed_s = znode.version, znode.cversion, seconds
        if sets > 0:
            writes.append((directory_of(path), path, sets / passed_s))
        if changes > 0:
            writes.append((directory_of(join(path, "child")), "", changes / passed_s))
    return _summed(ensemble, writes, {path: znode.created_s for path, znode in now.items()})


def directory_of(path: str) -> str:
    """Returns the path on the ensemble of the directory in which a write of this znode counts.

    A mirror, and a pin, count in the directory that has them; all else below ROOT in ROOT.
    """
    if path.startswith(MIRRORS + "/"):
        if path.count("/") == MIRRORS.count("/") + 1:
            return path
    elif path == ROOT or path.startswith(ROOT + "/"):
        return ROOT
    home = path.removesuffix("/" + PROOF) if path.endswith("/" + PROOF) else directory_of_pin(path)
    return home or "/" if home != path else split(path)[0]


def is_own(each: DirectoryWrites) -> bool:
    """Whether these are ParKazoo's own writes."""
    return is_reserved(each.directory)


def _summed(
    ensemble: str, writes: Iterable[tuple[str, str, float]], made: Mapping[str, float]
) -> list[DirectoryWrites]:
    """:param writes: in which directory, of which child ("": of any), how many per second."""
    totals: dict[str, float] = defaultdict(float)
    hottest: dict[str, tuple[str, float]] = {}
    for path, child, rate in writes:
        totals[path] += rate
        if child and rate > hottest.get(path, ("", 0.0))[1]:
            hottest[path] = child, rate
    found = []
    for path, rate in totals.items():
        child, most = hottest.get(path, ("", 0.0))
        found.append(
            DirectoryWrites(ensemble, logical(path), path, rate, made.get(path), (logical(child), most / rate))
        )
    return sorted(found, key=lambda each: (-each.writes, each.path))
