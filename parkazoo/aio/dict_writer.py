"""The writes of an asyncio DistributedDict: each is done once, or raises OutcomeUnknown (docs/design/once.md)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    KazooException,
    NoNodeError,
    SessionExpiredError,
)

from parkazoo.aio.async_transaction import AsyncTransaction
from parkazoo.aio.dict_keeper import DictKeeper, KeptClient
from parkazoo.aio.recipe.async_once import AsyncOnce
from parkazoo.aio.recipe.sight import steadily
from parkazoo.engine.deferred.as_given import NAMED
from parkazoo.engine.deferred.writes import MOST_BYTES, OVERHEAD_BYTES
from parkazoo.errors import AnswerLostError, OutcomeUnknown
from parkazoo.protocol.once import may_be_done
from parkazoo.protocol.steps import failure
from parkazoo.structures.entry_writes import (
    NOT_AS_KNOWN,
    EntryWrite,
    merge,
    of_others,
    partly_done,
    size_of,
    verify_size,
)


class DictWriter:
    """Writes entries, and puts finished writes into the copy.

    :param is_ephemeral: end entries with the session of the client that wrote them last.
    """

    def __init__(
        self, client: KeptClient, once: AsyncOnce, keeper: DictKeeper, path: str, is_ephemeral: bool
    ) -> None:
        self._client = client
        self._once = once
        self._keeper = keeper
        self._path = path
        self._is_ephemeral = is_ephemeral

    def verify_size(self, key: str, raw: bytes) -> None:
        """
        :raises ValueError: it is too large.
        """
        verify_size(key, self._keeper.place(key), raw)

    async def verify(self) -> None:
        """
        :raises ValueError: the directory was made with shards.
        """
        try:
            data, _ = await steadily(self._client, partial(self._client.get, self._path))
            told = json.loads(data or b"")
        except (NoNodeError, ValueError):
            return
        if isinstance(told, dict) and "buckets" in told:
            raise ValueError(f"{self._path} was made with shards={told['buckets']}: the asyncio client has none")

    # ---- calls -------------------------------------------------------------------------------------

    async def put(self, values: Mapping[str, bytes]) -> None:
        """Sets entries, or makes them, in one transaction for each 512 KiB, one after the other.

        :raises PartlyDoneError: some were done before an error.
        """
        done: list[str] = []
        for part in self._parts(values):
            try:
                await self._put(part)
            except KazooException as error:
                if not done:
                    raise
                raise partly_done(values, done, error) from error
            done += part

    async def add(self, key: str, raw: bytes) -> bool:
        """Makes an entry, unless it exists; returns whether it did."""
        while True:
            began, transaction = self._begin()
            transaction.create(self._keeper.place(key), raw, ephemeral=self._is_ephemeral)
            error, results = await self._commit(transaction, [key])
            if isinstance(error, NoNodeError):
                await self._make_directory()
            elif error is not None:
                return False
            else:
                await self._merge(began, {key: raw}, [EntryWrite(key, "create")], results)
                return True

    async def swap(self, key: str, version: int, raw: bytes) -> bool:
        """Sets an entry of that version; returns whether it did."""
        began, transaction = self._begin()
        transaction.set_data(self._keeper.place(key), raw, version)
        error, results = await self._commit(transaction, [key])
        if error is None:
            await self._merge(began, {key: raw}, [EntryWrite(key, "set")], results)
        return error is None

    async def drop(self, key: str, version: int = -1) -> bool | None:
        """Deletes an entry; returns whether it existed, None if it has another version."""
        began, transaction = self._begin()
        transaction.delete(self._keeper.place(key), version)
        error, results = await self._commit(transaction, [key])
        if isinstance(error, BadVersionError):
            return None
        if error is not None:
            if self._keeper.copy.not_found(0, key, began):
                await self._resolve([key])
            return False
        await self._merge(began, {}, [EntryWrite(key, "delete")], results)
        return True

    # ---- one transaction ---------------------------------------------------------------------------

    def _parts(self, values: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
        part: dict[str, bytes] = {}
        size = 0
        for key, raw in values.items():
            more = size_of(self._keeper.place(key), raw) + OVERHEAD_BYTES
            if part and size + more > MOST_BYTES:
                yield part
                part, size = {}, 0
            part[key] = raw
            size += more
        if part:
            yield part

    async def _put(self, values: dict[str, bytes]) -> None:
        while values:
            began, transaction = self._begin()
            writes = [each for key, raw in values.items() for each in self._writes(transaction, key, raw)]
            error, results = await self._commit(transaction, list(values))
            if error is None:
                values = await self._merge(began, values, writes, results)
            elif writes[failure(results)[0]].kind == "create" and isinstance(error, NoNodeError):
                await self._make_directory()
            else:  # the copy is wrong
                for key in values:
                    await self._keeper.fetch(key)

    def _writes(self, transaction: AsyncTransaction, key: str, raw: bytes) -> Iterator[EntryWrite]:
        """Adds the operations that set or create an entry, or replace one of another session."""
        path, known = self._keeper.place(key), self._keeper.copy.entries.get(key)
        if known is not None:
            if known.owner == self._mine():
                transaction.set_data(path, raw)
                yield EntryWrite(key, "set")
                return
            transaction.delete(path, known.version)
            yield EntryWrite(key, "delete")
        transaction.create(path, raw, ephemeral=self._is_ephemeral)
        yield EntryWrite(key, "create")

    def _begin(self) -> tuple[int, AsyncTransaction]:
        return self._keeper.copy.ticket(), self._client.transaction()

    def _mine(self) -> int:
        """Returns the owner of written entries: this session, or none."""
        found = self._client.client_id if self._is_ephemeral else None
        return found[0] if found else 0

    async def _commit(self, transaction: AsyncTransaction, keys: list[str]) -> tuple[Exception | None, list[Any]]:
        """The error, if an entry is not as it was thought to be; the results, none if they are not known.

        :raises OutcomeUnknown: it may have been done.
        """
        try:
            results, is_exact = await self._once.commit_exactly(transaction.operations)
        except AnswerLostError:  # it was done, and something of it is gone since
            return None, []
        except (SessionExpiredError, ConnectionClosedError) as error:
            if may_be_done(error):
                named = ", ".join(map(repr, keys[:NAMED])) + (", ..." if len(keys) > NAMED else "")
                raise OutcomeUnknown(f"{named}: nobody knows whether it was written: {error}", keys) from error
            raise
        _, refused = failure(results)
        if refused is not None and not isinstance(refused, NOT_AS_KNOWN):
            raise refused
        return refused, results if refused is not None or is_exact else []

    async def _merge(
        self, began: int, values: Mapping[str, bytes], writes: list[EntryWrite], results: list[Any]
    ) -> dict[str, bytes]:
        """Puts finished writes into the copy; returns entries of another session, which must be written again."""
        copy, mine = self._keeper.copy, self._mine()
        if not results:
            await self._resolve([each.key for each in writes])
            return of_others(copy, values, mine)
        again, doubtful = merge(copy, 0, began, values, writes, results, mine)
        await self._resolve(doubtful)
        return again

    async def _resolve(self, keys: Collection[str]) -> None:
        """Reads the entries again."""
        for key in dict.fromkeys(keys):
            await self._keeper.fetch(key)

    async def _make_directory(self) -> None:
        await steadily(self._client, partial(self._client.ensure_path, self._path))
        await self.verify()
