"""The writes of a DistributedDict: each is done once, or raises OutcomeUnknown (docs/design/once.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)

from parkazoo.engine.deferred.as_given import NAMED
from parkazoo.engine.deferred.writes import MOST_BYTES, OVERHEAD_BYTES
from parkazoo.errors import AnswerLostError, OutcomeUnknown, RequestTooLargeError
from parkazoo.protocol.once import may_be_done
from parkazoo.protocol.steps import failure
from parkazoo.structures.entry_asks import CommitOnce, Look, Steps
from parkazoo.structures.entry_writes import (
    NOT_AS_KNOWN,
    EntryWrite,
    merge,
    of_others,
    partly_done,
    size_of,
    verify_size,
)
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.reading import EntryReader

T = TypeVar("T")


class Writing(Protocol):
    """The client of a writer."""

    _session: Any

    def transaction(self) -> Any: ...


class Writer:
    """Writes entries, and puts finished writes into the copy. Its methods are generators of asks.

    They raise

    * OutcomeUnknown: the write may have been done;
    * SessionExpiredError, ConnectionClosedError, RequestTooLargeError: it was not done;
    * other errors of the servers, such as NoAuthError: it was not done.

    :param is_ephemeral: end entries with the session of the client that wrote them last.
    :param miss: called when the copy may lack a write of this process.
    """

    def __init__(self, client: Writing, reader: EntryReader, is_ephemeral: bool, miss: Callable[[], None]) -> None:
        if not isinstance(is_ephemeral, bool):
            raise TypeError(f"ephemeral must be True or False, not {is_ephemeral!r}")
        self._client = client
        self._reader = reader
        self._directories = reader.directories
        self._copy = reader.copy
        self._is_ephemeral = is_ephemeral
        self._miss = miss

    def verify(self, key: str, raw: bytes) -> None:
        """
        :raises TypeError: the key is no str. :raises ValueError: it is too large.
        """
        verify_size(key, self._directories.place(key)[1], raw)

    # ---- calls -------------------------------------------------------------------------------------

    def put(self, values: Mapping[str, bytes]) -> Steps[None]:
        """Sets entries, or makes them, in one transaction for each directory and 512 KiB, one after the other.

        :raises PartlyDoneError: some were done before an error.
        """
        yield from self._in_parts(values, self._put)

    def add(self, key: str, raw: bytes) -> Steps[bool]:
        """Makes an entry, unless it exists; returns whether it did."""
        yield from self._reader.verify(is_to_make=True)
        number, path = self._directories.place(key)
        while True:
            began, transaction = self._begin()
            transaction.create(path, raw, ephemeral=self._is_ephemeral)
            writes = [EntryWrite(key, "create")]
            error, results, is_exact = yield from self._commit(transaction, writes)
            if isinstance(error, NoNodeError):
                yield from self._reader.make_directory(number)
            elif isinstance(error, NodeExistsError):
                return False
            else:
                yield from self._merge(number, began, {key: raw}, writes, results, is_exact)
                return True

    def swap(self, key: str, version: int, raw: bytes) -> Steps[bool]:
        """Sets an entry of that version; returns whether it did. If not, it reads the entry into the copy."""
        number, path = self._directories.place(key)
        began, transaction = self._begin()
        transaction.set_data(path, raw, version)
        writes = [EntryWrite(key, "set")]
        error, results, is_exact = yield from self._commit(transaction, writes)
        if error is not None:
            yield from self._reader.fetch(key)
            return False
        yield from self._merge(number, began, {key: raw}, writes, results, is_exact)
        return True

    def compare_and_set(self, key: str, version: int | None, raw: bytes) -> Steps[bool]:
        """:param version: None: makes the entry, unless it exists; if so, reads it into the copy."""
        if version is not None:
            return (yield from self.swap(key, version, raw))
        if (yield from self.add(key, raw)):
            return True
        yield from self._reader.fetch(key)
        return False

    def set_default(self, key: str, raw: bytes) -> Steps[Entry]:
        """Returns the entry, made if it did not exist."""
        while True:
            if (yield from self.add(key, raw)):
                return Entry(raw, 0, None, 0, 0)
            if (entry := (yield from self._reader.fetch(key))) is not None:
                return entry

    def drop(self, key: str, version: int = -1) -> Steps[bool]:
        """Deletes an entry; returns whether it existed.

        :raises BadVersionError: it has another version.
        """
        number, path = self._directories.place(key)
        began, transaction = self._begin()
        transaction.delete(path, version)
        writes = [EntryWrite(key, "delete")]
        error, results, is_exact = yield from self._commit(transaction, writes)
        if isinstance(error, BadVersionError):
            raise error
        if error is not None:
            with self._reader.lock:
                is_in_doubt = self._copy.not_found(number, key, began)
            yield from self._resolve([key] if is_in_doubt else [])
            return False
        yield from self._merge(number, began, {}, writes, results, is_exact)
        return True

    def take(self, key: str, decode: Callable[[str, Entry], T]) -> Steps[tuple[T] | None]:
        """Deletes an entry, and returns a tuple with the value that it deleted; None if there was none.

        :param decode: its errors delete nothing.
        """
        while (entry := (yield from self._reader.fetch(key))) is not None:
            value = decode(key, entry)
            with suppress(BadVersionError):
                return (value,) if (yield from self.drop(key, entry.version)) else None
        return None

    def take_any(self, decode: Callable[[str, Entry], T]) -> Steps[tuple[str, T] | None]:
        """Deletes any entry, as :meth:`take`; None if there is none."""
        while keys := list(self._copy.entries) or (yield from self._reader.fetch_keys()):
            for key in keys:
                if (found := (yield from self.take(key, decode))) is not None:
                    return key, found[0]
        return None

    def clear(self) -> Steps[None]:
        """Deletes the present entries, in transactions as of :meth:`put`.

        :raises PartlyDoneError: some were done before an error.
        """
        if keys := (yield from self._reader.fetch_keys()):
            yield from self._in_parts(dict.fromkeys(keys, b""), self._drop)

    # ---- transactions of several -------------------------------------------------------------------

    def _in_parts(
        self, values: Mapping[str, bytes], write: Callable[[int, dict[str, bytes]], Steps[None]]
    ) -> Steps[None]:
        yield from self._reader.verify(is_to_make=True)
        done: list[str] = []
        for number, part in self._parts(values):
            try:
                yield from write(number, part)
            except KazooException as error:
                if not done:
                    raise
                raise partly_done(values, done, error) from error
            done += part

    def _parts(self, values: Mapping[str, bytes]) -> Iterator[tuple[int, dict[str, bytes]]]:
        by_directory: dict[int, dict[str, bytes]] = {}
        for key, raw in values.items():
            by_directory.setdefault(self._directories.place(key)[0], {})[key] = raw
        for number, all_of_it in by_directory.items():
            part: dict[str, bytes] = {}
            size = 0
            for key, raw in all_of_it.items():
                more = size_of(self._directories.place(key)[1], raw) + OVERHEAD_BYTES
                if part and size + more > MOST_BYTES:
                    yield number, part
                    part, size = {}, 0
                part[key] = raw
                size += more
            yield number, part

    def _put(self, number: int, values: dict[str, bytes]) -> Steps[None]:
        is_there: dict[str, bool] = {}  # where the copy is wrong
        while values:
            began, transaction = self._begin()
            writes = [
                each for key, raw in values.items() for each in self._writes(transaction, key, raw, is_there)
            ]
            error, results, is_exact = yield from self._commit(transaction, writes)
            if error is None:
                values = yield from self._merge(number, began, values, writes, results, is_exact)
                continue
            failed = writes[failure(results)[0]]
            if failed.kind == "create" and isinstance(error, NoNodeError):
                yield from self._reader.make_directory(number)
            elif self._is_ephemeral or any(each.kind == "delete" for each in writes):
                yield from self._reader.fetch_some(list(values))
                is_there = {key: True for key in values if key in self._copy.unreadable[number]}
            elif len(values) == 1:
                is_there = {failed.key: isinstance(error, NodeExistsError)}
            else:
                is_there = yield from self._look(list(values))

    def _writes(
        self, transaction: Any, key: str, raw: bytes, is_there: Mapping[str, bool]
    ) -> Iterator[EntryWrite]:
        """Adds the operations that set or create an entry, or replace one of another session."""
        path = self._directories.place(key)[1]
        known = self._copy.entries.get(key)
        if is_there.get(key, known is not None):
            if known is None or known.owner == self._mine():
                transaction.set_data(path, raw)
                yield EntryWrite(key, "set")
                return
            transaction.delete(path, known.version)
            yield EntryWrite(key, "delete")
        transaction.create(path, raw, ephemeral=self._is_ephemeral)
        yield EntryWrite(key, "create")

    def _look(self, keys: list[str]) -> Steps[dict[str, bool]]:
        """Returns which of these entries exist."""
        there = yield Look([self._directories.place(key)[1] for key in keys])
        return dict(zip(keys, there, strict=True))

    def _drop(self, number: int, values: dict[str, bytes]) -> Steps[None]:
        while values:
            began, transaction = self._begin()
            for key in values:
                transaction.delete(self._directories.place(key)[1])
            writes = [EntryWrite(key, "delete") for key in values]
            error, results, is_exact = yield from self._commit(transaction, writes)
            if error is None:
                yield from self._merge(number, began, values, writes, results, is_exact)
                return
            there = yield from self._look(list(values))
            values = {key: raw for key, raw in values.items() if there[key]}

    # ---- one transaction ---------------------------------------------------------------------------

    def _begin(self) -> tuple[int, Any]:
        return self._copy.ticket(), self._client.transaction()

    def _mine(self) -> int:
        """Returns the owner of written entries: this session, or none."""
        session = self._client._session if self._is_ephemeral else None
        return session.number if session else 0  # also while the client is suspended

    def _commit(
        self, transaction: Any, writes: list[EntryWrite]
    ) -> Steps[tuple[Exception | None, list[Any], bool]]:
        """The error, if an entry is not as it was thought to be; the results; whether they tell of no later write.

        :raises: see :class:`Writer`.
        """
        try:
            results, is_exact = yield CommitOnce(transaction)
        except AnswerLostError:  # it was done, and something of it is gone since
            return None, [], False
        except RequestTooLargeError:
            raise
        except (SessionExpiredError, ConnectionClosedError) as error:
            self._miss()
            if may_be_done(error):
                keys = list(dict.fromkeys(each.key for each in writes))
                raise OutcomeUnknown(
                    f"{_some(keys)}: nobody knows whether it was written: {error}", keys
                ) from error
            raise
        except BaseException:  # a signal handler's, or a cancellation
            self._miss()
            raise
        index, refused = failure(results)
        if refused is not None and not isinstance(refused, NOT_AS_KNOWN):
            raise type(refused)(self._directories.place(writes[index].key)[1])
        return refused, results, is_exact

    def _merge(
        self,
        number: int,
        began: int,
        values: Mapping[str, bytes],
        writes: list[EntryWrite],
        results: list[Any],
        is_exact: bool,
    ) -> Steps[dict[str, bytes]]:
        """Puts finished writes into the copy; returns entries of another session, which must be written again."""
        mine = self._mine()
        if not is_exact:
            yield from self._resolve([each.key for each in writes])
            return of_others(self._copy, values, mine)
        with self._reader.lock:
            again, doubtful = merge(self._copy, number, began, values, writes, results, mine)
        yield from self._resolve(doubtful)
        return again

    def _resolve(self, keys: Collection[str]) -> Steps[None]:
        """Reads the entries again. Their write is done, so an error of these reads is not raised."""
        if keys:
            try:
                yield from self._reader.fetch_some(list(dict.fromkeys(keys)))
            except KazooException:
                self._miss()
            except BaseException:  # a signal handler's, or a cancellation
                self._miss()
                raise


def verify_version(version: int | None) -> None:
    """
    :raises TypeError: it is neither a number nor None. :raises ValueError: no entry has it.
    """
    if version is None:
        return
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"version must be a whole number or None, not {version!r}")
    if not 0 <= version < 1 << 31:
        raise ValueError(f"version must be one of get_with_version, not {version!r}")


def _some(keys: Collection[str]) -> str:
    named = ", ".join(repr(key) for key in list(keys)[:NAMED])
    return named if len(keys) <= NAMED else f"{named} and {len(keys) - NAMED} more"
