"""The writes of a DistributedDict: each is done once, or raises OutcomeUnknown (docs/design/once.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

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
from parkazoo.recipe.transaction import RetriableTransaction
from parkazoo.structures.entries import Entries
from parkazoo.structures.entry_writes import (
    NOT_AS_KNOWN,
    EntryWrite,
    merge,
    of_others,
    partly_done,
    size_of,
    verify_size,
)


class Writer:
    """Writes entries, and puts finished writes into the copy.

    All methods wait. They raise

    * OutcomeUnknown: the write may have been done;
    * SessionExpiredError, ConnectionClosedError, RequestTooLargeError: it was not done;
    * other errors of the servers, such as NoAuthError: it was not done.

    :param is_ephemeral: end entries with the session of the client that wrote them last.
    """

    def __init__(self, entries: Entries, is_ephemeral: bool) -> None:
        self._entries = entries
        self._client = entries.client
        self._is_ephemeral = is_ephemeral

    def verify(self, key: str, raw: bytes) -> None:
        """
        :raises TypeError: the key is no str. :raises ValueError: it is too large.
        """
        verify_size(key, self._entries.place(key)[1], raw)

    # ---- calls -------------------------------------------------------------------------------------

    def put(self, values: Mapping[str, bytes]) -> None:
        """Sets entries, or makes them, in one transaction for each directory and 512 KiB, one after the other.

        :raises PartlyDoneError: some were done before an error.
        """
        self._in_parts(values, self._put)

    def add(self, key: str, raw: bytes) -> bool:
        """Makes an entry, unless it exists; returns whether it did."""
        self._prepare()
        number, path = self._entries.place(key)
        while True:
            began, transaction = self._begin()
            transaction.create(path, raw, ephemeral=self._is_ephemeral)
            error, results, is_exact = self._commit(transaction, [key])
            if isinstance(error, NoNodeError):
                self._entries.make_directory(number)
            elif isinstance(error, NodeExistsError):
                return False
            else:
                self._merge(number, began, {key: raw}, [EntryWrite(key, "create")], results, is_exact)
                return True

    def swap(self, key: str, version: int, raw: bytes) -> bool:
        """Sets an entry of that version; returns whether it did. If not, it reads the entry into the copy."""
        number, path = self._entries.place(key)
        began, transaction = self._begin()
        transaction.set_data(path, raw, version)
        error, results, is_exact = self._commit(transaction, [key])
        if error is not None:
            self._entries.fetch(key)
            return False
        self._merge(number, began, {key: raw}, [EntryWrite(key, "set")], results, is_exact)
        return True

    def drop(self, key: str, version: int = -1) -> bool:
        """Deletes an entry; returns whether it existed.

        :raises BadVersionError: it has another version.
        """
        number, path = self._entries.place(key)
        began, transaction = self._begin()
        transaction.delete(path, version)
        error, results, is_exact = self._commit(transaction, [key])
        if isinstance(error, BadVersionError):
            raise error
        if error is not None:
            with self._entries.lock:
                is_in_doubt = self._entries.copy.not_found(number, key, began)
            self._resolve([key] if is_in_doubt else [])
            return False
        self._merge(number, began, {}, [EntryWrite(key, "delete")], results, is_exact)
        return True

    def drop_all(self, keys: Collection[str]) -> None:
        """Deletes these entries, as far as they exist, in transactions as :meth:`put`.

        :raises PartlyDoneError: some were done before an error.
        """
        self._in_parts(dict.fromkeys(keys, b""), self._drop)

    # ---- transactions of several -------------------------------------------------------------------

    def _in_parts(self, values: Mapping[str, bytes], write: Callable[[int, dict[str, bytes]], None]) -> None:
        self._prepare()
        done: list[str] = []
        for number, part in self._parts(values):
            try:
                write(number, part)
            except KazooException as error:
                if not done:
                    raise
                raise partly_done(values, done, error) from error
            done += part

    def _parts(self, values: Mapping[str, bytes]) -> Iterator[tuple[int, dict[str, bytes]]]:
        by_directory: dict[int, dict[str, bytes]] = {}
        for key, raw in values.items():
            by_directory.setdefault(self._entries.place(key)[0], {})[key] = raw
        for number, all_of_it in by_directory.items():
            part: dict[str, bytes] = {}
            size = 0
            for key, raw in all_of_it.items():
                more = size_of(self._entries.place(key)[1], raw) + OVERHEAD_BYTES
                if part and size + more > MOST_BYTES:
                    yield number, part
                    part, size = {}, 0
                part[key] = raw
                size += more
            yield number, part

    def _put(self, number: int, values: dict[str, bytes]) -> None:
        is_there: dict[str, bool] = {}  # where the copy is wrong
        while values:
            began, transaction = self._begin()
            steps = [step for key, raw in values.items() for step in self._steps(transaction, key, raw, is_there)]
            error, results, is_exact = self._commit(transaction, list(values), steps)
            if error is None:
                values = self._merge(number, began, values, steps, results, is_exact)
                continue
            failed = steps[failure(results)[0]]
            if failed.kind == "create" and isinstance(error, NoNodeError):
                self._entries.make_directory(number)
            elif self._is_ephemeral or any(step.kind == "delete" for step in steps):
                self._entries.fetch_some(list(values))
            elif len(values) == 1:
                is_there = {failed.key: isinstance(error, NodeExistsError)}
            else:
                is_there = self._look(list(values))

    def _steps(
        self, transaction: RetriableTransaction, key: str, raw: bytes, is_there: Mapping[str, bool]
    ) -> Iterator[EntryWrite]:
        """Returns the operations that set or create an entry, or replace one of another session."""
        path = self._entries.place(key)[1]
        known = self._entries.copy.entries.get(key)
        if is_there.get(key, known is not None):
            if known is None or known.owner == self._mine():
                transaction.set_data(path, raw)
                yield EntryWrite(key, "set")
                return
            transaction.delete(path, known.version)
            yield EntryWrite(key, "delete")
        transaction.create(path, raw, ephemeral=self._is_ephemeral)
        yield EntryWrite(key, "create")

    def _look(self, keys: list[str]) -> dict[str, bool]:
        """Returns which of these entries exist."""

        def ask() -> list[bool]:
            asked = [self._client.exists_async(self._entries.place(key)[1]) for key in keys]
            return [answer.get() is not None for answer in asked]

        return dict(zip(keys, self._client.retry(ask), strict=True))

    def _drop(self, number: int, values: dict[str, bytes]) -> None:
        while values:
            began, transaction = self._begin()
            for key in values:
                transaction.delete(self._entries.place(key)[1])
            steps = [EntryWrite(key, "delete") for key in values]
            error, results, is_exact = self._commit(transaction, list(values))
            if error is None:
                self._merge(number, began, values, steps, results, is_exact)
                return
            there = self._look(list(values))
            values = {key: raw for key, raw in values.items() if there[key]}

    # ---- one transaction ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._entries.verify(is_to_make=True)

    def _begin(self) -> tuple[int, RetriableTransaction]:
        self._client.check_process()
        return self._entries.copy.ticket(), self._client.transaction()

    def _mine(self) -> int:
        """Returns the owner of written entries: this session, or none."""
        found = self._client.client_id if self._is_ephemeral else None
        return found[0] if found else 0

    def _commit(
        self, transaction: RetriableTransaction, keys: list[str], steps: list[EntryWrite] | None = None
    ) -> tuple[Exception | None, list[Any], bool]:
        """The error, if an entry is not as it was thought to be; the results; whether they tell of no later write.

        :raises: see :class:`Writer`.
        """
        try:
            results, is_exact = self._client.exactly_once.commit(transaction)
        except AnswerLostError:  # it was done, and something of it is gone since
            return None, [], False
        except RequestTooLargeError:
            raise
        except (SessionExpiredError, ConnectionClosedError) as error:
            self._entries.missed = object()
            if may_be_done(error):
                raise OutcomeUnknown(
                    f"{_some(keys)}: nobody knows whether it was written: {error}", keys
                ) from error
            raise
        except BaseException:  # a signal handler's
            self._entries.missed = object()
            raise
        index, refused = failure(results)
        if refused is not None and not isinstance(refused, NOT_AS_KNOWN):
            raise type(refused)(self._entries.place(steps[index].key if steps else keys[index])[1])
        return refused, results, is_exact

    def _merge(
        self,
        number: int,
        began: int,
        values: Mapping[str, bytes],
        steps: list[EntryWrite],
        results: list[Any],
        is_exact: bool,
    ) -> dict[str, bytes]:
        """Puts finished writes into the copy; returns entries of another session, which must be written again."""
        copy, mine = self._entries.copy, self._mine()
        if not is_exact:
            self._resolve([step.key for step in steps])
            return of_others(copy, values, mine)
        with self._entries.lock:
            again, doubtful = merge(copy, number, began, values, steps, results, mine)
        self._resolve(doubtful)
        return again

    def _resolve(self, keys: Collection[str]) -> None:
        """Reads the entries again. Their write is done, so an error of these reads is not raised."""
        if keys:
            try:
                self._entries.fetch_some(list(dict.fromkeys(keys)))
            except KazooException:
                self._entries.missed = object()
            except BaseException:  # a signal handler's
                self._entries.missed = object()
                raise


def _some(keys: Collection[str]) -> str:
    named = ", ".join(repr(key) for key in list(keys)[:NAMED])
    return named if len(keys) <= NAMED else f"{named} and {len(keys) - NAMED} more"
