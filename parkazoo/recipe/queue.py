"""LockingQueue in a shape that needs no transaction across ensembles."""

from __future__ import annotations

import time
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent
from kazoo.recipe.queue import LockingQueue as KazooLockingQueue


class LockingQueue(KazooLockingQueue):
    """kazoo's LockingQueue; same methods, same promises.

    kazoo keeps the locks in ``taken/``, beside ``entries/``, and consumes an entry by a transaction over both,
    which may be on different ensembles. Here the lock of ``entries/entry-100-0000000001`` is its sibling
    ``entries/taken-entry-100-0000000001``: siblings share an ensemble. Where the cluster map has one ensemble
    kazoo's own shape is kept, so that plain kazoo clients can use the same queue.

    An entry is deleted by nobody but a holder of its lock, in one transaction with the lock, so it is never
    lost; and it is locked by a create in one transaction with the check that it is there, so it is never given
    to two while its holder's session lives. (As with kazoo, a holder whose session expires in the middle of
    `consume` may still consume the entry that by then has been given to another.)
    """

    _LOCK_PREFIX = "taken-"

    def __init__(self, client: Any, path: str) -> None:
        super().__init__(client, path)
        self._is_kazoos = True
        self.processing_element: tuple[str, bytes] | None = None
        self._are_paths_chosen = False

    def _ensure_paths(self) -> None:
        if not self._are_paths_chosen:
            self._is_kazoos = len(self.client.cluster_map.placement) == 1
            if not self._is_kazoos:
                self.structure_paths = (self._entries_path,)
            self._are_paths_chosen = True
        super()._ensure_paths()

    def _lock_of(self, entry: str) -> str:
        if self._is_kazoos:
            return f"{self._lock_path}/{entry}"
        return f"{self._entries_path}/{self._LOCK_PREFIX}{entry}"

    def __len__(self) -> int:
        """The number of entries, locked ones included."""
        self._ensure_paths()
        if self._is_kazoos:
            return int(super().__len__())
        names = self.client.retry(self.client.get_children, self._entries_path)
        return sum(not name.startswith(self._LOCK_PREFIX) for name in names)

    def holds_lock(self) -> bool:
        """Whether this queue object still holds the lock of the entry that it got."""
        if self._is_kazoos:
            return bool(super().holds_lock())
        if self.processing_element is None:
            return False
        lock = self._lock_of(self.processing_element[0])
        self.client.sync(lock)
        return self._is_ours(lock)

    def consume(self) -> bool:
        """Remove the entry that is being processed.

        :returns: whether it was removed; False if the lock was lost, and the entry may be another's now.
        """
        return bool(super().consume()) if self._is_kazoos else self._give_back(is_consumed=True)

    def release(self) -> bool:
        """Give the entry that is being processed back without removing it.

        :returns: whether the lock was still ours.
        """
        return bool(super().release()) if self._is_kazoos else self._give_back(is_consumed=False)

    def _give_back(self, is_consumed: bool) -> bool:
        if self.processing_element is None or not self.holds_lock():
            return False
        entry, _ = self.processing_element
        transaction = self.client.transaction()
        if is_consumed:
            transaction.delete(f"{self._entries_path}/{entry}")
        transaction.delete(self._lock_of(entry))
        has_succeeded = all(result is True for result in transaction.commit())
        self.processing_element = None
        return has_succeeded

    def _is_ours(self, lock: str) -> bool:
        try:
            value, _ = self.client.retry(self.client.get, lock)
        except NoNodeError:
            return False
        return bool(value == self.id)

    def _inner_get(self, timeout: float | None) -> bytes | None:
        if self._is_kazoos:
            value: bytes | None = super()._inner_get(timeout)
            return value
        deadline_s = None if timeout is None else time.monotonic() + timeout
        has_changed = self.client.handler.event_object()

        def changed(event: WatchedEvent) -> None:
            has_changed.set()

        while True:
            has_changed.clear()
            names = self.client.retry(self.client.get_children, self._entries_path, changed)
            entry = self._first_free(names)
            if entry is not None:
                self.processing_element = self._take(entry)
                if self.processing_element is not None:
                    return bytes(self.processing_element[1])
            elif not has_changed.wait(None if deadline_s is None else max(0.0, deadline_s - time.monotonic())):
                return None

    def _first_free(self, names: list[str]) -> str | None:
        locks = {name for name in names if name.startswith(self._LOCK_PREFIX)}
        return min(
            (name for name in names if name not in locks and self._LOCK_PREFIX + name not in locks), default=None
        )

    def _take(self, entry: str) -> tuple[str, bytes] | None:
        """Lock an entry; None if somebody else has locked or consumed it."""
        if self._is_kazoos:
            taken: tuple[str, bytes] | None = super()._take(entry)
            return taken
        lock = self._lock_of(entry)
        attempts = 0

        def attempt() -> Any:
            nonlocal attempts
            attempts += 1
            transaction = self.client.transaction()
            transaction.check(f"{self._entries_path}/{entry}", -1)
            transaction.create(lock, self.id, ephemeral=True)
            return transaction.commit()

        is_there, is_locked = self.client.retry(attempt)
        if isinstance(is_locked, NodeExistsError):
            if attempts == 1 or not self._is_ours(lock):  # a lost connection may have hidden that we got it
                return None
        elif isinstance(is_there, NoNodeError):
            return None
        elif isinstance(is_locked, Exception):
            raise is_locked
        value, _ = self.client.retry(self.client.get, f"{self._entries_path}/{entry}")
        return entry, value
