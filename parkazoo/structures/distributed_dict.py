"""A dictionary that several processes share."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, TypeVar, overload

from kazoo.exceptions import ConnectionLoss, NoAuthError

from parkazoo.compat.ensembles import Ensembles
from parkazoo.structures.entries import Entries
from parkazoo.structures.entry_directories import EntryDirectories
from parkazoo.structures.keeper import Keeper
from parkazoo.structures.keys import name_of
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.policies import Linearizable, Policy, Watch
from parkazoo.structures.telling import OnChange, Teller
from parkazoo.structures.values import Serializer, Values
from parkazoo.structures.views import Copied
from parkazoo.structures.writing import Writer, verify_version

_NOT_GIVEN = object()
T = TypeVar("T")


class DistributedDict(Copied, MutableMapping[str, Any]):
    """Shares a dict of the values below one directory with all processes that open the same path.

    ``d = client.DistributedDict("/settings")``; then use it as a dict::

        d["hello"] = "world"
        d.get("hello")

    - **One znode for each key**, ``path/key``. Any str is a key; characters that a name cannot have are escaped,
      as in ``%2F``. The data is the serializer's output, by default JSON, and nothing else.
    - **A write** is done once when it returns, lost connections included: see ``client.once``. If the session ends
      before the answer, it raises OutcomeUnknown and does not retry.
    - **A read** answers from a copy in this process; the policy says when the copy is read anew: see
      :mod:`parkazoo.structures.policies`. A process's own writes are in its copy when they return. No older entry
      replaces a newer one.
    - **Any thread or greenlet** may use it, callbacks of :meth:`on_change` too. Only do not make one with Watch()
      in a completion callback of the client, because that would wait for other callbacks.
    - While the client is SUSPENDED writes wait, as long as the session lives. If the directory does not exist, the
      dictionary is empty, and the first write makes it with all missing levels above.
    - After the client has stopped, reads under Watch() answer from the copy, which is stale; all else raises
      ConnectionClosedError until the client starts again. In a child process every call raises ForkError.

    An iteration shows the keys of one moment of the copy, in no order. Methods raise the errors of the client's
    calls; a read of the servers retries as ``client.retry`` does. Made by :meth:`ParKazooClient.DistributedDict`.
    """

    def __init__(
        self,
        client: Any,
        path: str,
        refresh: Policy | None = None,
        serializer: Serializer | None = json,
        shards: int = 1,
        ephemeral: bool = False,
    ) -> None:
        refresh = Watch() if refresh is None else refresh
        if not isinstance(refresh, Policy):
            raise TypeError(f"refresh must be a policy, such as Watch(), not {refresh!r}")
        directories = EntryDirectories(client.chroot, path, shards)
        client.check_process()
        self.path = directories.path
        self._client = client
        self._values = Values(serializer)
        self._policy = refresh
        self._is_due = refresh.begin()
        self._teller = Teller(client.handler, self._values.value_of, client.logger)
        self._entries = Entries(client, directories, isinstance(refresh, Linearizable), self._teller.changed)
        self._teller.lock, self._teller.copy = self._entries.lock, self._entries.copy
        self._reader, self._run = self._entries.reader, self._entries.run
        self._writer = Writer(client, self._reader, ephemeral, self._entries.miss)
        self._raises = isinstance(refresh, Watch) and refresh.raises
        self._keeper = Keeper(self._entries) if isinstance(refresh, Watch) else None
        self._run(self._reader.verify())
        if self._keeper is not None:
            self._keeper.start()
        elif not refresh.is_narrow:
            self._run(self._reader.fetch_all())

    # ---- reads -------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        return self._values.value_of(key, self._entry(key))

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        try:
            self._entry(key)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(
            self._run(self._reader.fetch_keys()) if self._is_narrow() else list(self._entries.copy.entries)
        )

    def __len__(self) -> int:
        return len(self._run(self._reader.fetch_keys()) if self._is_narrow() else self._entries.copy.entries)

    def copy(self) -> dict[str, Any]:
        """Returns all items as a dict, by one read."""
        return {key: self._values.value_of(key, entry) for key, entry in self._all().items()}

    def __repr__(self) -> str:
        """Shows the items of one read, or why they cannot be read. Raises nothing."""
        try:
            shown = self._values.shown(self._all())
        except Exception as error:
            shown = f"<cannot be read: {error!r}>"
        return f"DistributedDict({self.path!r}, {shown})"

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return self.copy() | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return dict(other) | self.copy() if isinstance(other, Mapping) else NotImplemented

    def get_with_version(self, key: str) -> tuple[Any, int]:
        """Returns the value and the version of its znode, for :meth:`compare_and_set`.

        :raises KeyError: the key does not exist.
        """
        entry = self._entry(key)
        return self._values.value_of(key, entry), entry.version

    def snapshot(self) -> dict[str, Any]:
        """Returns all items as they were at one moment after this call began. It asks the servers.

        It reads everything, directories too, until two reads are equal. A write that is refused goes before each
        read, because servers may lag. A read takes two requests for each directory, and one for each entry.

        :raises RuntimeError: the entries changed in each of ten reads.
        """
        entries = self._run(self._reader.snapshot())
        return {key: self._values.value_of(key, entry) for key, entry in entries.items()}

    def refresh(self) -> None:
        """Reads everything now, whatever the policy says. A failed read leaves the copy unchanged."""
        self._client.check_process()
        missed = self._entries.missed
        try:
            self._run(self._reader.fetch_all())
        except BaseException:  # the next read asks
            self._entries.miss()
            raise
        self._entries.caught_up = missed  # not before: until then other threads ask, too

    @property
    def is_stale(self) -> bool:
        """Returns, under Watch(), whether the copy may lack changes.

        It may if an ensemble that has entries is not connected, or was not and everything has not been read again
        yet, or if the client is reading a change. Other ensembles do not count. Under the other policies, whose
        reads ask when they are due, it is always False.
        """
        self._client.check_process()
        return self._keeper is not None and self._keeper.is_stale

    def _entry(self, key: str) -> Entry:
        """Returns one entry, by one read."""
        entry = self._run(self._reader.fetch(key)) if self._is_narrow() else self._entries.copy.entries.get(key)
        if entry is None:
            number, path = self._entries.place(key)
            if key in self._entries.copy.unreadable[number]:
                raise NoAuthError(path)
            raise KeyError(key)
        return entry

    def _all(self) -> dict[str, Entry]:
        """Returns all entries, by one read."""
        return self._run(self._reader.fetch_all()) if self._is_narrow() else dict(self._entries.copy.entries)

    def _is_narrow(self) -> bool:
        """Begins a read: returns whether it must ask the servers itself; if not, reads the copy anew if that is
        due.
        """
        self._client.check_process()
        if self._keeper is not None:
            if self._raises and not self._keeper.is_kept:
                raise ConnectionLoss(f"{self.path}: the copy is stale")
            return False
        if self._is_due(time.monotonic()) or self._entries.is_behind:
            if self._policy.is_narrow:
                return True
            self.refresh()
        return False

    # ---- writes ------------------------------------------------------------------------------------

    def __setitem__(self, key: str, value: object) -> None:
        self._run(self._writer.put({key: self._raw(key, value)}))

    def __delitem__(self, key: str) -> None:
        name_of(key)
        if not self._run(self._writer.drop(key)):
            raise KeyError(key)

    @overload
    def pop(self, key: str, /) -> Any: ...
    @overload
    def pop(self, key: str, /, default: T) -> Any | T: ...
    def pop(self, key: str, /, default: object = _NOT_GIVEN) -> Any:
        """Deletes an entry and returns the value that it deleted; no other process gets that value.

        As in :meth:`compare_and_set`, it compares versions: if others delete the entry and make it again with the
        same version while the delete is under way, it returns the value before. If keys return, use each once.
        """
        name_of(key)
        if (found := self._run(self._writer.take(key, self._values.value_of))) is not None:
            return found[0]
        if default is _NOT_GIVEN:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[str, Any]:
        """Deletes any entry, as :meth:`pop`.

        :raises KeyError: there is none.
        """
        if (found := self._run(self._writer.take_any(self._values.value_of))) is not None:
            return found
        raise KeyError(f"{self.path} is empty")

    def setdefault(self, key: str, default: object = None) -> Any:
        """Returns the value, making it if the key does not exist; if several processes do so, one of them makes
        it.
        """
        entry = self._run(self._writer.set_default(key, self._raw(key, default)))
        return self._values.value_of(key, entry)

    def update(self, other: Any = (), /, **values: object) -> None:
        """Sets several entries, as a dict's, in one transaction for each shard and 512 KiB.

        :raises PartlyDoneError: some transactions were done, and one was not; it names the keys.
        :raises OutcomeUnknown: the first transaction may have been done; nothing else was.
        """
        new = dict(other, **values)
        if raws := {key: self._raw(key, value) for key, value in new.items()}:
            self._run(self._writer.put(raws))

    def __ior__(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> DistributedDict:
        self.update(other)
        return self

    def clear(self) -> None:
        """Deletes the present entries. Transactions and errors are as of :meth:`update`."""
        self._run(self._writer.clear())

    def compare_and_set(self, key: str, version: int | None, value: object) -> bool:
        """Sets an entry if it still has that version; returns whether it did.

        If it did not, it has read the entry: :meth:`get_with_version` shows the entry that it found, or a newer
        one. An entry that is deleted and made again begins with version 0, and may be taken for an old one; so
        does one that another session takes over (ephemeral=True).

        :param version: from :meth:`get_with_version`. After success it is one more. None: the key must not exist,
            and is made with version 0.
        """
        raw = self._raw(key, value)
        verify_version(version)
        return self._run(self._writer.compare_and_set(key, version, raw))

    def _raw(self, key: str, value: object) -> bytes:
        """Returns the bytes of a value.

        :raises TypeError: the key is no str, or the serializer does not take the value.
        """
        name_of(key)
        raw = self._values.raw_of(key, value)
        self._writer.verify(key, raw)
        return raw

    # ---- changes -----------------------------------------------------------------------------------

    def on_change(self, callback: OnChange) -> OnChange:
        """Has ``callback(key, old, new, version)`` called for each change that this process sees, its own
        included.

        `old` is None if the key did not exist; `new` and `version` are None if it no longer does. The changes
        of a key come in order, and its last state always; several may be joined into one. Callbacks run one at
        a time, on a thread or greenlet of their own, and may take their time and use everything. One that
        returns False is not called again. Exceptions are logged. A value that cannot be read is logged, and the
        callback is called at the next change; `old` is then the last value that it got.

        Under Watch() a process sees a change when it arrives, otherwise when it reads the copy anew.

        :returns: the callback, so this can be a decorator.
        :raises RuntimeError: the dictionary is closed.
        """
        if not callable(callback):
            raise TypeError(f"on_change takes a function, not {callback!r}")
        self._client.check_process()
        self._teller.add(callback)
        return callback

    def close(self) -> None:
        """Removes the watches and the listener, and calls no callback any more.

        Reads under Watch() answer from the last copy. Entries stay, ephemeral ones as long as the session.
        """
        self._client.check_process()
        self._teller.close()
        if self._keeper is not None:
            self._keeper.close()

    def __enter__(self) -> DistributedDict:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Sharing(Ensembles):
    """Makes DistributedDicts of a client."""

    def DistributedDict(
        self,
        path: str,
        refresh: Policy | None = None,
        serializer: Serializer | None = json,
        shards: int = 1,
        ephemeral: bool = False,
    ) -> DistributedDict:
        """Opens a dict of the values below `path` that processes share: :class:`DistributedDict`.

        :param refresh: when reads ask the servers: Watch(), the default, Always(), Lock(), Count(n), Time(s) or
            Linearizable(), of :mod:`parkazoo.structures.policies`.
        :param serializer: an object with ``dumps`` and ``loads``; None: values are bytes.
        :param shards: 1 to 4096: the number of directories below `path`, spread over all ensembles. Writes of one
            key have one order; writes in several shards have none. All processes must give the same number.
        :param ephemeral: end an entry with the session of the client that wrote it last.
        :raises ValueError: the path is the root, or was made with another number of shards.
        :raises BadArgumentsError: the path is reserved for ParKazoo.
        :raises: the errors of a read, because it reads everything (with Always() and Linearizable(): nothing).
        """
        return DistributedDict(self, path, refresh, serializer, shards, ephemeral)
