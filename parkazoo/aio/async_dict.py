"""DistributedDict for asyncio: a dictionary that several processes share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakSet

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KazooState

from parkazoo.aio.dict_keeper import DictKeeper, KeptClient
from parkazoo.aio.dict_writer import DictWriter
from parkazoo.aio.recipe.async_once import AsyncOnce
from parkazoo.kazoo_private import Create
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.reserved import refusal
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.values import Serializer, Values
from parkazoo.wire.member import FINAL_STATES

_RAISES: Any = object()


class KeyChange(NamedTuple):
    """Tells of one key.

    :param old: None if it did not exist. :param new: None if it no longer does; so is its version.
    """

    key: str
    old: Any
    new: Any
    version: int | None


class AsyncDistributedDict(Mapping[str, Any]):
    """Shares a dict of the values below one directory with all processes that open the same path.

    ``async with client.DistributedDict("/settings") as d:`` reads everything, and keeps that copy up to date by
    watches. Then reads are a Mapping's, of the copy, and send nothing::

        d["hello"]
        await d.set("hello", "world")
        async for key, old, new, version in d.changes(): ...

    Znodes, promises and errors are those of :class:`parkazoo.structures.distributed_dict.DistributedDict` with
    ``Watch()`` and without shards, which may use the same path. A write that is cancelled may be done, or be done
    later, but never twice. Made by :meth:`ParKazooClient.DistributedDict`.
    """

    def __init__(
        self, client: KeptClient, once: AsyncOnce, path: str, serializer: Serializer | None, ephemeral: bool
    ) -> None:
        if not isinstance(path, str):
            raise TypeError("Invalid type for 'path' (string expected)")
        if serializer is not None and not (hasattr(serializer, "dumps") and hasattr(serializer, "loads")):
            raise TypeError(f"serializer must have dumps and loads, as json, not be {serializer!r}")
        if not isinstance(ephemeral, bool):
            raise TypeError(f"ephemeral must be True or False, not {ephemeral!r}")
        path = "/" + path.strip("/")
        if path == "/":
            raise ValueError("the root cannot be a dictionary: it has znodes of ZooKeeper's own")
        if (error := refusal(Create(prefixed(client.chroot, path), b"", (), 0))) is not None:
            raise error
        self.path = path
        self._client = client
        self._values = Values(serializer)
        self._hearers: WeakSet[Changes] = WeakSet()
        self._keeper = DictKeeper(client, path, self._tell)
        self._writer = DictWriter(client, once, self._keeper, path, ephemeral)
        self._is_open = False

    async def __aenter__(self) -> AsyncDistributedDict:
        """Reads everything.

        :raises ValueError: the directory was made with shards. :raises: the errors of a read.
        """
        await self._writer.verify()
        await self._keeper.start()
        self._is_open = True
        self._client.add_listener(self._state_changed)
        self._client._ends[self._client_ended] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forgets the watches, and ends :meth:`changes`. Reads answer from the last copy; entries stay."""
        self._is_open = False
        self._client.remove_listener(self._state_changed)
        self._client._ends.pop(self._client_ended, None)
        self._keeper.close()
        for each in self._hearers:
            each.end(StopAsyncIteration())

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._keeper.connected()

    def _client_ended(self, _: None) -> None:
        for each in self._hearers:
            each.end(ConnectionClosedError("the client was stopped"))

    # ---- reads -------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        return self.get_with_version(key)[0]

    def __contains__(self, key: object) -> bool:
        return key in self._keeper.copy.entries

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._keeper.copy.entries))

    def __len__(self) -> int:
        return len(self._keeper.copy.entries)

    def __repr__(self) -> str:
        return f"DistributedDict({self.path!r}, {self._values.shown(self._keeper.copy.entries)})"

    def copy(self) -> dict[str, Any]:
        """Returns all items as a dict."""
        return {key: self._values.value_of(key, entry) for key, entry in self._keeper.copy.entries.items()}

    def get_with_version(self, key: str) -> tuple[Any, int]:
        """Returns the value and the version of its znode, for :meth:`compare_and_set`.

        :raises KeyError: the key does not exist.
        """
        entry = self._keeper.copy.entries[key]
        return self._values.value_of(key, entry), entry.version

    @property
    def is_stale(self) -> bool:
        """Returns whether the copy may lack changes.

        It may if its ensemble is not connected, if everything has not been read again yet, or if the client is
        reading a change.
        """
        return self._keeper.is_stale

    # ---- writes ------------------------------------------------------------------------------------

    async def set(self, key: str, value: object) -> None:
        """Sets an entry, or makes it, once.

        :raises OutcomeUnknown: the session ended before the answer. :raises TypeError: the key is no str, or the
            serializer does not take the value. :raises ValueError: they are too large.
        """
        await self._writer.put({key: self._raw(key, value)})

    async def update(self, other: Any = (), /, **values: object) -> None:
        """Sets several entries, as a dict's, in one transaction for each 512 KiB.

        :raises PartlyDoneError: some transactions were done, and one was not; it names the keys.
        :raises OutcomeUnknown: the first transaction may have been done; nothing else was.
        """
        new = dict(other, **values)
        await self._writer.put({key: self._raw(key, value) for key, value in new.items()})

    async def delete(self, key: str) -> None:
        """Deletes an entry.

        :raises KeyError: the key does not exist.
        """
        if not await self._writer.drop(key):
            raise KeyError(key)

    async def pop(self, key: str, default: Any = _RAISES) -> Any:
        """Deletes an entry and returns the value that it deleted; no other process gets that value.

        See :meth:`parkazoo.structures.distributed_dict.DistributedDict.pop`.
        """
        while (entry := await self._keeper.fetch(key)) is not None:
            value = self._values.value_of(key, entry)  # an error of the serializer deletes nothing
            if (is_dropped := await self._writer.drop(key, entry.version)) is False:
                break
            if is_dropped:
                return value
        if default is _RAISES:
            raise KeyError(key)
        return default

    async def setdefault(self, key: str, default: object = None) -> Any:
        """Returns the value, making it if the key does not exist; if several processes do so, one of them makes
        it.
        """
        raw = self._raw(key, default)
        while True:
            if await self._writer.add(key, raw):
                return self._values.value_of(key, Entry(raw, 0, None, 0, 0))
            if (entry := await self._keeper.fetch(key)) is not None:
                return self._values.value_of(key, entry)

    async def compare_and_set(self, key: str, version: int | None, value: object) -> bool:
        """Sets an entry if it still has that version; returns whether it did. If not, it has read the entry.

        :param version: from :meth:`get_with_version`. After success it is one more. None: the key must not exist,
            and is made with version 0.
        """
        raw = self._raw(key, value)
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise TypeError(f"version must be a whole number or None, not {version!r}")
        if version is not None and not 0 <= version < 1 << 31:
            raise ValueError(f"version must be one of get_with_version, not {version!r}")
        is_done = await (self._writer.add(key, raw) if version is None else self._writer.swap(key, version, raw))
        if not is_done:
            await self._keeper.fetch(key)
        return is_done

    def _raw(self, key: str, value: object) -> bytes:
        self._keeper.place(key)  # raises for a key that is no str
        raw = self._values.raw_of(key, value)
        self._writer.verify_size(key, raw)
        return raw

    # ---- changes -----------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """Returns the changes from now on, this process's own included: :class:`Changes`."""
        made = Changes(self)
        if not self._is_open:
            made.end(StopAsyncIteration())
        elif self._client.client_state in FINAL_STATES:
            made.end(ConnectionClosedError("the client was stopped"))
        else:
            self._hearers.add(made)
        return made

    def _tell(self, key: str, before: Entry | None) -> None:
        for each in self._hearers:
            each.note(key, before)

    def change_of(self, key: str, before: Entry | None) -> KeyChange | None:
        """Returns what has become of a key; None if it is as before.

        :raises ValueError: its value cannot be read.
        """
        now = self._keeper.copy.entries.get(key)
        if before is now:
            return None
        new = None if now is None else self._values.value_of(key, now)
        try:
            old = None if before is None else self._values.value_of(key, before)
        except ValueError:
            old = None
        return KeyChange(key, old, new, None if now is None else now.version)

    def log_unreadable(self, key: str) -> None:
        self._client.logger.exception("DistributedDict: a value of %r cannot be read, so nobody hears of it", key)


class Changes:
    """``async for key, old, new, version in d.changes()``: each change of a :class:`AsyncDistributedDict`.

    The changes of a key come in order, and its last state always; if several come while nobody asks, they become
    one. A value that cannot be read is logged; the next change then has the last `old` that was told.
    """

    def __init__(self, told: AsyncDistributedDict) -> None:
        self._told = told
        self._pending: dict[str, Entry | None] = {}  # what each was before the first change that is not told
        self._untold: dict[str, Entry | None] = {}  # the last one told, before a value that cannot be read
        self._end: Exception | None = None
        self._has_come = asyncio.Event()

    def note(self, key: str, before: Entry | None) -> None:
        self._pending.setdefault(key, before)
        self._has_come.set()

    def end(self, why: Exception) -> None:
        self._end = why
        self._has_come.set()

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> KeyChange:
        """
        :raises ConnectionClosedError: the client stops.
        """
        while True:
            while self._pending and self._end is None:
                key = next(iter(self._pending))
                before = self._pending.pop(key)
                before = self._untold.pop(key, before)
                try:
                    change = self._told.change_of(key, before)
                except ValueError:
                    self._told.log_unreadable(key)
                    self._untold[key] = before
                    continue
                if change is not None:
                    return change
            if self._end is not None:
                raise self._end
            self._has_come.clear()
            await self._has_come.wait()


class AsyncSharing(KeptClient):
    """Makes DistributedDicts of a client."""

    _once: AsyncOnce

    def DistributedDict(
        self, path: str, serializer: Serializer | None = json, ephemeral: bool = False
    ) -> AsyncDistributedDict:
        """Returns a dict of the values below `path` that processes share; ``async with`` opens it.

        :param serializer: an object with ``dumps`` and ``loads``; None: values are bytes.
        :param ephemeral: end an entry with the session of the client that wrote it last.
        :raises ValueError: the path is the root.
        :raises BadArgumentsError: the path is reserved for ParKazoo.
        """
        return AsyncDistributedDict(self, self._once, path, serializer, ephemeral)
