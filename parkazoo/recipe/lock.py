"""kazoo's locks and semaphore, which leave no contender, watch or listener behind.

A server that shuts down may say that a session has expired which its ensemble still has. So what an attempt has
made in a session that was lost may be there for a while. It is not the next session's, and goes without a LOST.
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

MAX_DELAY_S = 1.0


class Lock(KazooLock):
    """kazoo's Lock, whose znode is gone after a failed :meth:`acquire` and after :meth:`release`.

    kazoo tries once to delete it. If the connection is lost just then, a contender of a living session stays and
    blocks the lock. Here both wait until the connection is back, or the session has ended. If a signal handler or
    gevent.Timeout interrupts :meth:`acquire`, the caller does not wait: a thread or greenlet deletes the znode.

    Another program may delete the folder; the next :meth:`acquire` makes it again. The contenders go with it, that
    of the holder too: others can have the lock then.
    """

    is_acquired: bool
    create_tried: bool
    _tried_in = 0  # the number of the session of the last attempt
    _is_ephemeral = True
    _contends = False  # the call of acquire that is under way has a znode, perhaps

    def __init__(self, client: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(client, *args, **kwargs)
        self._retry.sleep_func = self._pause
        self._predecessors: set[str] = set()  # that have our watch

    @property
    def state(self) -> str:
        """The KazooState of the ensemble that holds this lock, whatever the state of the client as a whole.

        LOST if the lock was acquired in a session that the client has lost since.
        """
        return _state_of(self, f"{self.path}/{self.prefix}")

    def release(self) -> bool:
        """Release the lock; waits while the connection is lost.

        :returns: whether it was held. Not if another program had deleted our znode, or its folder.
        """
        return release(self)

    def _inner_release(self) -> bool:
        if not self.is_acquired:
            return False
        was_there = self._withdraw()
        self.is_acquired = False  # the last of all: another thread may be waiting for it
        return was_there

    def _inner_acquire(self, blocking: bool, timeout: float | None, ephemeral: bool = True) -> bool:
        self._is_ephemeral = ephemeral
        self.client.check_process()  # or a child would wait for a lock that its parent holds
        self._contends = not self.is_acquired
        try:
            return self._contend(blocking, timeout, ephemeral)
        except KazooException:
            raise
        except BaseException:
            self._leave()
            raise

    def _contend(self, blocking: bool, timeout: float | None, ephemeral: bool) -> bool:
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
        return bool(is_first)

    def _forget_folder(self) -> None:
        self.assured_path = False

    def _get_predecessor(self, node: str) -> str | None:
        name: str | None = super()._get_predecessor(node)
        if name is not None:
            self._predecessors.add(f"{self.path}/{name}")
        return name

    def _pause(self, seconds: float) -> None:
        """Between two tries of :meth:`acquire`."""
        try:
            self.client.waits.pause(seconds)
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        """The caller of :meth:`acquire` was interrupted: what it has made goes. The next one has another name."""
        if self._contends:
            self._contends = False
            left = copy(self)
            self._rename()
            self.node, self.create_tried = None, False
            self.client.handler.spawn(until_gone, self.client, left._withdraw)

    def _rename(self) -> None:
        self.prefix = uuid.uuid4().hex + self._NODE_NAME
        self.create_path = f"{self.path}/{self.prefix}"

    def _find_node(self) -> str | None:
        """Our znode, if there is one, even if this server lags behind the one that made it."""
        catch_up(self.client, self.create_path)
        name: str | None = None
        with suppress(NoNodeError):  # of the folder
            name = super()._find_node()
        return name

    def contenders(self) -> list[str]:
        """The identifiers of the holder and of those that wait for it, in order."""
        found: list[str] = in_folder(self._forget_folder, super().contenders)
        return found

    def _best_effort_cleanup(self) -> None:
        if self._is_ephemeral and not self.client.may_have_ephemeral(self.create_path):
            self.node, self.create_tried = None, False
            return
        until_gone(self.client, self._withdraw)

    def _withdraw(self) -> bool:
        """Delete our znode.

        :returns: whether it was there.
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
    """kazoo's ReadLock, with what is said of :class:`Lock`."""


class WriteLock(Lock, KazooWriteLock):
    """kazoo's WriteLock, with what is said of :class:`Lock`."""


class Semaphore(KazooSemaphore):
    """kazoo's Semaphore, which leaves no lease behind when :meth:`acquire` fails, and never a watch or a listener.

    Another program may delete the folder; the next :meth:`acquire` makes it again. Leases go with it.
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
        """As kazoo's.

        :param timeout: seconds.
        :returns: whether it was acquired.
        :raises LockTimeout: it was not within the time.
        """
        self.cancelled, was_acquired = False, self.is_acquired
        waiter = Waiter(self.client, timeout)
        try:
            with self.client.waits.waking(self.wake_event):
                self.is_acquired = waiter.retry(self._acquire_within, blocking, waiter)
        except TimeIsOverError:
            self._best_effort_cleanup()
            raise LockTimeout(f"Failed to acquire semaphore on {self.path} after {timeout} seconds") from None
        except KazooException:
            self._best_effort_cleanup()
            self.cancelled = False
            raise
        except BaseException:
            if not was_acquired:
                self._leave()
            raise
        finally:
            self.client.remove_listener(self._watch_session)
            self.client.withdraw_watch(self.path, self._watch_lease_change)
        return self.is_acquired

    def _acquire_within(self, blocking: bool, waiter: Waiter) -> bool:
        return in_folder(self._forget_folder, self._inner_acquire, blocking, waiter.left_s)

    def _forget_folder(self) -> None:
        self.assured_path = False

    def _leave(self) -> None:
        """See :meth:`Lock._leave`."""
        left, self.create_path = self.create_path, f"{self.path}/{uuid.uuid4().hex}"
        self.is_acquired = False
        self.client.handler.spawn(until_gone, self.client, partial(self.client.delete, left))

    def _inner_acquire(self, blocking: bool, timeout: float | None = None) -> bool:
        session = self.client.session_number
        if self._tried_in != session:
            if self._tried_in:
                with suppress(NoNodeError):
                    self.client.delete(self.create_path)
            self._tried_in = session
        is_acquired = bool(super()._inner_acquire(blocking, timeout))
        if is_acquired and self.client.session_number != session:
            raise ForceRetryError
        return is_acquired

    def release(self) -> bool:
        """Release the lease; waits while the connection is lost.

        :returns: whether it was held. Not if another program had deleted it, or its folder.
        """
        return release(self)

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


def _state_of(recipe: Any, path: str) -> str:
    if recipe.is_acquired and recipe._tried_in != recipe.client.session_number:
        return str(KazooState.LOST)
    return str(recipe.client.state_of(path))


def release(recipe: Any) -> bool:
    """Release a lock or a lease, as often as it takes; once, if its session has ended: then it goes by itself.

    :returns: whether it was held. If an answer was lost, or the session has ended, one that is gone counts.
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


def until_gone(client: Any, withdraw: Callable[[], Any]) -> None:
    """Call `withdraw` until it is answered, or the client is stopped."""
    with suppress(KazooException):
        _forever(client)(withdraw)


def _forever(client: Any) -> Any:
    return KazooRetry(max_tries=-1, max_delay=MAX_DELAY_S, sleep_func=client.waits.pause)
