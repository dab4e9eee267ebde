"""A transaction whose commit is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from parkazoo.kazoo_private import RolledBackError, RuntimeInconsistency, Transaction
from parkazoo.protocol import asking
from parkazoo.protocol.steps import Request
from parkazoo.types import ACLs
from parkazoo.types.client import TransactionResult

BESIDE = (RolledBackError, RuntimeInconsistency)  # another operation of the transaction has failed


class AsyncTransaction:
    """``async with client.transaction() as t: t.create(...)`` commits at the end, unless the block raises.

    It raises what the commit raises, or else the error of the operation that has failed: nothing is done then.

    :ivar results: of each operation, after a commit. :ivar committed: ZooKeeper has committed it.
    """

    def __init__(
        self, chroot: str, default_acl: ACLs | None, ask: Callable[[Request], asyncio.Future[Any]]
    ) -> None:
        self.operations: list[Any] = []
        self.results: list[TransactionResult] = []
        self.committed = False
        self._chroot = chroot
        self._default_acl = default_acl
        self._ask = ask
        self._commit: asyncio.Future[list[TransactionResult]] | None = None

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
        acl = self._default_acl or None if acl is None else acl
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
        if self._commit is not None and not self._commit.done():
            raise ValueError("Transaction is being committed")

    async def commit(self) -> list[TransactionResult]:
        """Commits. After a failure it can be changed and committed again; after a ConnectionLoss it may have been
        done.

        :returns: the result of each operation, or its error.
        :raises ValueError: it has been committed, or is just being.
        :raises CrossEnsembleError: its znodes are on several ensembles.
        """
        return await self.commit_async()

    def commit_async(self) -> asyncio.Future[list[TransactionResult]]:
        """See :meth:`commit`."""
        return self._commit_by(lambda operations: self._ask(Transaction(operations)))

    def _commit_by(
        self, issue: Callable[[list[Any]], asyncio.Future[list[TransactionResult]]]
    ) -> asyncio.Future[list[TransactionResult]]:
        """Commits by another request than a transaction's."""
        self._verify_open()
        self._commit = issue(list(self.operations))
        self._commit.add_done_callback(self._note)
        return self._commit

    def _note(self, commit: asyncio.Future[list[TransactionResult]]) -> None:
        if not commit.cancelled() and commit.exception() is None:
            self.results = commit.result()
            self.committed = not (self.results and isinstance(self.results[0], Exception))  # then all are

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
