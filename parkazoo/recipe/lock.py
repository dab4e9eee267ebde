"""kazoo's locks and semaphore, which leave no contender, watch or listener.

A server that shuts down may say that a session has expired although its ensemble still has it. So contenders of a
lost session may exist for a while. The next session does not use them, and deletes them without another LOST.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss, KazooException, LockTimeout, NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.recipe.lock import Lock as KazooLock
from kazoo.recipe.lock import ReadLock as KazooReadLock
from kazoo.recipe.lock import Semaphore as KazooSemaphore
from kazoo.recipe.lock import WriteLock as KazooWriteLock
from kazoo.retry import ForceRetryError, KazooRetry

from parkazoo.recipe.freshness import catch_up
from parkazoo.recipe.swept import in_folder
from parkazoo.recipe.waits import TimeIsOverError, Waiter
from parkazoo.types.handlers import Handler

MAX_DELAY_S = 1.0


class _TurnLock:
    """Lets one thread or greenlet call `acquire` at a time. Unlike in kazoo's lock, only its holder can release
    it.
    """

    def __init__(self, handler: Handler) -> None:
        self._lock = handler.rlock_object()

    def acquire(self, blocking: bool, timeout: float = -1) -> bool:
        """Acquires it, as :meth:`threading.Lock.acquire`; gevent's takes no -1."""
        return bool(self._lock.acquire(blocking) if timeout < 0 else self._lock.acquire(blocking, timeout))

    def release(self) -> None:
        self._lock.release()

    def end(self) -> None:
        """Releases it as often as this thread or greenlet holds it."""
        with suppress(RuntimeError):
            while True:
                self._lock.release()


class Lock(KazooLock):
    """Replaces kazoo's Lock. Its znode is gone after a failed :meth:`acquire` and after :meth:`release`.

    kazoo tries once to delete it. If the connection is lost at that moment, a contender of a living session stays
    and blocks the lock. Here both wait until the connection is back, or the session has ended. If a signal handler
    or gevent.Timeout interrupts one of them, the caller does not wait: a thread or greenlet deletes the znode.

    If another program deletes the folder, the next :meth:`acquire` makes it again. All contenders go with it, the
    holder's too, so others can have the lock.
    """

    is_acquired: bool
    create_tried: bool
    _tried_in = 0  # the number of the session of the last attempt
    _is_ephemeral = True

    def __init__(self, client: Any, *args: object, **kwargs: object) -> None:
        super().__init__(client, *args, **kwargs)
        self._retry.sleep_func = client.waits.pause
        self._acquire_method_lock = _TurnLock(client.handler)
        self._predecessors: set[str] = set()  # that have our watch

    @property
    def state(self) -> str:
        """Returns the KazooState of the ensemble that holds this lock, whatever the state of the whole client.

        LOST if the client has lost the session in which it acquired the lock.
        """
        return _state_of(self, f"{self.path}/{self.prefix}")

    def acquire(self, blocking: bool = True, timeout: float | None = None, ephemeral: bool = True) -> bool:
        """Acquires the lock, as kazoo's does. After an interruption `is_acquired` says whether it did; if not,
        nothing stays.

        :param timeout: seconds.
        :returns: whether it was acquired.
        :raises LockTimeout: it was not acquired within that time.
        """
        try:
            return bool(super().acquire(blocking, timeout, ephemeral))
        except KazooException:
            raise
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Cleans up after an interrupted :meth:`acquire`."""
        turn = self._acquire_method_lock
        if turn.acquire(blocking=False):  # else another thread's call has taken our contender over
            if self.create_tried and not self.is_acquired:
                self._leave()
            self.client.remove_listener(self._watch_session)
            turn.end()

    def release(self) -> bool:
        """Releases the lock; waits while the connection is lost.

        :returns: whether it was held; False if another program had deleted its znode or its folder.
        """
        node = self.node
        try:
            return release(self)
        except KazooException:
            raise
        except BaseException:
            if self.is_acquired and self.node in (node, None):  # it is not another thread's yet
                self._leave()
            raise

    def _inner_release(self) -> bool:
        if not self.is_acquired:
            return False
        was_there = self._withdraw()
        self.is_acquired = False  # the last of all: another thread may be waiting for it
        return was_there

    def _inner_acquire(self, blocking: bool, timeout: float | None, ephemeral: bool = True) -> bool:
        self._is_ephemeral = ephemeral
        self.client.check_process()  # or a child would wait for a lock that its parent holds
        session = self.client.session_number
        if not self.is_acquired:
            if self._tried_in != session:
                if self.create_tried and ephemeral:
                    self._withdraw()
                if self._tried_in and ephemeral:  # what is left of an earlier session is not found for ours
                    self._rename()
                self._tried_in = session
            self.node = None  # an earlier attempt's: what there is of it is found by its prefix
        with self.client.waits.waking(self.wake_event):
            try:
                is_first = in_folder(self._forget_folder, super()._inner_acquire, blocking, timeout, ephemeral)
            finally:
                while self._predecessors:
                    self.client.withdraw_watch(self._predecessors.pop(), self._watch_predecessor)
        if is_first and ephemeral and self.client.session_number != session:
            raise ForceRetryError
        if is_first:
            self.client.hear_others()
        return bool(is_first)

    def _forget_folder(self) -> None:
        self.assured_path = False

    def _get_predecessor(self, node: str) -> str | None:
        name: str | None = super()._get_predecessor(node)
        if name is not None:
            self._predecessors.add(f"{self.path}/{name}")
        return name

    def _leave(self) -> None:
        """Deletes the znode of an interrupted caller. The next one has another name."""
        left = copy(self)
        self._rename()
        self.node, self.create_tried = None, False
        self.client.handler.spawn(until_gone, self.client, left._withdraw)
        self.is_acquired = False  # the last of all: another thread may be waiting for it

    def _rename(self) -> None:
        self.prefix = uuid.uuid4().hex + self._NODE_NAME
        self.create_path = f"{self.path}/{self.prefix}"

    def _find_node(self) -> str | None:
        """Returns this lock's znode, if there is one, even if this server lags behind the server that made it."""
        catch_up(self.client, self.create_path)
        name: str | None = None
        with suppress(NoNodeError):  # of the folder
            name = super()._find_node()
        return name

    def contenders(self) -> list[str]:
        """Returns the identifiers of the holder and of the waiting contenders, in order."""
        found: list[str] = in_folder(self._forget_folder, super().contenders)
        return found

    def _best_effort_cleanup(self) -> None:
        if self._is_ephemeral and not self.client.may_have_ephemeral(self.create_path):
            self.node, self.create_tried = None, False
            return
        until_gone(self.client, self._withdraw)

    def _withdraw(self) -> bool:
        """Deletes this lock's znode.

        :returns: whether it existed.
        """
        node = self.node or self._find_node()
        was_there = bool(node)
        if node:
            try:
                self._delete_node(node)
            except NoNodeError:
                was_there = False
        self.node = None
        self.create_tried = False
        return was_there


class ReadLock(Lock, KazooReadLock):
    """Replaces kazoo's ReadLock, with the promises of :class:`Lock`."""


class WriteLock(Lock, KazooWriteLock):
    """Replaces kazoo's WriteLock, with the promises of :class:`Lock`."""


class Semaphore(KazooSemaphore):
    """Replaces kazoo's Semaphore. Leaves no lease if :meth:`acquire` fails, and never a watch or a listener.

    If :meth:`acquire` or :meth:`release` is interrupted, a thread or greenlet deletes the lease.

    If another program deletes the folder, the next :meth:`acquire` makes it again. All leases go with it.
    """

    create_path: str
    is_acquired: bool
    _tried_in = 0  # the number of the session of the last attempt
    _is_ephemeral = True

    @property
    def state(self) -> str:
        """See :attr:`Lock.state`."""
        return _state_of(self, self.create_path)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquires a lease, as kazoo's does. After an interruption nothing stays, and `is_acquired` is as before.

        :param timeout: seconds.
        :returns: whether it was acquired.
        :raises LockTimeout: it was not acquired within that time.
        """
        self.cancelled, was_acquired = False, self.is_acquired
        guard = self.client.Lock(self.lock_path, self.data)
        try:
            return self._acquire(blocking, timeout, guard)
        except KazooException:
            raise
        except BaseException:
            if guard.is_acquired:
                guard._leave()
            if not was_acquired:
                self._leave()
            raise

    def _acquire(self, blocking: bool, timeout: float | None, guard: Lock) -> bool:
        waiter = Waiter(self.client, timeout)
        try:
            with self.client.waits.waking(self.wake_event):
                self.is_acquired = waiter.retry(self._acquire_within, blocking, waiter, guard)
        except TimeIsOverError:
            self._best_effort_cleanup()
            raise LockTimeout(f"Failed to acquire semaphore on {self.path} after {timeout} seconds") from None
        except KazooException:
            self._best_effort_cleanup()
            self.cancelled = False
            raise
        finally:
            self.client.remove_listener(self._watch_session)
            self.client.withdraw_watch(self.path, self._watch_lease_change)
        return self.is_acquired

    def _acquire_within(self, blocking: bool, waiter: Waiter, guard: Lock) -> bool:
        return in_folder(self._forget_folder, self._inner_acquire, blocking, waiter.left_s, guard)

    def _forget_folder(self) -> None:
        self.assured_path = False

    def _leave(self) -> None:
        """See :meth:`Lock._leave`."""
        left, self.create_path = self.create_path, f"{self.path}/{uuid.uuid4().hex}"
        self.is_acquired = False
        self.client.handler.spawn(until_gone, self.client, partial(self.client.delete, left))

    def _inner_acquire(self, blocking: bool, timeout: float | None, guard: Lock) -> bool:
        session = self.client.session_number
        if self._tried_in != session:
            if self._tried_in:
                with suppress(NoNodeError):
                    self.client.delete(self.create_path)
            self._tried_in = session
        self._session_expired = False
        self.client.add_listener(self._watch_session)
        if not self.assured_path:
            self._ensure_path()
        is_acquired = bool(self.client.exists(self.create_path)) or self._take_lease(blocking, timeout, guard)
        if is_acquired and self.client.session_number != session:
            raise ForceRetryError
        if is_acquired:
            self.client.hear_others()
        return is_acquired

    def _take_lease(self, blocking: bool, timeout: float | None, guard: Lock) -> bool:
        """Does the rest of kazoo's _inner_acquire, which keeps the guard to itself."""
        waiter = Waiter(self.client, timeout)
        try:
            if not guard.acquire(blocking=blocking, timeout=timeout):
                return False
            while True:
                self.wake_event.clear()
                if self._get_lease():
                    return True
                if not blocking:
                    return False
                self.wake_event.wait(waiter.left_s)
                if not self.wake_event.is_set():
                    raise LockTimeout(f"Failed to acquire semaphore on {self.path} after {timeout} seconds")
        finally:
            guard.release()

    def release(self) -> bool:
        """Releases the lease; waits while the connection is lost.

        :returns: whether it was held; False if another program had deleted it or its folder.
        """
        try:
            return release(self)
        except KazooException:
            raise
        except BaseException:
            if self.is_acquired:
                self._leave()
            raise

    def _inner_release(self) -> bool:
        if not self.is_acquired:
            return False
        was_there = True
        try:
            self.client.delete(self.create_path)
        except NoNodeError:
            was_there = False
        self.is_acquired = False
        return was_there

    def _best_effort_cleanup(self) -> None:
        if self.client.may_have_ephemeral(self.create_path):
            until_gone(self.client, partial(self.client.delete, self.create_path))


def _state_of(recipe: Lock | Semaphore, path: str) -> str:
    if recipe.is_acquired and recipe._tried_in != recipe.client.session_number:
        return str(KazooState.LOST)
    return str(recipe.client.state_of(path))


def release(recipe: Lock | Semaphore) -> bool:
    """Releases a lock or a lease, as often as it takes; once, if its session has ended: then the ensemble deletes
    it.

    :returns: whether it was held. If an answer was lost, or the session has ended, a missing znode counts as
        held.
    """
    attempts = 0
    was_held = recipe.is_acquired

    def has_ended() -> bool:
        return bool(recipe._is_ephemeral and recipe._tried_in != recipe.client.session_number)

    def attempt() -> bool:
        nonlocal attempts
        attempts += 1
        try:
            return bool(recipe._inner_release())
        except ConnectionLoss:
            if not has_ended():
                raise
            recipe.is_acquired = False
            return was_held

    was_there = _forever(recipe.client)(attempt)
    return bool(was_there or (was_held and (attempts > 1 or has_ended())))


def until_gone(client: Any, withdraw: Callable[[], object]) -> None:
    """Calls `withdraw` until it is answered, or the client is stopped."""
    with suppress(KazooException):
        _forever(client)(withdraw)


def _forever(client: Any) -> KazooRetry:
    return KazooRetry(max_tries=-1, max_delay=MAX_DELAY_S, sleep_func=client.waits.pause)
