"""The entries of a DistributedDict: their places, the requests for them, and what this process knows of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from parkazoo.kazoo_private import Create
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.placement import join
from parkazoo.protocol.reserved import refusal
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.recipe.buckets import Spread
from parkazoo.structures.keys import EMPTY, key_of, name_of
from parkazoo.structures.local_copy import Entry, LocalCopy, life_of
from parkazoo.types.znodes import AsyncResult, ZnodeStat

MOST_READS_IN_FLIGHT = 1000


class _Shards(Spread):
    """Buckets have their number in their names: a dictionary with another one writes into none of them."""

    def bucket(self, number: int) -> str:
        return f"{super().bucket(number)}-{self.buckets}"

    def describe_other(self, found: bytes) -> str:
        shards = _shards(found)
        if shards is None:
            return f"{self.path} was made without shards: leave shards={self.buckets} out, or take another path"
        return _describe_shards(self.path, shards)


def _describe_shards(path: str, shards: int) -> str:
    return f"{path} was made with shards={shards}: give the same"


class Entries:
    """Reads entries: one znode for each key, in one directory or in the buckets of a Spread.

    Methods that ask the servers wait for the answer, retry after a lost connection as ``client.retry`` does, and
    raise its errors. They put their answers into the copy.

    :param path: of the directory. :param shards: the number of buckets; 1: none.
    :param is_linearizable: send a write that changes nothing before each read.
    :param tell: see :class:`LocalCopy`.
    :ivar lock: for the copy.
    :ivar is_verified: whether the directory existed, and has not the number of shards of another dictionary.
    :ivar missed: another object for each write of this process that the copy may lack.
    :ivar caught_up: such an object: a read of everything that began behind that write has ended.
    :raises BadArgumentsError: the path is reserved for ParKazoo.
    """

    def __init__(
        self,
        client: Any,
        path: str,
        shards: int,
        is_linearizable: bool,
        tell: Callable[[str, Entry | None], None],
    ) -> None:
        if (error := refusal(Create(prefixed(client.chroot, path), b"", (), 0))) is not None:
            raise error
        self.client = client
        self.path = path
        self.spread = _Shards(client, path, shards) if shards > 1 else None
        self.directories = [self.spread.bucket(number) for number in range(shards)] if self.spread else [path]
        self.lock = client.handler.lock_object()
        self.copy = LocalCopy(shards, tell)
        self.missed: object = None
        self.caught_up: object = None
        self.is_verified = False
        self._is_linearizable = is_linearizable

    @property
    def is_behind(self) -> bool:
        """Returns whether the copy may lack a write of this process."""
        return self.missed is not self.caught_up

    def place(self, key: str) -> tuple[int, str]:
        """Returns the number of the directory, and the path.

        :raises TypeError: the key is no str.
        """
        name = name_of(key)
        number = self.spread.number_of(name) if self.spread else 0
        return number, join(self.directories[number], name)

    def verify(self, is_to_make: bool = False) -> None:
        """
        :raises ValueError: the directory was made with another number of shards.
        """
        if self.spread is not None:
            self.client.retry(self.spread.verify, is_to_make)
            return
        if self.is_verified:
            return
        with suppress(NoNodeError):
            shards = _shards(self.client.retry(self.client.get, self.path)[0] or b"")
            if shards is not None:
                raise ValueError(_describe_shards(self.path, shards))
            self.is_verified = True

    def make_directory(self, number: int) -> None:
        """Makes the missing directory; another dictionary may have made `path` again.

        :raises ValueError: another dictionary made it with another number of shards.
        """
        self.is_verified = False
        if self.spread is not None:
            self.spread = _Shards(self.client, self.path, self.spread.buckets)
            self.verify(is_to_make=True)
        self.client.retry(self.client.ensure_path, self.directories[number])
        self.verify()

    # ---- reads -------------------------------------------------------------------------------------

    def fetch(self, key: str) -> Entry | None:
        """Reads one entry, by one request; None if it does not exist."""
        return self._fetch(key, self._is_linearizable)

    def _fetch(self, key: str, is_certain: bool) -> Entry | None:
        """
        :param is_certain: behind a write, as all the tries behind the first.
        """
        number, path = self.place(key)
        while True:
            ticket = self.copy.ticket()
            try:
                raw, stat = self.client.retry(self._get, path, is_certain)
            except NoNodeError:
                with self.lock:
                    is_in_doubt = self.copy.not_found(number, key, ticket)
            else:
                is_in_doubt = self.found(number, key, ticket, raw, stat, is_certain)
            if not is_in_doubt:
                return self.copy.entries.get(key)
            is_certain = True

    def fetch_keys(self) -> list[str]:
        """Reads the keys, by one request for each directory."""
        return self._fetch_keys(self._is_linearizable)[0]

    def _fetch_keys(self, is_certain: bool) -> tuple[list[str], list[object]]:
        """Reads the keys, with a number for each directory that changes when a key is added or deleted."""
        ticket = self.copy.ticket()
        found: list[str] = []
        doubtful: list[str] = []
        listings = self.client.retry(self._list, is_certain)
        for number, (names, _) in enumerate(listings):
            keys = keys_of(names)
            with self.lock:
                doubtful += self.copy.listed(number, keys, ticket)
            found += keys
        found += [key for key in doubtful if self.fetch(key) is not None]
        return found, [mark for _, mark in listings]

    def fetch_all(self) -> dict[str, Entry]:
        """Reads all entries, by one request for each directory and each entry."""
        return self._fetch_all(self._is_linearizable)[0]

    def fetch_state(self) -> tuple[dict[str, Entry], object]:
        """Reads all entries as :meth:`fetch_all`, not older than the call, and a value that is equal if nothing
        has changed.
        """
        found, marks = self._fetch_all(is_certain=True)
        return found, (marks, {key: (entry.life, entry.mzxid, entry.version) for key, entry in found.items()})

    def _fetch_all(self, is_certain: bool) -> tuple[dict[str, Entry], list[object]]:
        found: dict[str, Entry] = {}
        keys, marks = self._fetch_keys(is_certain)
        for start in range(0, len(keys), MOST_READS_IN_FLIGHT):
            found |= self.fetch_some(keys[start : start + MOST_READS_IN_FLIGHT])
        return found, marks

    def fetch_some(self, keys: Collection[str]) -> dict[str, Entry]:
        """Reads these entries, as far as they exist, by one request for each."""
        return dict(self.client.retry(self._fetch_some, keys))

    def _fetch_some(self, keys: Collection[str]) -> dict[str, Entry]:
        doubtful, asked = [], []
        for key in keys:
            number, path = self.place(key)
            asked.append((key, number, self.copy.ticket(), self.client.get_async(path)))
        for key, number, ticket, answer in asked:
            try:
                raw, stat = answer.get()
            except NoNodeError:
                with self.lock:
                    is_in_doubt = self.copy.not_found(number, key, ticket)
            except NoAuthError:
                self.refused(number, key, ticket)
                continue
            else:
                is_in_doubt = self.found(number, key, ticket, raw, stat)
            if is_in_doubt:
                doubtful.append(key)
        for key in doubtful:
            self._fetch(key, True)
        some = ((key, self.copy.entries.get(key)) for key in keys)
        return {key: entry for key, entry in some if entry is not None}

    def found(
        self, number: int, key: str, ticket: int, raw: bytes | None, stat: ZnodeStat, is_certain: bool = False
    ) -> bool:
        """See :meth:`LocalCopy.found`."""
        state = raw or b"", stat.version, stat.mzxid, stat.ephemeralOwner, life_of(stat), is_certain
        with self.lock:
            return self.copy.found(number, key, ticket, *state)

    def refused(self, number: int, key: str, ticket: int) -> None:
        """Leaves out an entry that may not be read, and logs that once."""
        with self.lock:
            is_new = self.copy.refused(number, key, ticket)
        if is_new:
            self.client.logger.warning(
                "DistributedDict %s: %r may not be read, and is left out",
                self.path,
                key,
                extra={"path": self.path},
            )

    def _get(self, path: str, is_certain: bool) -> tuple[bytes, ZnodeStat]:
        if is_certain:
            self._write([path])
        return self.client.get(path)

    def _list(self, is_certain: bool) -> list[tuple[list[str], object]]:
        if is_certain:
            self._write(join(directory, EMPTY) for directory in self.directories)
        asked = [self.client.get_children_async(each, include_data=True) for each in self.directories]
        return [_names(answer) for answer in asked]

    def _write(self, paths: Iterable[str]) -> None:
        """Sends a write that is refused to the ensemble of each path, so that a later read there is not older."""
        for answer in [self.client.set_async(path, b"", IMPOSSIBLE) for path in paths]:
            with suppress(BadVersionError, NoNodeError, NoAuthError):
                answer.get()


def _shards(data: bytes) -> int | None:
    """Returns the number of buckets of a directory, by its data; None if it is no Spread."""
    try:
        told = json.loads(data)
    except ValueError:
        return None
    return told.get("buckets") if isinstance(told, dict) else None


def keys_of(names: Iterable[str]) -> list[str]:
    """Returns the keys among these names."""
    return [key for key in map(key_of, names) if key is not None]


def _names(answer: AsyncResult[tuple[list[str], ZnodeStat]]) -> tuple[list[str], object]:
    """Returns the names, and a value that changes when a name is added or deleted."""
    try:
        names, stat = answer.get()
    except NoNodeError:
        return [], None
    return names, (life_of(stat), stat.cversion, stat.pzxid)
