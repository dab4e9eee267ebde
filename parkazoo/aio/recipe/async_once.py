"""``once`` for asyncio: a write that is done once, however often its connection is lost."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError, OperationTimeoutError

from parkazoo.aio.async_transaction import AsyncTransaction
from parkazoo.aio.future_reply import FutureReply
from parkazoo.aio.recipe.sight import GrowingPauses, steadily
from parkazoo.aio.tending import Tending
from parkazoo.protocol.once import Markers, Once, named, only_result, told
from parkazoo.protocol.placement import split
from parkazoo.protocol.rights import own_acl
from parkazoo.types.client import TransactionResult


class AsyncOnce:
    """Does one client's writes, each once. They do not wait for each other.

    A write whose caller is cancelled may have been done, or be done later, but never twice: its marker serves no
    other until it has its answer.
    """

    def __init__(self, client: Tending) -> None:
        self._client = client
        self._markers = Markers()

    async def call(self, func: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        """See :meth:`AsyncRecipes.once`."""
        name, owner = getattr(func, "__name__", ""), getattr(func, "__self__", None)
        if isinstance(owner, AsyncTransaction) and owner.client is self._client and name == "commit":
            inspect.signature(func).bind(*args, **kwargs)
            return await self._commit_transaction(owner)
        if owner is not self._client or name not in ("create", "set", "delete"):
            raise TypeError(
                "once takes client.create, client.set, client.delete, or the commit of a client.transaction(), "
                f"of the same client; not {func!r}"
            )
        given = inspect.signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        return await getattr(self, f"_{name}")(**given.arguments)

    async def _create(
        self, path: str, value: bytes | None, makepath: bool, include_data: bool, **others: Any
    ) -> str:
        if include_data:
            raise TypeError("once gives the path alone: leave include_data away, and ask for the stat by exists")
        transaction = self._client.transaction()
        transaction.create(path, b"" if value is None else value, **others)
        while True:
            try:
                return str(await self._only(transaction))
            except NoNodeError:
                if not makepath:
                    raise
            above = self._client.unchroot(split(transaction.operations[0].path)[0])
            await steadily(self._client, partial(self._client.ensure_path, above, others["acl"]))

    async def _set(self, path: str, value: bytes | None, version: int) -> Any:
        transaction = self._client.transaction()
        transaction.set_data(path, b"" if value is None else value, version)
        return await self._only(transaction)

    async def _delete(self, path: str, version: int, recursive: bool) -> Any:
        if recursive:
            raise TypeError("once deletes one znode: a recursive delete may be repeated")
        transaction = self._client.transaction()
        transaction.delete(path, version)
        return await self._only(transaction)

    async def _only(self, transaction: AsyncTransaction) -> TransactionResult:
        operations = transaction.operations
        return only_result(operations, await self.commit(operations), self._client.unchroot)

    async def commit(self, operations: Sequence[Any]) -> list[TransactionResult]:
        """The results of these operations.

        :raises: as :meth:`AsyncRecipes.once`.
        """
        return (await self.commit_exactly(operations))[0]

    async def commit_exactly(self, operations: Sequence[Any]) -> tuple[list[TransactionResult], bool]:
        """The results of these operations, and whether all stats are the write's own, and none is newer.

        :raises: as :meth:`AsyncRecipes.once`.
        """
        return await self._commit(self._request(operations))

    async def _commit_transaction(self, transaction: AsyncTransaction) -> list[TransactionResult]:
        request = self._request(list(transaction.operations))
        transaction.begin_commit(request)

        def note(results: list[Any]) -> None:
            transaction.answered(named(request, results, self._client.unchroot))

        return (await self._commit(request, note))[0]

    def _request(self, operations: Sequence[Any]) -> Once:
        return self._markers.request(operations, own_acl(self._client.auth_data))

    async def _commit(
        self, request: Once, note: Callable[[list[Any]], None] = lambda results: None
    ) -> tuple[list[TransactionResult], bool]:
        """:param note: called with the results, although its caller may be cancelled by then."""
        pauses = GrowingPauses(self._client)
        try:
            while True:
                try:
                    results = await self._ask(request, note)
                except (ConnectionLoss, OperationTimeoutError):
                    pass
                except Exception as error:
                    raise told(request, error, self._client.unchroot) from None
                else:
                    return named(request, results, self._client.unchroot), request.is_exact
                await pauses.next()
        finally:
            request.is_left = True

    def _ask(self, request: Once, note: Callable[[list[Any]], None]) -> asyncio.Future[Any]:
        answer = self._client._new_future()
        request.is_under_way = True
        self._client._call(request, OnceReply(answer, request, note))
        return answer


class OnceReply(FutureReply):
    """Ends the request, whether its caller still waits or not."""

    __slots__ = ("_note", "_request")

    def __init__(self, future: asyncio.Future[Any], request: Once, note: Callable[[list[Any]], None]) -> None:
        super().__init__(future)
        self._request = request
        self._note = note

    def set(self, value: Any = None) -> None:
        self._request.is_under_way = False
        self._note(value)
        super().set(value)

    def set_exception(self, exception: Exception) -> None:
        self._request.is_under_way = False
        super().set_exception(exception)
