"""How the entries of a DistributedDict are read into the copy of a process. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.structures.entry_asks import Ensure, ListAll, Make, ReadOne, ReadSome, Steps
from parkazoo.structures.entry_directories import EntryDirectories
from parkazoo.structures.keys import keys_of
from parkazoo.structures.local_copy import Entry, LocalCopy, life_of
from parkazoo.types.handlers import Log
from parkazoo.types.znodes import ZnodeStat

MOST_READS_IN_FLIGHT = 1000
SNAPSHOT_TRIES = 10


class EntryReader:
    """Reads entries, and puts the answers into the copy. Its methods are generators of asks.

    :param tell: see :class:`LocalCopy`. :param lock: for the copy.
    :param is_linearizable: send a write that changes nothing before each read.
    :ivar is_verified: whether the directory existed, and has not the number of shards of another dictionary.
    """

    def __init__(
        self,
        directories: EntryDirectories,
        tell: Callable[[str, Entry | None], None],
        lock: AbstractContextManager[object],
        log: Log,
        is_linearizable: bool = False,
    ) -> None:
        self.directories = directories
        self.copy = LocalCopy(len(directories.all), tell)
        self.lock = lock
        self.is_verified = False
        self._log = log
        self._is_linearizable = is_linearizable

    # ---- directories -------------------------------------------------------------------------------

    def verify(self, is_to_make: bool = False) -> Steps[None]:
        """
        :param is_to_make: write the number of shards, if there is no directory yet.
        :raises ValueError: the directory was made with another number of shards.
        """
        if self.is_verified:
            return
        if is_to_make and self.directories.data is not None:
            yield Make(self.directories.path, self.directories.data)
        try:
            found, _ = yield ReadOne(self.directories.path, False)
        except NoNodeError:
            return
        self.directories.verify(found or b"")
        self.is_verified = True

    def make_directory(self, number: int) -> Steps[None]:
        """Makes the missing directory; another dictionary may have made `path` again.

        :raises ValueError: another dictionary made it with another number of shards.
        """
        self.is_verified = False
        if self.directories.data is not None:
            yield from self.verify(is_to_make=True)
        yield Ensure(self.directories.all[number])
        yield from self.verify()

    # ---- entries -----------------------------------------------------------------------------------

    def fetch(self, key: str) -> Steps[Entry | None]:
        """Reads one entry, by one request; None if it does not exist."""
        return (yield from self._fetch(key, self._is_linearizable))

    def _fetch(self, key: str, is_certain: bool) -> Steps[Entry | None]:
        """
        :param is_certain: behind a write, as all the tries behind the first.
        """
        number, path = self.directories.place(key)
        while True:
            ticket = self.copy.ticket()
            try:
                raw, stat = yield ReadOne(path, is_certain)
            except NoNodeError:
                with self.lock:
                    is_in_doubt = self.copy.not_found(number, key, ticket)
            else:
                is_in_doubt = self.found(number, key, ticket, raw, stat, is_certain)
            if not is_in_doubt:
                return self.copy.entries.get(key)
            is_certain = True

    def fetch_keys(self) -> Steps[list[str]]:
        """Reads the keys, by one request for each directory."""
        return (yield from self._fetch_keys(self._is_linearizable))[0]

    def _fetch_keys(self, is_certain: bool) -> Steps[tuple[list[str], list[object]]]:
        """Reads the keys, with a mark for each directory that changes when a key is added or deleted."""
        ticket = self.copy.ticket()
        found: list[str] = []
        doubtful: list[str] = []
        listings = yield ListAll(self.directories.all, is_certain)
        for number, listing in enumerate(listings):
            keys = [] if listing is None else keys_of(listing[0])
            with self.lock:
                doubtful += self.copy.listed(number, keys, ticket)
            found += keys
        for key in doubtful:
            if (yield from self._fetch(key, self._is_linearizable)) is not None:
                found.append(key)
        return found, [None if each is None else _mark(each[1]) for each in listings]

    def fetch_all(self) -> Steps[dict[str, Entry]]:
        """Reads all entries, by one request for each directory and each entry."""
        return (yield from self._fetch_all(self._is_linearizable))[0]

    def _fetch_all(self, is_certain: bool) -> Steps[tuple[dict[str, Entry], list[object]]]:
        found: dict[str, Entry] = {}
        keys, marks = yield from self._fetch_keys(is_certain)
        for start in range(0, len(keys), MOST_READS_IN_FLIGHT):
            found |= yield from self.fetch_some(keys[start : start + MOST_READS_IN_FLIGHT])
        return found, marks

    def fetch_some(self, keys: Collection[str]) -> Steps[dict[str, Entry]]:
        """Reads these entries, as far as they exist, by one request for each."""
        doubtful: list[str] = []
        places = [self.directories.place(key) for key in keys]
        ticket = self.copy.ticket()
        answers = yield ReadSome([path for _, path in places])
        for key, (number, _), answer in zip(keys, places, answers, strict=True):
            if self.take(number, key, ticket, answer):
                doubtful.append(key)
        for key in doubtful:
            yield from self._fetch(key, True)
        some = ((key, self.copy.entries.get(key)) for key in keys)
        return {key: entry for key, entry in some if entry is not None}

    def fetch_state(self) -> Steps[tuple[dict[str, Entry], object]]:
        """Reads all entries as :meth:`fetch_all`, not older than the call, and a value that is equal if nothing
        has changed.
        """
        found, marks = yield from self._fetch_all(is_certain=True)
        return found, (marks, {key: (entry.life, entry.mzxid, entry.version) for key, entry in found.items()})

    def snapshot(self) -> Steps[dict[str, Entry]]:
        """Reads all entries as they were at one moment after the call began: until two reads are equal.

        :raises RuntimeError: they changed in each of ten reads.
        """
        last: object = None
        for _ in range(SNAPSHOT_TRIES):
            entries, now = yield from self.fetch_state()
            if last == now:
                return entries
            last = now
        path = self.directories.path
        raise RuntimeError(f"{path} has changed in each of {SNAPSHOT_TRIES} reads: there is no snapshot")

    # ---- answers -----------------------------------------------------------------------------------

    def take(
        self,
        number: int,
        key: str,
        ticket: int,
        answer: tuple[bytes | None, ZnodeStat] | Exception,
        is_certain: bool = False,
    ) -> bool:
        """Puts the answer to a get, NoNodeError or NoAuthError into the copy; returns whether it is in doubt."""
        if isinstance(answer, NoAuthError):
            self.refused(number, key, ticket)
            return False
        if isinstance(answer, Exception):
            with self.lock:
                return self.copy.not_found(number, key, ticket)
        return self.found(number, key, ticket, *answer, is_certain)

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
            path = self.directories.path
            self._log.warning(
                "DistributedDict %s: %r may not be read, and is left out", path, key, extra={"path": path}
            )


def _mark(stat: ZnodeStat) -> object:
    """Returns a value that changes when a name is added or deleted."""
    return life_of(stat), stat.cversion, stat.pzxid
