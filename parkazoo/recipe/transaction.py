"""A transaction that can be tried again, and knows whether it was committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parkazoo.kazoo_private import Transaction, prefix_root
from parkazoo.types.client import TransactionRequest, TransactionResult
from parkazoo.types.znodes import ACLs, AsyncResult


class RetriableTransaction(TransactionRequest):
    """kazoo's TransactionRequest; `committed` says whether ZooKeeper has done it, not whether it was tried.

    After a failure, or results that say that nothing was done, it can be changed and committed again; so
    ``client.retry(transaction.commit)`` works. After a ConnectionLoss it may have been done all the same, like any
    request: a transaction that must not happen twice needs a check of a version.
    """

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._is_under_way = False

    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> None:
        """As kazoo's; but ``/dir/`` with `sequence` makes ``/dir/0000000000``, as ``client.create`` does."""
        super().create(path, value, acl, ephemeral, sequence)
        if sequence and path.endswith("/"):  # kazoo's drops the slash: the znode would be beside the directory
            request = self.operations[-1]
            self.operations[-1] = request._replace(path=prefix_root(self.client.chroot, path, True))

    def commit_async(self) -> AsyncResult[list[TransactionResult]]:
        """Commit the transaction asynchronously.

        :returns: kazoo's async result, which gets a list of the results for each operation.
        :raises ValueError: it has been committed, or is just being.
        """
        result: AsyncResult[list[TransactionResult]] = self.client.handler.async_result()
        self.begin_commit()
        self.client._call(Transaction(list(self.operations)), _Reply(self.end_commit, result))
        return result

    def begin_commit(self) -> None:
        """
        :raises ValueError: it has been committed, or is just being.
        """
        self._check_tx_state()
        self._is_under_way = True

    def end_commit(self, is_done: bool) -> None:
        self.committed = is_done
        self._is_under_way = False

    def _check_tx_state(self) -> None:
        super()._check_tx_state()
        if self._is_under_way:
            raise ValueError("Transaction is being committed")


class _Reply:
    """Updates the transaction before the caller gets the result."""

    def __init__(self, end: Callable[[bool], None], result: Any) -> None:
        self._end = end
        self._result = result

    def set(self, value: Any = None) -> None:
        self._end(not any(isinstance(each, Exception) for each in value))
        self._result.set(value)

    def set_exception(self, exception: Exception) -> None:
        self._end(False)
        self._result.set_exception(exception)
