"""Queues: one that loses nothing with an answer, and LockingQueue without transactions across ensembles."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, TypeVar

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
)
from kazoo.recipe.queue import BaseQueue
from kazoo.recipe.queue import LockingQueue as KazooLockingQueue
from kazoo.recipe.queue import Queue as KazooQueue
from kazoo.retry import ForceRetryError

from parkazoo.errors import AnswerLostError
from parkazoo.recipe.exactly_once import retried
from parkazoo.recipe.freshness import catch_up
from parkazoo.recipe.lock import until_gone
from parkazoo.recipe.queue_layout import (
    OURS,
    QueueLayout,
    entries_of,
    errors_of,
    first_data,
    is_lock,
    may_be_kazoos,
)
from parkazoo.recipe.swept import in_folder
from parkazoo.recipe.waits import Waiter

T = TypeVar("T")


class _QueueFolder(BaseQueue):
    """Makes its folder again when another program has deleted it."""

    def _in_folder(self, func: Callable[..., T], *args: object) -> T:
        return in_folder(self._forget_folder, self._behind_folder, func, *args)

    def _behind_folder(self, func: Callable[..., T], *args: object) -> T:
        if not self.ensured_path:
            self.client.retry(self._ensure_paths)
        return func(*args)

    def _forget_folder(self) -> None:
        self.ensured_path = False

    def __len__(self) -> int:
        """Returns the number of entries, locked ones included."""
        return self._in_folder(super().__len__)


class Queue(_QueueFolder, KazooQueue):
    """Replaces kazoo's Queue: same methods, same entries.

    If the answer to its delete is lost, kazoo's `get` finds the entry gone and takes another one: the first is
    lost. If the answer to its create is lost, `put` raises although the entry may exist. Here ``client.once`` does
    both.

    :raises SessionExpiredError: the session has ended before an answer. The message says so if an entry may have
        been taken, or put.
    """

    _children: list[str]

    def get(self) -> bytes | None:
        """Takes the first entry.

        :returns: its value; None if there is no entry.
        """
        value: bytes | None = retried(self.client, self._first, self._take)
        return value

    def _first(self) -> tuple[str, bytes] | None:
        """Returns the path of the first entry, and its value."""
        if not self._children:
            self._children = sorted(self._in_folder(self.client.get_children, self.path))
        if not self._children:
            return None
        path = f"{self.path}/{self._children[0]}"
        try:
            return path, self.client.get(path)[0]
        except NoNodeError:  # another client has taken it
            self._children = []
            raise ForceRetryError from None

    def _take(self, first: tuple[str, bytes] | None) -> bytes | None:
        if first is None:
            return None
        path, value = first
        self.client.hear_others()  # who has put it
        try:
            self.client.once(self.client.delete, path)
        except NoNodeError:  # another client has taken it
            self._children = []
            raise ForceRetryError from None
        self._children.pop(0)
        return value

    def put(self, value: bytes, priority: int = 100) -> None:
        """Puts an entry.

        :param priority: 0 to 999; lower ones are taken first.
        :raises TypeError: `value` is not bytes, or `priority` no int. ValueError: it is out of that range.
        """
        self._check_put_arguments(value, priority)
        path = f"{self.path}/{self.prefix}{priority:03d}-"
        with suppress(AnswerLostError):  # it was put, and another client has taken it
            self._in_folder(partial(self.client.once, self.client.create, path, value, sequence=True))


class LockingQueue(_QueueFolder, KazooLockingQueue):
    """Replaces kazoo's LockingQueue: same methods, same promises.

    kazoo keeps the locks in ``taken/``, beside ``entries/``, and consumes an entry by a transaction over both,
    which may be on different ensembles. Here the lock of ``entries/entry-100-0000000001`` is its sibling
    ``entries/taken-entry-100-0000000001``: siblings share an ensemble. A cluster that began with one ensemble
    keeps kazoo's layout, so that plain kazoo clients can use the same queue, until its map has grown; queues made
    later have this one. The client that makes the znode ``entries`` decides, and its data says which.

    A client that locks an entry also sets it, to the same value, in one transaction: the entry's version
    identifies the holder. One transaction that checks the holder's version deletes an entry, or releases its lock.
    So an entry is never lost, and never has two holders while its holder's session lives. A holder whose session
    has expired cannot change an entry that another client holds (in kazoo's layout it can, in the middle of
    `consume`).
    """

    def __init__(self, client: Any, path: str) -> None:
        super().__init__(client, path)
        self._layout = QueueLayout(self.path, is_kazoos=True)
        self.processing_element: tuple[str, bytes] | None = None
        self._version = -1  # of that entry since we have locked it
        self._are_paths_chosen = False

    def _ensure_paths(self) -> None:
        if not self._are_paths_chosen:
            if (cluster_map := self.client.cluster_map) is None:
                self.client.exists(self.path)  # waits for the map, or raises: the client was not started
                cluster_map = self.client.cluster_map
            is_kazoos = may_be_kazoos(cluster_map) and self._make_entries() != OURS
            self._layout = QueueLayout(self.path, is_kazoos)
            self.structure_paths = self._layout.folders
            self._are_paths_chosen = True
        super()._ensure_paths()

    def _forget_folder(self) -> None:
        """Forgets the layout: the client that makes the folder chooses it."""
        super()._forget_folder()
        self._are_paths_chosen = False

    def put(self, value: bytes, priority: int = 100) -> None:
        """Puts an entry; see :meth:`Queue.put` for `priority` and errors.

        :raises ConnectionLoss: as kazoo's; the entry may have been put.
        """
        self._in_folder(super().put, value, priority)

    def put_all(self, values: list[bytes], priority: int = 100) -> None:
        """Puts several entries, all or none.

        :raises: as :meth:`put`. kazoo's raises nothing if the servers refuse them.
        """
        self._in_folder(self._put_all, values, priority)

    def _put_all(self, values: list[bytes], priority: int) -> None:
        if not isinstance(values, list):
            raise TypeError("values must be a list of byte strings")
        self._check_put_arguments(b"", priority)
        transaction = self.client.transaction()
        for value in values:
            self._check_put_arguments(value, priority)
            transaction.create(f"{self._layout.entries}/{self.entry}-{priority:03d}-", value, sequence=True)
        if errors := errors_of(transaction.commit()):
            raise errors[0]

    def get(self, timeout: float | None = None) -> bytes | None:
        """Locks the first entry that is not locked, or returns the one that is being processed.

        If a signal handler or gevent.Timeout interrupts it, a thread or greenlet releases the entry that it
        locked.

        :param timeout: seconds; it ends the wait also while the connection is lost.
        :returns: the value; None after `timeout`.
        :raises ConnectionClosedError: the client was stopped.
        """
        if self.processing_element is None:
            waiter = Waiter(self.client, timeout)
            tried: list[str] = []
            look = partial(in_folder, self._forget_folder, self._look, waiter, tried)
            try:
                self.processing_element = waiter.until(look)
            except KazooException:
                raise
            except BaseException:
                for entry in tried:
                    self._leave(entry)
                raise
        return None if self.processing_element is None else self.processing_element[1]

    def _make_entries(self) -> bytes:
        """Returns the data of `entries`, making that znode if it is missing."""
        path = entries_of(self.path)
        while True:
            with suppress(NodeExistsError):
                self.client.create(path, first_data(self.client.cluster_map), makepath=True)
            with suppress(NoNodeError):
                return bytes(self.client.get(path)[0])

    def __len__(self) -> int:
        """Returns the number of entries, locked ones included."""
        names = self._in_folder(lambda: self.client.retry(self.client.get_children, self._layout.entries))
        return sum(not is_lock(name) for name in names)

    def holds_lock(self) -> bool:
        """Returns whether this queue object still holds the lock of the entry that it got."""
        if self.processing_element is None:
            return False
        lock = self._layout.lock_of(self.processing_element[0])
        catch_up(self.client, lock)
        return self._is_ours(lock)

    def consume(self) -> bool:
        """Removes the entry that is being processed.

        :returns: whether it was removed; False if the lock was lost, and another client may have the entry.
        """
        return bool(super().consume()) if self._layout.is_kazoos else self._give_back(is_consumed=True)

    def release(self) -> bool:
        """Releases the entry that is being processed without removing it.

        :returns: whether this client still had its lock.
        """
        return bool(super().release()) if self._layout.is_kazoos else self._give_back(is_consumed=False)

    def _give_back(self, is_consumed: bool) -> bool:
        if self.processing_element is None:
            return False
        entry, _ = self.processing_element
        transaction = self.client.transaction()
        self._layout.add_end(transaction, entry, self._version, is_consumed)
        transaction.commit()
        if not transaction.committed:
            return False
        self.processing_element = None
        return True

    def _is_ours(self, lock: str) -> bool:
        try:
            value, _ = self.client.retry(self.client.get, lock)
        except NoNodeError:
            return False
        return bool(value == self.id)

    def _look(self, waiter: Waiter, tried: list[str]) -> tuple[str, bytes] | None:
        """Takes the first free entry, if there is one.

        kazoo's does that in a watch, where nobody catches an exception and nobody looks again.

        :param tried: for the entry whose lock this client may have.
        """
        self._ensure_paths()
        while (entry := self._first_free(waiter)) is not None:
            tried[:] = [entry]
            taken = self._take(entry)
            if taken is not None:
                self.client.hear_others()
                return taken
            tried.clear()
        return None

    def _first_free(self, waiter: Waiter) -> str | None:
        names = waiter.watch(self.client.get_children, self._layout.entries)
        is_kazoos = self._layout.is_kazoos
        locks = waiter.watch(self.client.get_children, self._layout.locks) if is_kazoos else names
        return self._layout.first_free(names, locks)

    def _take(self, entry: str) -> tuple[str, bytes] | None:
        """Locks an entry; None if another client has locked or consumed it.

        It uses a transaction, in kazoo's layout too: if entries and locks are on two ensembles, `consume` would
        find out too late. It retries until it is known whether this client has the lock, however long that takes.

        :raises CrossEnsembleError: entries and locks are on two ensembles.
        """
        path, lock = self._layout.path_of(entry), self._layout.lock_of(entry)
        attempts = 0

        def attempt() -> tuple[bytes | None, int, list[object]]:
            nonlocal attempts
            attempts += 1
            value, version = None, -1
            transaction = self.client.transaction()
            if self._layout.is_kazoos:
                transaction.check(path, -1)
            else:
                value, stat = self.client.get(path)
                transaction.set_data(path, value, stat.version)
                version = stat.version + 1
            transaction.create(lock, self.id, ephemeral=True)
            return value, version, transaction.commit()

        try:
            value, self._version, results = self.client.retry(attempt)
        except NoNodeError:
            return None
        errors = errors_of(results)
        if any(isinstance(error, (NoNodeError, BadVersionError, NodeExistsError)) for error in errors):
            if attempts == 1 or not self._is_ours(lock):  # a lost connection may have hidden that we got it
                return None
            value = None
        elif errors:
            raise errors[0]
        if value is None:
            try:
                value, stat = self.client.retry(self.client.get, path)
            except NoNodeError:  # the lock is lost already, and another client has consumed the entry
                return None
            if attempts > 1 and not self._is_ours(lock):  # the version may be another holder's
                return None
            self._version = stat.version
        return entry, value

    def _leave(self, entry: str) -> None:
        """Releases the entry of an interrupted :meth:`get`, because nobody would process it."""
        left, self.id = copy(self), uuid.uuid4().hex.encode()
        self.client.handler.spawn(until_gone, self.client, partial(left._unlock, entry))

    def _unlock(self, entry: str) -> None:
        """Releases an entry, if this client has its lock."""
        with suppress(NoNodeError):
            version = self.client.get(self._layout.path_of(entry))[1].version
            if self._is_ours(self._layout.lock_of(entry)):
                transaction = self.client.transaction()
                self._layout.add_end(transaction, entry, version, is_consumed=False)
                transaction.commit()
