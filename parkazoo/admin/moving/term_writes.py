"""Transactions to a copy, each of which holds only in its term, many under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import UnreadableError
from parkazoo.admin.many_reads import send
from parkazoo.admin.moving.place import LEAST_BYTES, ImmovableError, TreePlace
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CheckVersion, Create, Delete, SetACL, SetData, Transaction
from parkazoo.protocol.placement import shown
from parkazoo.protocol.steps import failure
from parkazoo.types import AsyncResult

MOST_WRITES = 1000  # in one transaction
OVERHEAD = 100  # bytes of a write beside its path and data: an ACL, a header
SHARE_S = 0.005  # of a second's writes in one transaction: others wait for it
TRANSACTIONS_AT_ONCE = 4  # transactions
ACLS_AT_ONCE = 200
OVERTAKEN = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)
Write = Create | Delete | SetData


class TakenOverError(Exception):
    """Reports that a copy is another command's by now, or was taken back: the map says what has become of it."""


class ChangedError(Exception):
    """Reports that znodes are not as they were seen: look again."""


class _SentWrites(NamedTuple):
    writes: Sequence[Write | SetACL]
    result: AsyncResult[Any]
    done: int


class TermWrites:
    """Writes in order; :meth:`finish` waits for all of them.

    :param checks: of all transactions.
    :param pace: of single writes.
    :param progress: called with the number of znodes that have ended since.
    """

    def __init__(
        self,
        place: TreePlace,
        checks: Sequence[CheckVersion],
        per_second: float,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._place = place
        self._client = place.client
        self._checks = checks
        self._pace = Pace(per_second=per_second)
        self._most = int(max(1, min(MOST_WRITES, per_second * SHARE_S)))
        self._progress = progress
        self._largest = 0  # bytes that the servers take in one request, as far as is known
        self._writes: list[Write] = []
        self._bytes = self._done = 0
        self._sent: deque[_SentWrites] = deque()

    def add(self, *writes: Write) -> None:
        """
        :param writes: all in one transaction.
        :raises ChangedError: an earlier one was in vain.
        """
        size = sum(map(_size, writes))
        if self._writes and (len(self._writes) + len(writes) > self._most or self._is_too_much(size)):
            self._flush()
        self._writes += writes
        self._bytes += size

    def _is_too_much(self, more: int) -> bool:
        return self._bytes + more > LEAST_BYTES and self._bytes + more > self._place.most_bytes

    def end_znode(self) -> None:
        """A znode has all that it needs."""
        self._done += 1

    def set_acl(self, request: SetACL) -> None:
        """A server takes it in no transaction, so the aversion that it names has to keep a late one from harm."""
        self._flush()
        self._wait(1)
        self._sent.append(_SentWrites([request], send(self._client, request), 0))
        self._take_while_more_than(ACLS_AT_ONCE)

    def finish(self) -> None:
        self._flush()
        self._take_while_more_than(0)
        self._progress(self._done)

    def _flush(self) -> None:
        if not self._writes:
            return
        self._wait(len(self._writes))
        self._verify_size()
        request = Transaction([*self._checks, *self._writes])
        self._sent.append(_SentWrites(self._writes, send(self._client, request), self._done))
        self._writes, self._bytes, self._done = [], 0, 0
        self._take_while_more_than(TRANSACTIONS_AT_ONCE)

    def _wait(self, count: int) -> None:
        """Before so many writes."""
        self._place.go_on()
        self._pace.wait(count)

    def _verify_size(self) -> None:
        """
        :raises ImmovableError: a single write is larger than the servers take.
        """
        if self._bytes <= max(self._largest, LEAST_BYTES) or self._bytes <= self._place.most_bytes:
            return
        if self._client.takes(self._bytes) is False:
            largest = max(self._writes, key=_size)
            raise ImmovableError(
                f"{self._client} does not take {shown(largest.path)} in one request, about {_size(largest):,} "
                "bytes: raise jute.maxbuffer there"
            )
        self._largest = self._bytes

    def _take_while_more_than(self, most: int) -> None:
        while len(self._sent) > most:
            sent = self._sent.popleft()
            path = sent.writes[0].path
            try:
                answer = self._client.wait(path, sent.result)
            except OVERTAKEN as error:  # of a set_acls
                raise ChangedError(path) from error
            except ClusterMapError as error:
                if isinstance(sent.result.exception, InvalidACLError):
                    raise self._unknown_identity(path) from error
                raise
            if isinstance(answer, list):
                self._verify(sent.writes, answer)
            self._progress(sent.done)

    def _verify(self, writes: Sequence[Write | SetACL], results: Sequence[object]) -> None:
        index, error = failure(results)
        if error is None:
            return
        path = [*self._checks, *writes][index].path
        if index < len(self._checks):
            raise TakenOverError(f"{path} on {self._client}: {error!r}")
        if isinstance(error, OVERTAKEN):
            raise ChangedError(path) from error
        if isinstance(error, NoAuthError):
            raise self._client.no_right(path)
        if isinstance(error, InvalidACLError):
            raise self._unknown_identity(path)
        raise UnreadableError(f"{path} on {self._client}: {error!r}")

    def _unknown_identity(self, path: str) -> ImmovableError:
        return ImmovableError(f"{self._client} refuses the ACL of {shown(path)}: it knows no such identities")


def _size(write: Write) -> int:
    data = None if isinstance(write, Delete) else write.data
    return len(write.path.encode()) + len(data or b"") + OVERHEAD
