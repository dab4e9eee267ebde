"""DistributedDict for asyncio: a dictionary that several processes share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakSet

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoAuthError
from kazoo.protocol.states import KazooState

from parkazoo.aio.dict_entries import DictEntries, KeptClient
from parkazoo.aio.dict_keeper import DictKeeper
from parkazoo.aio.recipe.async_once import AsyncOnce
from parkazoo.aio.waking import set_event
from parkazoo.structures.entry_directories import EntryDirectories
from parkazoo.structures.keys import name_of
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.policies import Policy, Watch
from parkazoo.structures.values import Serializer, Values
from parkazoo.structures.views import Copied
from parkazoo.structures.writing import Writer, verify_version
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


class AsyncDistributedDict(Copied):
    """Shares a dict of the values below one directory with all processes that open the same path.

    ``async with client.DistributedDict("/settings") as d:`` reads everything, and keeps that copy up to date by
    watches. Then reads are a Mapping's, of the copy, and send nothing::

        d["hello"]
        await d.set("hello", "world")
        async for key, old, new, version in d.changes(): ...

    :meth:`refresh` and :meth:`snapshot` ask the servers. Znodes, promises and errors are those of
    :class:`parkazoo.structures.distributed_dict.DistributedDict` with ``Watch()``, which may use the same path. A
    write that is cancelled may be done, or be done later, but never twice. Made by
    :meth:`ParKazooClient.DistributedDict`.
    """

    def __init__(
        self,
        client: KeptClient,
        once: AsyncOnce,
        path: str,
        refresh: Policy | None,
        serializer: Serializer | None,
        shards: int,
        ephemeral: bool,
    ) -> None:
        refresh = Watch() if refresh is None else refresh
        if not isinstance(refresh, Policy):
            raise TypeError(f"refresh must be a policy, such as Watch(), not {refresh!r}")
        if not isinstance(refresh, Watch):
            raise ValueError(
                f"refresh must be Watch(), not {refresh!r}: reads do not wait; refresh() and snapshot() do"
            )
        directories = EntryDirectories(client.chroot, path, shards)
        self.path = directories.path
        self._client = client
        self._raises = refresh.raises
        self._values = Values(serializer)
        self._hearers: WeakSet[Changes] = WeakSet()
        self._entries = DictEntries(client, once, directories, self._tell)
        self._copy, self._run = self._entries.copy, self._entries.run
        self._reader = self._entries.reader
        self._writer = Writer(client, self._reader, ephemeral, lambda: None)  # watches tell of it
        self._keeper = DictKeeper(self._entries)
        self._is_open = False

    async def __aenter__(self) -> AsyncDistributedDict:
        """Reads everything. Where that fails, or is cancelled, it can be opened again.

        :raises ValueError: the directory was made with another number of shards. :raises RuntimeError: it is open.
        :raises: the errors of a read.
        """
        if self._is_open:
            raise RuntimeError(f"the dictionary of {self.path} is open")
        self._is_open = True
        self._keeper = DictKeeper(self._entries)
        self._reader.is_verified = False
        try:
            await self._run(self._reader.verify())
            await self._keeper.start()
        except BaseException:
            self._close()
            raise
        self._client.add_listener(self._state_changed)
        self._client._ends[self._client_ended] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forgets the watches, and ends :meth:`changes`. Reads answer from the last copy; entries stay."""
        self._close()

    def _close(self) -> None:
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
        return isinstance(key, str) and key in self._kept()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kept()))

    def __len__(self) -> int:
        return len(self._kept())

    def __repr__(self) -> str:
        return f"DistributedDict({self.path!r}, {self._values.shown(self._copy.entries)})"

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return self.copy() | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(other) | self.copy() if isinstance(other, Mapping) else NotImplemented

    def copy(self) -> dict[str, Any]:
        """Returns all items as a dict."""
        return {key: self._values.value_of(key, entry) for key, entry in self._kept().items()}

    def get_with_version(self, key: str) -> tuple[Any, int]:
        """Returns the value and the version of its znode, for :meth:`compare_and_set`.

        :raises KeyError: the key does not exist. :raises NoAuthError: it may not be read.
        """
        if (entry := self._kept().get(key)) is None:
            if isinstance(key, str):
                number, path = self._entries.place(key)
                if key in self._copy.unreadable[number]:
                    raise NoAuthError(path)
            raise KeyError(key)
        return self._values.value_of(key, entry), entry.version

    def _kept(self) -> dict[str, Entry]:
        """Returns the copy, for a read.

        :raises ConnectionLoss: it is not kept up to date, with ``Watch(raises=True)``.
        """
        if self._raises and not self._keeper.is_kept:
            raise ConnectionLoss(f"{self.path}: the copy is stale")
        return self._copy.entries

    async def refresh(self) -> None:
        """Reads everything now. A failed read leaves the copy as it is."""
        await self._run(self._reader.fetch_all())

    async def snapshot(self) -> dict[str, Any]:
        """Returns all items as they were at one moment after this call began. It asks the servers.

        See :meth:`parkazoo.structures.distributed_dict.DistributedDict.snapshot`.

        :raises RuntimeError: the entries changed in each of ten reads.
        """
        entries = await self._run(self._reader.snapshot())
        return {key: self._values.value_of(key, entry) for key, entry in entries.items()}

    @property
    def is_stale(self) -> bool:
        """Returns whether the copy may lack changes.

        It may if an ensemble that has entries is not connected, if everything has not been read again yet, or if
        the client is reading a change.
        """
        return self._keeper.is_stale

    # ---- writes ------------------------------------------------------------------------------------

    async def set(self, key: str, value: object) -> None:
        """Sets an entry, or makes it, once.

        :raises OutcomeUnknown: the session ended before the answer. :raises TypeError: the key is no str, or the
            serializer does not take the value. :raises ValueError: they are too large.
        """
        await self._run(self._writer.put({key: self._raw(key, value)}))

    async def update(self, other: Any = (), /, **values: object) -> None:
        """Sets several entries, as a dict's, in one transaction for each shard and 512 KiB.

        :raises PartlyDoneError: some transactions were done, and one was not; it names the keys.
        :raises OutcomeUnknown: the first transaction may have been done; nothing else was.
        """
        new = dict(other, **values)
        if raws := {key: self._raw(key, value) for key, value in new.items()}:
            await self._run(self._writer.put(raws))

    async def clear(self) -> None:
        """Deletes the present entries. Transactions and errors are as of :meth:`update`."""
        await self._run(self._writer.clear())

    async def delete(self, key: str) -> None:
        """Deletes an entry.

        :raises KeyError: the key does not exist.
        """
        name_of(key)
        if not await self._run(self._writer.drop(key)):
            raise KeyError(key)

    async def pop(self, key: str, default: Any = _RAISES) -> Any:
        """Deletes an entry and returns the value that it deleted; no other process gets that value.

        See :meth:`parkazoo.structures.distributed_dict.DistributedDict.pop`.
        """
        name_of(key)
        if (found := await self._run(self._writer.take(key, self._values.value_of))) is not None:
            return found[0]
        if default is _RAISES:
            raise KeyError(key)
        return default

    async def popitem(self) -> tuple[str, Any]:
        """Deletes any entry, as :meth:`pop`.

        :raises KeyError: there is none.
        """
        if (found := await self._run(self._writer.take_any(self._values.value_of))) is not None:
            return found
        raise KeyError(f"{self.path} is empty")

    async def setdefault(self, key: str, default: object = None) -> Any:
        """Returns the value, making it if the key does not exist; if several processes do so, one of them makes
        it.
        """
        entry = await self._run(self._writer.set_default(key, self._raw(key, default)))
        return self._values.value_of(key, entry)

    async def compare_and_set(self, key: str, version: int | None, value: object) -> bool:
        """Sets an entry if it still has that version; returns whether it did. If not, it has read the entry.

        :param version: from :meth:`get_with_version`. After success it is one more. None: the key must not exist,
            and is made with version 0.
        """
        raw = self._raw(key, value)
        verify_version(version)
        return await self._run(self._writer.compare_and_set(key, version, raw))

    def _raw(self, key: str, value: object) -> bytes:
        name_of(key)
        raw = self._values.raw_of(key, value)
        self._writer.verify(key, raw)
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
        now = self._copy.entries.get(key)
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
        set_event(self._has_come)

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
        self,
        path: str,
        refresh: Policy | None = None,
        serializer: Serializer | None = json,
        shards: int = 1,
        ephemeral: bool = False,
    ) -> AsyncDistributedDict:
        """Returns a dict of the values below `path` that processes share; ``async with`` opens it.

        :param refresh: Watch() or Watch(raises=True): reads answer from the copy, and do not wait.
        :param serializer: an object with ``dumps`` and ``loads``; None: values are bytes.
        :param shards: 1 to 4096: the number of directories below `path`, spread over all ensembles. All processes
            must give the same number.
        :param ephemeral: end an entry with the session of the client that wrote it last.
        :raises ValueError: the path is the root, or `refresh` is another policy.
        :raises BadArgumentsError: the path is reserved for ParKazoo.
        """
        return AsyncDistributedDict(self, self._once, path, refresh, serializer, shards, ephemeral)
