"""A dictionary that several processes share."""

from __future__ import annotations

import json
import time
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar, overload

from kazoo.exceptions import BadVersionError, ConnectionLoss, NoAuthError

from parkazoo.compat.ensembles import Ensembles
from parkazoo.structures.entries import Entries
from parkazoo.structures.keeper import Keeper
from parkazoo.structures.keys import name_of
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.policies import Linearizable, Policy, Watch
from parkazoo.structures.telling import OnChange, Teller
from parkazoo.structures.values import Serializer, Values
from parkazoo.structures.writing import Writer

SNAPSHOT_TRIES = 10
MOST_SHARDS = 4096
_NOT_GIVEN: Any = object()
_NONE_THERE: Any = object()
T = TypeVar("T")


class DistributedDict(MutableMapping[str, Any]):
    """A dict of the values below one directory, which all processes share that have one for the same path.

    ``d = client.DistributedDict("/settings")``; then it is used as a dict::

        d["hello"] = "world"
        d.get("hello")

    - **One znode for each key**, ``path/key``. Any str is a key; what a name cannot have is written as ``%2F``. A
      znode's data is what the serializer makes of the value, by default JSON, and nothing else.
    - **A write** is done when it returns, once, lost connections included: see ``client.once``. If the session
      ends before the answer comes, it raises OutcomeUnknown. It is never tried again blindly.
    - **A read** answers from a copy in this process, and the policy says when the copy is read anew: see
      :mod:`parkazoo.structures.policies`. The own writes are in the copy when they return. An entry of the copy is
      never replaced by an older one.
    - **Any thread or greenlet** may use it, and callbacks of :meth:`on_change` may. Only do not make one with
      Watch() in a completion callback of the client: that waits for others.
    - While the client is SUSPENDED writes wait, as long as the session lives. The directory need not exist: the
      first write makes it, with all above it. A dictionary without a directory is empty.
    - When the client has been stopped, reads of the copy go on, and it is stale; everything else raises
      ConnectionClosedError, until the client starts again. In a child process all raises ForkError.

    Iteration has the keys of one moment of the copy, in no order. All raise what the client's calls raise: a read
    that asks the servers is tried again as by ``client.retry``. Made by :meth:`ParKazooClient.DistributedDict`.
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
        if not isinstance(path, str):
            raise TypeError("Invalid type for 'path' (string expected)")
        if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
            raise ValueError(f"shards must be a whole number from 1 to {MOST_SHARDS}, not {shards!r}")
        if serializer is not None and not (hasattr(serializer, "dumps") and hasattr(serializer, "loads")):
            raise TypeError(f"serializer must have dumps and loads, as json, not be {serializer!r}")
        if not isinstance(ephemeral, bool):
            raise TypeError(f"ephemeral must be True or False, not {ephemeral!r}")
        path = "/" + path.strip("/")
        if path == "/":
            raise ValueError("the root cannot be a dictionary: it has znodes of ZooKeeper's own")
        client.check_process()
        self.path = path
        self._client = client
        self._values = Values(serializer)
        self._policy = refresh
        self._is_due = refresh.begin()
        self._teller = Teller(client.handler, self._values.value_of, client.logger)
        self._entries = Entries(client, path, shards, isinstance(refresh, Linearizable), self._teller.changed)
        self._teller.lock, self._teller.copy = self._entries.lock, self._entries.copy
        self._raises = isinstance(refresh, Watch) and refresh.raises
        self._keeper = Keeper(self._entries) if isinstance(refresh, Watch) else None
        self._writer = Writer(self._entries, ephemeral)
        self._entries.verify()
        if self._keeper is not None:
            self._keeper.start()
        elif not refresh.is_narrow:
            self._entries.fetch_all()

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
        return iter(self._entries.fetch_keys() if self._is_narrow() else list(self._entries.copy.entries))

    def __len__(self) -> int:
        return len(self._entries.fetch_keys() if self._is_narrow() else self._entries.copy.entries)

    def items(self) -> ItemsView[str, Any]:
        """As a dict's. To iterate over it is one read."""
        return _ItemsView(self)

    def values(self) -> ValuesView[Any]:
        """As a dict's. To iterate over it is one read."""
        return _ValuesView(self)

    def copy(self) -> dict[str, Any]:
        """All items as a dict. One read."""
        return {key: self._values.value_of(key, entry) for key, entry in self._all().items()}

    def __repr__(self) -> str:
        """With the items of one read, or why there are none: it raises nothing."""
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
        """The value, and the version of its znode, for :meth:`compare_and_set`.

        :raises KeyError: it is not there.
        """
        entry = self._entry(key)
        return self._values.value_of(key, entry), entry.version

    def snapshot(self) -> dict[str, Any]:
        """All items as they were together at one moment, since this was called. It asks the servers.

        Everything is read until it is the same twice, directories too: nothing has come and gone in between.
        Each time is behind a write that is refused, as servers may lag. It takes two requests for each directory,
        and one for each entry.

        :raises RuntimeError: it has changed all the time, in ten reads.
        """
        self._client.check_process()
        last: Any = None
        for _ in range(SNAPSHOT_TRIES):
            entries, now = self._entries.fetch_state()
            if last == now:
                return {key: self._values.value_of(key, entry) for key, entry in entries.items()}
            last = now
        raise RuntimeError(f"{self.path} has changed in each of {SNAPSHOT_TRIES} reads: there is no snapshot")

    def refresh(self) -> None:
        """Read everything now, whatever the policy says."""
        self._client.check_process()
        self._entries.is_behind = False
        try:
            self._entries.fetch_all()
        except BaseException:  # the next read asks
            self._entries.is_behind = True
            raise

    @property
    def is_stale(self) -> bool:
        """With Watch(): whether changes may be missing: an ensemble that has entries is not connected, or has been
        away and not all is read again; or a watch has told a change, and the client is reading it. What is away
        elsewhere does not matter.

        With the other policies, whose reads ask when they are due, it is always False.
        """
        self._client.check_process()
        return self._keeper is not None and self._keeper.is_stale

    def _entry(self, key: Any) -> Entry:
        """One read."""
        entry = self._entries.fetch(key) if self._is_narrow() else self._entries.copy.entries.get(key)
        if entry is None:
            number, path = self._entries.place(key)
            if key in self._entries.copy.unreadable[number]:
                raise NoAuthError(path)
            raise KeyError(key)
        return entry

    def _all(self) -> dict[str, Entry]:
        """One read."""
        return self._entries.fetch_all() if self._is_narrow() else dict(self._entries.copy.entries)

    def _is_narrow(self) -> bool:
        """One read begins: it must ask the servers itself; or the copy has been read anew, if that was due."""
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

    def __setitem__(self, key: str, value: Any) -> None:
        self._writer.put({key: self._raw(key, value)})

    def __delitem__(self, key: str) -> None:
        name_of(key)
        if not self._writer.drop(key):
            raise KeyError(key)

    @overload
    def pop(self, key: str, /) -> Any: ...
    @overload
    def pop(self, key: str, /, default: T) -> Any | T: ...
    def pop(self, key: str, /, default: Any = _NOT_GIVEN) -> Any:
        """Delete an entry. What it returns was read anew, and is what it has deleted: no other process gets it.

        But see :meth:`compare_and_set`: if others delete the entry and make it again while the delete is under
        way, and it has the same version again, it returns the value before. Where keys come back, use each once.
        """
        name_of(key)
        self._client.check_process()
        while (entry := self._entries.fetch(key)) is not None:
            value = self._values.value_of(key, entry)  # an error of the serializer deletes nothing
            with suppress(BadVersionError):
                if self._writer.drop(key, entry.version):
                    return value
                break
        if default is _NOT_GIVEN:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[str, Any]:
        """Delete any entry; as :meth:`pop`.

        :raises KeyError: there is none.
        """
        while keys := list(self._entries.copy.entries) or self._entries.fetch_keys():
            for key in keys:
                value = self.pop(key, _NONE_THERE)
                if value is not _NONE_THERE:
                    return key, value
        raise KeyError(f"{self.path} is empty")

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value, which is made if it is not there: by one process alone, if several do it at once."""
        raw = self._raw(key, default)
        while True:
            if self._writer.add(key, raw):
                return self._values.value_of(key, Entry(raw, 0, None, 0, 0))
            entry = self._entries.fetch(key)
            if entry is not None:
                return self._values.value_of(key, entry)

    def update(self, other: Any = (), /, **values: Any) -> None:
        """As a dict's. One transaction for each shard and 512 KiB, so many entries take few requests.

        :raises PartlyDoneError: some transactions were done, and one was not; it names the keys.
        :raises OutcomeUnknown: nobody knows whether the first transaction was done; nothing else was.
        """
        new = dict(other, **values)
        if raws := {key: self._raw(key, value) for key, value in new.items()}:
            self._writer.put(raws)

    def __ior__(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> DistributedDict:
        self.update(other)
        return self

    def clear(self) -> None:
        """Delete the entries that are there now. Transactions and errors as of :meth:`update`."""
        self._client.check_process()
        if keys := self._entries.fetch_keys():
            self._writer.drop_all(keys)

    def compare_and_set(self, key: str, version: int | None, value: Any) -> bool:
        """Set an entry if it has still that version. Whether that was done.

        If it was not, the copy has been read: a :meth:`get_with_version` shows what stood in the way, or newer. An
        entry that was deleted and made anew begins with version 0 again, and may be taken for the one before; so
        does one that another session takes over (ephemeral=True).

        :param version: from :meth:`get_with_version`. After success it is one more. None: it must not be there,
            and is made, with version 0.
        """
        raw = self._raw(key, value)
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise TypeError(f"version must be a whole number or None, not {version!r}")
        if version is not None and not 0 <= version < 1 << 31:
            raise ValueError(f"version must be one of get_with_version, not {version!r}")
        if version is not None:
            return self._writer.swap(key, version, raw)
        if self._writer.add(key, raw):
            return True
        self._entries.fetch(key)
        return False

    def _raw(self, key: str, value: Any) -> bytes:
        """
        :raises TypeError: the key is no str, or the serializer does not take the value.
        """
        name_of(key)
        raw = self._values.raw_of(key, value)
        self._writer.verify(key, raw)
        return raw

    # ---- changes -----------------------------------------------------------------------------------

    def on_change(self, callback: OnChange) -> OnChange:
        """Have ``callback(key, old, new, version)`` called when this process has seen a change, its own ones too.

        `old` is None if the entry was not there; `new` and `version` are None if it is not there any more. The
        changes of a key are told in order, and its last state always; several may be told as one. Callbacks are
        called one at a time, on a thread or greenlet of their own: they may use everything, and may take their
        time. One that returns False is called no more. What one raises is logged. A value that cannot be read is
        logged, and told when it has changed to one that can, or is gone; `old` is what was told before.

        With Watch() a change is seen when it comes, otherwise when the copy is read anew.

        :returns: the callback, so this can be a decorator.
        :raises RuntimeError: the dictionary is closed.
        """
        if not callable(callback):
            raise TypeError(f"on_change takes a function, not {callback!r}")
        self._client.check_process()
        self._teller.add(callback)
        return callback

    def close(self) -> None:
        """The copy is not kept any more, and no callback is called. The watches and the listener are taken out.

        Entries stay, ephemeral ones as long as the session.
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


class _ItemsView(ItemsView[str, Any]):
    _mapping: DistributedDict

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._mapping.copy().items())


class _ValuesView(ValuesView[Any]):
    _mapping: DistributedDict

    def __iter__(self) -> Iterator[Any]:
        return iter(self._mapping.copy().values())

    def __contains__(self, value: object) -> bool:
        return value in self._mapping.copy().values()


class Sharing(Ensembles):
    """A client that shares dictionaries."""

    def DistributedDict(
        self,
        path: str,
        refresh: Policy | None = None,
        serializer: Serializer | None = json,
        shards: int = 1,
        ephemeral: bool = False,
    ) -> DistributedDict:
        """A dict of the values below `path`, which all processes share: :class:`DistributedDict`.

        :param refresh: when reads ask the servers: Watch(), which is the default, Always(), Lock(), Count(n),
            Time(s), Linearizable(), of :mod:`parkazoo.structures.policies`.
        :param serializer: what makes bytes of values: anything with ``dumps`` and ``loads``; None: values are
            bytes.
        :param shards: 1 to 4096: entries are in so many directories below `path`, which are spread over all
            ensembles. Writes of one key have one order; those of several shards have none. All give the same
            number.
        :param ephemeral: an entry ends with the session of the client that has written it last.
        :raises ValueError: the path is the root, or was made with another number of shards.
        :raises BadArgumentsError: the path is reserved for ParKazoo.
        :raises: what reads raise, as everything is read here (with Always() and Linearizable(): nothing).
        """
        return DistributedDict(self, path, refresh, serializer, shards, ephemeral)
