"""A write that is done once, however often its connection is lost: :meth:`ParKazooClient.once`."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kazoo.exceptions import NoNodeError
from kazoo.retry import ForceRetryError, KazooRetry

from parkazoo.engine.ports import OnAnswer
from parkazoo.protocol.once import Markers, Once, named, only_result, told
from parkazoo.protocol.rights import own_acl
from parkazoo.protocol.steps import WriteRequest
from parkazoo.recipe.transaction import RetriableTransaction
from parkazoo.types.client import TransactionResult
from parkazoo.types.znodes import ACLs, AsyncResult

PAUSE_S, MOST_PAUSE_S = 0.05, 1.0
PAUSE_SPREAD = 0.4  # of a pause

CommitAnswer = list[TransactionResult] | Exception  # to a transaction
ReadT = TypeVar("ReadT")
T = TypeVar("T")


class ExactlyOnce:
    """Runs one client's writes, each exactly once. They do not wait for each other."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._markers = Markers()
        self._lock = client.handler.lock_object()

    def __call__(self, func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """See :meth:`ParKazooClient.once`."""
        name, owner = getattr(func, "__name__", ""), getattr(func, "__self__", None)
        if isinstance(owner, RetriableTransaction) and owner.client is self._client and name == "commit":
            inspect.signature(func).bind(*args, **kwargs)
            return self._commit(owner)
        if owner is not self._client or name not in ("create", "set", "delete"):
            raise TypeError(
                "once takes client.create, client.set, client.delete, or the commit of a client.transaction(), "
                f"of the same client; not {func!r}"
            )
        given = inspect.signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        return getattr(self, f"_{name}")(**given.arguments)

    def _create(
        self,
        path: str,
        value: bytes | None,
        acl: ACLs | None,
        ephemeral: bool,
        sequence: bool,
        makepath: bool,
        include_data: bool,
    ) -> str:
        if include_data:
            raise TypeError("once gives the path alone: leave include_data away, and ask for the stat by exists")
        transaction = self._client.transaction()
        transaction.create(path, b"" if value is None else value, acl, ephemeral, sequence)
        try:
            return str(self._result_of(transaction))
        except NoNodeError:
            if not makepath:
                raise
        self._client.retry(self._client.make_above, transaction.operations[0], acl)
        return self._create(path, value, acl, ephemeral, sequence, makepath, include_data)

    def _set(self, path: str, value: bytes | None, version: int) -> TransactionResult:
        transaction = self._client.transaction()
        transaction.set_data(path, b"" if value is None else value, version)
        return self._result_of(transaction)

    def _delete(self, path: str, version: int, recursive: bool) -> TransactionResult:
        if recursive:
            raise TypeError("once deletes one znode: a recursive delete may be repeated with client.retry")
        transaction = self._client.transaction()
        transaction.delete(path, version)
        return self._result_of(transaction)

    def _result_of(self, transaction: RetriableTransaction) -> TransactionResult:
        """Returns the result of the only operation."""
        return only_result(transaction.operations, self._commit(transaction), self._client.unchroot)

    def _commit(self, transaction: RetriableTransaction) -> list[TransactionResult]:
        return self.commit(transaction)[0]

    def commit(self, transaction: RetriableTransaction) -> tuple[list[TransactionResult], bool]:
        """Returns the results of its operations, and whether all stats are the write's own, and none is newer.

        :raises: as :meth:`ParKazooClient.once`; see :func:`may_be_done`.
        """
        request = self._request(list(transaction.operations))
        try:
            transaction.begin_commit(request)
            answer = self._until_answered(request, transaction)
            if isinstance(answer, Exception):
                raise told(request, answer, self._client.unchroot)
        finally:
            request.is_left = True
        return named(request, answer, self._client.unchroot), request.is_exact

    def _request(self, operations: list[WriteRequest]) -> Once:
        """Adds a free marker to the request."""
        with self._lock:
            request = self._markers.request(operations, own_acl(self._client.auth_data))
        return request  # noqa: RET504 - from within, a signal handler's exception could keep the lock

    def _until_answered(self, request: Once, transaction: RetriableTransaction) -> CommitAnswer:
        """Returns the answer, which may be an error; issues the request again after each lost connection."""
        pause_s = PAUSE_S
        while isinstance(answer := self._ask(request, transaction), KazooRetry.RETRY_EXCEPTIONS):
            self._client.waits.pause(pause_s * random.uniform(1 - PAUSE_SPREAD, 1 + PAUSE_SPREAD))
            pause_s = min(2 * pause_s, MOST_PAUSE_S)
        return answer

    def _ask(self, request: Once, transaction: RetriableTransaction) -> CommitAnswer:
        """Issues the request once. An exception here is no answer: the caller was interrupted."""
        result = self._client.handler.async_result()
        request.is_under_way = True
        self._client._call(request, OnAnswer(partial(_answered, request, transaction, result)))
        return result.get()


def _answered(
    request: Once, transaction: RetriableTransaction, result: AsyncResult[CommitAnswer], answer: CommitAnswer
) -> None:
    """Ends the request, whether its caller still waits or not, and sets the result: an error is one too."""
    if not isinstance(answer, Exception):
        transaction.answered(answer)
    request.is_under_way = False
    result.set(answer)


def retried(client: Any, read: Callable[[], ReadT], write: Callable[[ReadT], T]) -> T:
    """Returns the result of `write`, which does something once and gets the result of `read`.

    It retries both as ``client.retry`` does, until `write` raises an error other than ForceRetryError: it may have
    been done then, so it is not repeated.
    """
    raised: list[BaseException] = []

    def call() -> T | None:
        found = read()
        try:
            return write(found)
        except ForceRetryError:
            raise
        except BaseException as error:
            raised.append(error)
            return None

    result = client.retry(call)
    if raised:
        raise raised[0]
    return result
