"""A transaction that can be tried again, and knows whether it was committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from weakref import ref

from parkazoo.engine.ports import is_abandoned
from parkazoo.kazoo_private import Transaction, prefix_root
from parkazoo.types.client import TransactionRequest, TransactionResult
from parkazoo.types.znodes import ACLs, AsyncResult


class RetriableTransaction(TransactionRequest):
    """Replaces kazoo's TransactionRequest, but `committed` says whether ZooKeeper committed it, not whether it was
    tried.

    After a failure, or results that show that nothing was done, it can be changed and committed again; so
    ``client.retry(transaction.commit)`` works. After a ConnectionLoss it may have been done, like any request: a
    transaction that must not happen twice needs a check of a version.
    """

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._last: ref[Commit] | None = None

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> None:
        """Adds a create, as kazoo's; but ``/dir/`` with `sequence` makes ``/dir/0000000000``, as ``client.create``
        does.
        """
        super().create(path, value, acl, ephemeral, sequence)
        if sequence and path.endswith("/"):  # kazoo's drops the slash: the znode would be beside the directory
            request = self.operations[-1]
            self.operations[-1] = request._replace(path=prefix_root(self.client.chroot, path, True))

    def commit_async(self) -> AsyncResult[list[TransactionResult]]:
        """Commits the transaction asynchronously.

        :returns: kazoo's async result, which gets a list with the result of each operation.
        :raises ValueError: it has been committed, or a commit is under way.
        """
        result: AsyncResult[list[TransactionResult]] = self.client.handler.async_result()
        reply = _CommitReply(self, result)
        self.begin_commit(reply)
        self.client._call(Transaction(list(self.operations)), reply)
        return result

    def begin_commit(self, commit: Commit) -> None:
        """
        :param commit: whose end is the commit's. It has ended, too, when nothing refers to it.
        :raises ValueError: it has been committed, or is just being.
        """
        self._check_tx_state()
        self._last = ref(commit)

    def answered(self, results: Sequence[object]) -> None:
        self.committed = not (results and isinstance(results[0], Exception))  # then all are

    def _add(self, request: Any, post_processor: object = None) -> None:
        """Does not log the request, as kazoo's does: its ACL may have a digest."""
        self._check_tx_state()
        self.operations.append(request)

    def _check_tx_state(self) -> None:
        super()._check_tx_state()
        commit = None if self._last is None else self._last()
        if commit is not None and not commit.is_over:
            raise ValueError("Transaction is being committed")


class Commit(Protocol):
    """A commit of a transaction."""

    @property
    def is_over(self) -> bool:
        """Whether it can send nothing more."""


class _CommitReply:
    """Updates the transaction before the caller gets the result.

    It does not wrap a reply alone, but is the commit: the transaction asks it whether it is over.
    """

    def __init__(self, transaction: RetriableTransaction, result: Any) -> None:
        self.is_over = False
        self._transaction = transaction
        self._result = result

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`."""
        return is_abandoned(self._result)

    def set(self, value: Any = None) -> None:
        self._transaction.answered(value)
        self.is_over = True
        self._result.set(value)

    def set_exception(self, exception: Exception) -> None:
        self.is_over = True
        self._result.set_exception(exception)
