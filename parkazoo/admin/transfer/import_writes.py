"""Creates, sets and counters, many under way, done whatever connections are lost."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from parkazoo.admin.clients import AGAIN_S
from parkazoo.admin.transfer.export_file import Record, differences
from parkazoo.admin.transfer.in_order import BYTES_HELD
from parkazoo.admin.transfer.systems import System
from parkazoo.admin.transfer.window import LOST, Issue, Window
from parkazoo.admin.walk import UNDER_WAY
from parkazoo.protocol.placement import join, shown
from parkazoo.protocol.steps import failure

PAIRS = 1000  # of a create and a delete in one transaction
TRANSACTION_BYTES = 500_000
OVERHEAD = 200  # bytes of a pair beside its paths
ROUNDS = 3  # in which a create may find no parent, whose own create was lost


class NotImportedError(KazooException):
    """Reports that an import did not come to its end, and at which znode."""


class _Write(NamedTuple):
    record: Record
    issue: Issue
    is_create: bool


class Writes:
    """Writes of one import. An operation of a client sees its earlier ones, so a child's create need not wait.

    :param window: under way in it are also the reads of the walk.
    """

    def __init__(self, system: System, window: Window) -> None:
        self._client = system.client
        self._make_above = system.make_above
        self._creates = system.around.creates
        self._window = window
        self._bytes = 0
        self._under_way = 0
        self._again: list[_Write] = []
        self._orphans: dict[str, int] = {}
        self._names = f"parkazoo-import-{uuid.uuid4().hex[:12]}"

    def create_above(self, path: str) -> None:
        """Makes what is missing above a path, with an open ACL: the file has none of it. Waits until it is there.

        :raises NotImportedError: a write was refused.
        """
        self._under_way += 1
        self._begin_above(path)
        while self._under_way:
            self._window.wait()

    def create(self, record: Record) -> None:
        """
        :raises NotImportedError: a write was refused.
        """
        make = partial(self._client.create_async, record.path, record.data, acl=list(record.acl))
        self._send(_Write(record, make, True))

    def overwrite(self, record: Record, what: list[str]) -> None:
        """
        :param what: "data", "ACL" or both.
        """
        if "data" in what:
            self._send(_Write(record, partial(self._client.set_async, record.path, record.data), False))
        if "ACL" in what:
            self._send(_Write(record, partial(self._client.set_acls_async, record.path, list(record.acl)), False))

    def raise_counter(self, record: Record, seen: int) -> None:
        """Raises the number of the next sequential child, by children that go as they come.

        Each transaction makes and deletes; nobody sees the children, but watches on them are called.

        :param seen: how many children the directory has ever had.
        """
        self._make_room()
        self._under_way += 1
        self._raise(record, seen)

    def finish(self) -> None:
        """Waits until all is done."""
        self._settle()
        self._window.drain()

    def _begin_above(self, path: str) -> None:
        self._window.write(partial(self._make_above, path), partial(self._end_above, path))

    def _end_above(self, path: str, answer: Any) -> None:
        if isinstance(answer, LOST):
            time.sleep(AGAIN_S)
            self._begin_above(path)
        elif isinstance(answer, Exception):
            raise _refused(f"what is missing above {path}", answer)
        else:
            self._under_way -= 1

    # ---- creates and sets ----------------------------------------------------------------------

    def _send(self, write: _Write) -> None:
        if self._again:
            self._settle()
        self._make_room()
        self._issue(write)

    def _make_room(self) -> None:
        while self._under_way and (self._under_way >= UNDER_WAY or self._bytes >= BYTES_HELD):
            self._window.wait()

    def _issue(self, write: _Write) -> None:
        self._under_way += 1
        self._bytes += len(write.record.data or b"")
        self._window.write(write.issue, partial(self._take, write))

    def _take(self, write: _Write, answer: Any) -> None:
        self._under_way -= 1
        self._bytes -= len(write.record.data or b"")
        path = write.record.path
        if isinstance(answer, LOST):
            self._again.append(write)
        elif isinstance(answer, NoNodeError) and write.is_create and self._orphans.get(path, 0) < ROUNDS:
            self._orphans[path] = self._orphans.get(path, 0) + 1
            self._again.append(write)
        elif isinstance(answer, NodeExistsError) and write.is_create:  # perhaps ours, whose answer was lost
            self._under_way += 1
            self._window.read(partial(self._client.get_async, path), partial(self._see, write.record))
        elif isinstance(answer, Exception):
            raise _refused(path, answer)

    def _settle(self) -> None:
        """Sends what was lost once more, in order, when nothing else is under way."""
        while self._under_way or self._again:
            while self._under_way:
                self._window.wait()
            if self._again:
                time.sleep(AGAIN_S)
            again, self._again = sorted(self._again, key=lambda each: each.record.path.split("/")), []
            for write in again:
                self._issue(write)
        self._orphans.clear()

    def _see(self, record: Record, answer: Any) -> None:
        if isinstance(answer, Exception):
            raise _refused(record.path, answer)
        self._window.read(
            partial(self._client.get_acls_async, record.path), partial(self._compare, record, answer[0])
        )

    def _compare(self, record: Record, data: bytes | None, answer: Any) -> None:
        self._under_way -= 1
        if isinstance(answer, Exception):
            raise _refused(record.path, answer)
        if differences(record, Record(record.path, data, tuple(answer[0]))):
            raise NotImportedError(f"{shown(record.path)} has come meanwhile, and differs: run the import again")

    # ---- counters ------------------------------------------------------------------------------

    def _raise(self, record: Record, seen: int) -> None:
        if seen >= record.creates:
            self._window.read(partial(self._client.exists_async, record.path), partial(self._look, record, False))
            return
        name = join(record.path, self._names)
        most = max(1, TRANSACTION_BYTES // (2 * len(name.encode()) + OVERHEAD))
        pairs = min(PAIRS, most, record.creates - seen)
        transaction = self._client.transaction()
        for _ in range(pairs):
            transaction.create(name)
            transaction.delete(name)
        self._window.write(transaction.commit_async, partial(self._raised, record, seen + pairs))

    def _raised(self, record: Record, seen: int, answer: Any) -> None:
        if isinstance(answer, LOST):
            self._window.read(partial(self._client.sync_async, record.path), lambda _: self._look_again(record))
            return
        error = answer if isinstance(answer, Exception) else failure(answer)[1]
        if error is not None:
            raise _refused(record.path, error)
        self._raise(record, seen)

    def _look_again(self, record: Record) -> None:
        self._window.read(partial(self._client.exists_async, record.path), partial(self._look, record, True))

    def _look(self, record: Record, is_doubtful: bool, answer: Any) -> None:
        """
        :param is_doubtful: whether a transaction's answer was lost.
        """
        if isinstance(answer, Exception) or answer is None:
            raise _refused(record.path, answer or NoNodeError())
        seen = self._creates(record.path, answer)
        if seen >= record.creates:
            self._under_way -= 1
        elif is_doubtful:
            self._raise(record, seen)
        else:
            raise NotImportedError(
                f"the sequence counter of {shown(record.path)} is {seen:,} and not {record.creates:,}"
            )


def _refused(path: str, error: Exception) -> NotImportedError:
    about = f"{type(error).__name__} {error}".strip()
    return NotImportedError(
        f"{shown(path)} was refused: {about}. Run the import again when that is mended: it goes on"
    )
