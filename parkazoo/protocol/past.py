"""A client's own past: no read is from before what its client has created or deleted there, above or below.

One ZooKeeper never shows a session a state from before its own write. Several can: a server of another ensemble
than the one that was written to may lag. A server that has answered a session's write, even one that failed, knows
all earlier writes of its ensemble. So a read of such a znode goes behind a write that cannot succeed, once for
each ensemble.

A count goes up when such an operation begins, and again when it has been answered; a later read must be behind
both. The tables are bounded. The highest count that has fallen out of them holds for every path that is not in
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from parkazoo.kazoo_private import Delete
from parkazoo.protocol.placement import FENCES
from parkazoo.protocol.steps import IMPOSSIBLE, Operation, WireRequest

PATHS_REMEMBERED = 1 << 12
# The answer is an error whatever the ACLs, and every server orders it with all writes before it answers.
CATCH_UP = Delete(FENCES, IMPOSSIBLE)
REFUSED = (BadVersionError, NoAuthError, NoNodeError)  # the answers to it


def ask_fresh(ensemble: int, *requests: WireRequest) -> Operation[list[Any]]:
    """Reads that are no older than this call, behind such a write; returns the answers or raises the first error.

    A sync would not do. A leader answers it before it has applied what its followers have; so does a deposed one.
    """
    refused, *answers = yield ((ensemble, CATCH_UP), *((ensemble, request) for request in requests))
    for answer in answers if isinstance(refused, REFUSED) else (refused,):
        if isinstance(answer, Exception):
            raise answer
    return answers


class Change:
    """A create, delete or transaction, from its beginning to the end of its ``with`` block.

    :ivar paths: what it creates or deletes, or would. :ivar began: the count when it began.
    :ivar count: the same, then the count when it was answered.
    :ivar ensemble: reads there come after it; -1 if that is not known of any ensemble.
    :ivar is_doubted: another stands for it in some tables, since an earlier one was noted there.
    """

    __slots__ = ("_failures", "_past", "began", "count", "ensemble", "is_doubted", "paths")

    def __init__(
        self, past: Past, paths: Sequence[str], ensemble: int, failures: tuple[type[Exception], ...]
    ) -> None:
        self.paths = paths
        self.began = self.count = 0
        self.ensemble = ensemble
        self.is_doubted = False
        self._past = past
        self._failures = failures

    def __enter__(self) -> Change:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if kind is not GeneratorExit:  # else no caller waits for it any more; and the lock may be held just then
            self._past.end(self, error is None or isinstance(error, self._failures))


class Past:
    """What one client has created and deleted lately.

    :param ensembles: how many there are. :param lock: is held while anything changes.
    """

    def __init__(self, ensembles: int, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._count = 0
        self._written = [0] * ensembles  # the count when the last write was sent that the ensemble has answered
        self._named: dict[str, Change] = {}  # by the znodes that were created or deleted
        self._below: dict[str, Change] = {}  # by the znodes above those
        self._forgotten = 0  # the highest count that has fallen out

    @property
    def count(self) -> int:
        return self._count

    def grow(self, ensembles: int) -> None:
        """There are more ensembles.

        As long as there was one, nothing was counted. So any path may have changed there, before the first count.
        """
        with self._lock:
            if len(self._written) == 1:
                self._written[0] = 1  # before there is a count: it is behind nothing
                self._forgotten = self._count = 1
            self._written += [0] * (ensembles - len(self._written))

    def begin(self, paths: Sequence[str], ensemble: int, failures: tuple[type[Exception], ...] = ()) -> Change:
        """A change of these znodes is about to be sent.

        :param ensemble: executes it, in the end. :param failures: errors that are that ensemble's, too.
        """
        change = Change(self, paths, ensemble, failures)
        if len(self._written) > 1:
            with self._lock:
                self._count = change.began = change.count = self._count + 1
                self._note(change, is_sent=False)
        return change

    def end(self, change: Change, is_executed: bool) -> None:
        """A change has been answered."""
        if len(self._written) == 1:
            return
        with self._lock:
            is_alone = self._count == change.began  # nothing else has begun or ended
            self._count = change.count = self._count + 1
            if not is_executed:
                change.ensemble = -1
            elif is_alone and change.ensemble >= 0:
                self._written[change.ensemble] = change.count
            is_noted = (
                len(change.paths) == 1 and not change.is_doubted and self._named.get(change.paths[0]) is change
            )
            if not (is_alone and is_noted):
                if not self._is_alike(change):
                    change.ensemble = -1  # no ensemble is known to have executed all
                self._note(change)

    def distrust(self) -> None:
        """Others have done something that a server might not show yet, nobody knows to which paths."""
        if len(self._written) > 1:
            with self._lock:
                self._forgotten = self._count = self._count + 1

    def caught_up(self, ensemble: int, count: int) -> None:
        """The ensemble has answered a write that was sent at that count."""
        with self._lock:
            self._written[ensemble] = max(self._written[ensemble], count)

    def _note(self, change: Change, *, is_sent: bool = True) -> None:
        """Put a change into the tables, in place of earlier ones.

        :param is_sent: it was; else its caller may yet give it up. Reads on its ensemble then count on no earlier
            change that they do not come after by themselves.
        """
        named, below, ensemble = self._named, self._below, change.ensemble
        counts = change.count if is_sent or ensemble < 0 else self._written[ensemble]
        for path in change.paths:
            old, parent, table = named.get(path), path, named
            while True:
                is_safe = old is None or old.count <= counts or old.ensemble == ensemble
                table[parent] = change if is_safe else self._doubted(change)
                if len(parent) <= 1:
                    break
                parent, table = parent.rpartition("/")[0] or "/", below
                old = below.get(parent)
        if len(named) > PATHS_REMEMBERED or len(below) > PATHS_REMEMBERED:
            for table in (named, below):
                while len(table) > PATHS_REMEMBERED:
                    oldest = next(iter(table))
                    self._forgotten = max(self._forgotten, table[oldest].count)  # before it is gone
                    del table[oldest]

    def _doubted(self, change: Change) -> Change:
        """What stands for a change and an earlier one until that is answered: no ensemble surely has both."""
        change.is_doubted = True
        doubted = Change(self, change.paths, -1, ())
        doubted.began = doubted.count = change.count
        return doubted

    def _is_alike(self, change: Change) -> bool:
        """Whether a change can stand in the tables for changes that began or ended after it began."""
        began, ensemble = change.began, change.ensemble
        for path in change.paths:
            old, parent = self._named.get(path), path
            while old is None or old.count <= began or old.ensemble == ensemble:
                if len(parent) <= 1:
                    break
                parent = parent.rpartition("/")[0] or "/"
                old = self._below.get(parent)
            else:
                return False
        return True

    def is_behind(self, ensemble: int, path: str) -> bool:
        """Whether a server of that ensemble might show `path` as it was before a change."""
        written = self._written[ensemble]
        if self._count <= written:
            return False
        if self._forgotten > written:
            return True
        change = self._below.get(path)
        while change is None or change.count <= written or change.ensemble == ensemble:
            if not path:
                return self._forgotten > written  # at last: another thread may just have forgotten one of these
            change = self._named.get(path)
            path = path.rpartition("/")[0]
        return True
