"""A write that is done once, however often its connection is lost: :meth:`ParKazooClient.once`."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.retry import KazooRetry, RetryFailedError

from parkazoo.kazoo_private import Create
from parkazoo.protocol.once import Marker, Once
from parkazoo.protocol.placement import split
from parkazoo.protocol.rights import own_acl
from parkazoo.recipe.transaction import RetriableTransaction

PAUSE_S, MOST_PAUSE_S = 0.05, 1.0
SAFE_BYTES = 1_000_000  # servers end the connection of who sends more than jute.maxbuffer, by default 1 MiB
TRIES_IF_LARGE = 3
MAY_BE_DONE = "the session has ended before the answer came: it may have been done, or not"


class ExactlyOnce:
    """The writes of one client that are to be done once.

    Each that is under way has a marker of its own, so they do not wait for each other.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._free: deque[Marker] = deque()
        self._numbers = count(1)

    def __call__(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
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
        self, path: Any, value: Any, acl: Any, ephemeral: Any, sequence: Any, makepath: Any, include_data: Any
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

    def _set(self, path: Any, value: Any, version: Any) -> Any:
        transaction = self._client.transaction()
        transaction.set_data(path, b"" if value is None else value, version)
        return self._result_of(transaction)

    def _delete(self, path: Any, version: Any, recursive: Any) -> Any:
        if recursive:
            raise TypeError("once deletes one znode: a recursive delete may be repeated with client.retry")
        transaction = self._client.transaction()
        transaction.delete(path, version)
        return self._result_of(transaction)

    def _result_of(self, transaction: RetriableTransaction) -> Any:
        """The result of the only operation."""
        (result,) = self._commit(transaction)
        if isinstance(result, Exception):
            raise type(result)(_paths(self._client, transaction.operations))  # not about a parent, say
        return result

    def _commit(self, transaction: RetriableTransaction) -> list[Any]:
        return self.commit(transaction)[0]

    def commit(self, transaction: RetriableTransaction) -> tuple[list[Any], bool]:
        """The results of its operations, and whether all stats are those that it has left, and no newer ones.

        :raises: as :meth:`ParKazooClient.once`; see :func:`may_be_done`.
        """
        operations = list(transaction.operations)
        transaction.begin_commit()
        marker = self._free.pop() if self._free else self._new_marker()
        request = Once(operations, marker)
        results: list[Any] = []
        try:
            again = KazooRetry(
                max_tries=TRIES_IF_LARGE if (size := _size(operations)) > SAFE_BYTES else -1,
                delay=PAUSE_S,
                max_delay=MOST_PAUSE_S,
                ignore_expire=False,
                sleep_func=self._client.handler.sleep_func,
            )
            results = again(self._try, request)
        except RetryFailedError:
            raise ConnectionLoss(
                f"{_paths(self._client, operations)}: the connection was lost {TRIES_IF_LARGE} times at {size:,} "
                "bytes, which may be more than the servers take (jute.maxbuffer)"
            ) from None
        except (ConnectionClosedError, SessionExpiredError) as error:
            if marker.attempt is None:  # it was not sent
                raise
            raise type(error)(f"{_paths(self._client, operations)}: {MAY_BE_DONE}") from None
        finally:
            transaction.end_commit(bool(results) and not any(isinstance(each, Exception) for each in results))
            if marker.attempt is None:
                self._free.append(marker)
        named = [
            self._name(operation, result) if isinstance(result, str) else result
            for operation, result in zip(operations, results, strict=True)
        ]
        return named, request.is_exact

    def _try(self, request: Once) -> list[Any]:
        result = self._client.handler.async_result()
        self._client._call(request, result)
        results: list[Any] = result.get()
        return results

    def _new_marker(self) -> Marker:
        return Marker(next(self._numbers), own_acl(self._client.auth_data))

    def _name(self, operation: Create, made: str) -> str:
        """What the user calls what was made; it may have a number."""
        prefix = split(operation.path)[1]
        return str(self._client.unchroot(operation.path)) + split(made)[1][len(prefix) :]


def size_of(path: str, data: bytes) -> int:
    """What they take in a request, in bytes."""
    return len(path.encode("utf-8", "surrogatepass")) + len(data)


def _size(operations: Sequence[Any]) -> int:
    return sum(size_of(operation.path, getattr(operation, "data", None) or b"") for operation in operations)


def _paths(client: Any, operations: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(client.unchroot(operation.path) for operation in operations))


def may_be_done(error: Exception) -> bool:
    """Whether an error of a write by ``once`` leaves open whether it was done."""
    return MAY_BE_DONE in str(error)


def retried(client: Any, func: Callable[..., Any], *args: Any) -> Any:
    """``client.retry`` of what contains a write by ``once``: that is not done again if its session has ended."""
    ended: list[SessionExpiredError] = []

    def call() -> Any:
        try:
            return func(*args)
        except SessionExpiredError as error:
            ended.append(error)
            return None

    result = client.retry(call)
    if ended:
        raise ended[0]
    return result
