"""A transaction whose commit is awaited."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import ref

from parkazoo.aio.future_reply import FutureReply
from parkazoo.kazoo_private import RolledBackError, RuntimeInconsistency, Transaction
from parkazoo.protocol import asking
from parkazoo.protocol.once import Once
from parkazoo.types import ACLs
from parkazoo.types.client import TransactionResult

if TYPE_CHECKING:
    from parkazoo.aio.async_calls import AsyncCalls

BESIDE = (RolledBackError, RuntimeInconsistency)  # another operation of the transaction has failed


class AsyncTransaction:
    """``async with client.transaction() as t: t.create(...)`` commits at the end, unless the block raises.

    It raises what the commit raises, or else the error of the operation that has failed: nothing is done then.

    :ivar results: of each operation, after a commit. :ivar committed: ZooKeeper has committed it.
    """

    def __init__(self, client: AsyncCalls) -> None:
        self.client = client
        self.operations: list[Any] = []
        self.results: list[TransactionResult] = []
        self.committed = False
        self._chroot = client.chroot
        self._last: ref[AwaitedCommit | Once] | None = None

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> None:
        """Adds a create."""
        if value is None:
            raise TypeError("Invalid type for 'value' (must be a byte string)")
        acl = self.client.default_acl or None if acl is None else acl
        self._add(asking.create(self._chroot, path, value, acl, ephemeral, sequence, False, False))

    def delete(self, path: str, version: int = -1) -> None:
        """Adds a delete."""
        self._add(asking.delete(self._chroot, path, version))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """Adds a set."""
        if value is None:
            raise TypeError("Invalid type for 'value' (must be a byte string)")
        self._add(asking.set_data(self._chroot, path, value, version))

    def check(self, path: str, version: int) -> None:
        """Adds a check: nothing is done unless the znode has this version."""
        self._add(asking.check_version(self._chroot, path, version))

    def _add(self, operation: object) -> None:
        self._verify_open()
        self.operations.append(operation)

    def _verify_open(self) -> None:
        if self.committed:
            raise ValueError("Transaction already committed")
        commit = None if self._last is None else self._last()
        if commit is not None and not commit.is_over:
            raise ValueError("Transaction is being committed")

    async def commit(self) -> list[TransactionResult]:
        """Commits. After a failure it can be changed and committed again; after a ConnectionLoss it may have been
        done. If it is cancelled, it is being committed until there is an answer.

        :returns: the result of each operation, or its error.
        :raises ValueError: it has been committed, or is just being.
        :raises CrossEnsembleError: its znodes are on several ensembles.
        """
        return await self.commit_async()

    def commit_async(self) -> asyncio.Future[list[TransactionResult]]:
        """See :meth:`commit`."""
        future: asyncio.Future[list[TransactionResult]] = self.client._new_future()
        commit = AwaitedCommit(self, future)
        self.begin_commit(commit)
        self.client._call(Transaction(list(self.operations)), commit)
        return future

    def begin_commit(self, commit: AwaitedCommit | Once) -> None:
        """
        :param commit: whose end is the commit's, whether its caller still waits or not. It has ended, too, when
            nothing refers to it.
        :raises ValueError: it has been committed, or is just being.
        """
        self._verify_open()
        self._last = ref(commit)

    def answered(self, results: list[TransactionResult]) -> None:
        self.results = results
        self.committed = not (results and isinstance(results[0], Exception))  # then all are

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            failed = [each for each in await self.commit() if isinstance(each, Exception)]
            for each in failed:
                if not isinstance(each, BESIDE):
                    raise each
            if failed:
                raise failed[0]


class AwaitedCommit(FutureReply):
    """Tells the transaction, too, whether its caller still waits or not.

    :ivar is_over: there is an answer.
    """

    __slots__ = ("__weakref__", "_transaction", "is_over")

    def __init__(self, transaction: AsyncTransaction, future: asyncio.Future[Any]) -> None:
        super().__init__(future)
        self.is_over = False
        self._transaction = transaction

    def set(self, value: Any = None) -> None:
        self.is_over = True
        self._transaction.answered(value)
        super().set(value)

    def set_exception(self, exception: Exception) -> None:
        self.is_over = True
        super().set_exception(exception)
