"""Where a LockingQueue has its entries and their locks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from parkazoo.kazoo_private import RolledBackError, RuntimeInconsistency
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import join

ENTRIES, KAZOOS_LOCKS = "entries", "taken"
LOCK_PREFIX = "taken-"
OURS = b"locks beside entries"  # data of `entries`, of clusters that began with one ensemble


class QueueLayout:
    """kazoo has the locks in ``taken/``, beside ``entries/``; else they are siblings of their entries.

    :param path: of the queue.
    :ivar entries: path of the folder with the entries. :ivar locks: of that with the locks.
    """

    def __init__(self, path: str, is_kazoos: bool) -> None:
        self.is_kazoos = is_kazoos
        self.entries = entries_of(path)
        self.locks = join(path, KAZOOS_LOCKS) if is_kazoos else self.entries

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.locks, self.entries) if self.is_kazoos else (self.entries,)

    def path_of(self, entry: str) -> str:
        return join(self.entries, entry)

    def lock_of(self, entry: str) -> str:
        return join(self.locks, entry if self.is_kazoos else LOCK_PREFIX + entry)

    def first_free(self, names: Iterable[str], locks: Iterable[str]) -> str | None:
        """The first entry that nobody has locked.

        :param names: of all children of :attr:`entries`. :param locks: of all children of :attr:`locks`.
        """
        if not self.is_kazoos:
            locks = [name.removeprefix(LOCK_PREFIX) for name in locks if is_lock(name)]
        locked = {*locks}
        return min((name for name in names if name not in locked and not is_lock(name)), default=None)

    def add_end(self, transaction: Any, entry: str, version: int, is_consumed: bool) -> None:
        """What ends the lock of an entry, and the entry if it is consumed.

        :param version: that the entry has since it was locked.
        """
        if is_consumed:
            transaction.delete(self.path_of(entry), version)
        else:
            transaction.check(self.path_of(entry), version)
        transaction.delete(self.lock_of(entry))


def entries_of(path: str) -> str:
    """The folder with the entries of a queue, in each layout."""
    return join(path, ENTRIES)


def is_lock(name: str) -> bool:
    """Whether a child of ``entries`` is a lock."""
    return name.startswith(LOCK_PREFIX)


def may_be_kazoos(cluster_map: ClusterMap) -> bool:
    """Whether the cluster began with one ensemble: else both folders may not be on the same one."""
    return len(cluster_map.placement) - len(cluster_map.unweighted) == 1


def first_data(cluster_map: ClusterMap) -> bytes:
    """What the client that makes ``entries`` writes there, if :func:`may_be_kazoos`."""
    return OURS if cluster_map.form is Form.GROWN else b""


def errors_of(results: Iterable[object]) -> list[Exception]:
    """The errors of a transaction's operations, without those that failed because of another one."""
    others = RolledBackError, RuntimeInconsistency
    return [each for each in results if isinstance(each, Exception) and not isinstance(each, others)]
