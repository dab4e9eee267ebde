"""kazoo's locks and semaphore, without the contenders that a lost connection makes them leave behind.

A server that shuts down may say that a session has expired which its ensemble still has. So what an attempt has
made in a session that was lost may be there for a while. It is not the next session's, and goes without a LOST.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.recipe.lock import Lock as KazooLock
from kazoo.recipe.lock import ReadLock as KazooReadLock
from kazoo.recipe.lock import Semaphore as KazooSemaphore
from kazoo.recipe.lock import WriteLock as KazooWriteLock
from kazoo.retry import ForceRetryError, KazooRetry

from parkazoo.recipe.freshness import catch_up

MAX_DELAY_S = 1.0


class Lock(KazooLock):
    """kazoo's Lock, whose znode is gone after a failed :meth:`acquire` and after :meth:`release`.

    kazoo tries once to delete it. If the connection is lost just then, a contender of a living session stays and
    blocks the lock. Here both wait until the connection is back, or the session has ended.
    """

    is_acquired: bool
    create_tried: bool
    _tried_in = 0  # the number of the session of the last attempt
    _is_ephemeral = True

    @property
    def state(self) -> str:
        """The KazooState of the ensemble that holds this lock, whatever the state of the client as a whole.

        LOST if the lock was acquired in a session that the client has lost since.
        """
        return _state_of(self, f"{self.path}/{self.prefix}")

    def release(self) -> bool:
        """Release the lock; waits while the connection is lost.

        :returns: whether it was held.
        """
        return bool(_forever(self.client)(self._inner_release))

    def _inner_release(self) -> bool:
        if not self.is_acquired:
            return False
        self._withdraw()
        self.is_acquired = False  # the last of all: another thread may be waiting for it
        return True

    def _inner_acquire(self, blocking: bool, timeout: float | None, ephemeral: bool = True) -> bool:
        self._is_ephemeral = ephemeral
        self.client.check_process()  # or a child would wait for a lock that its parent holds
        session = self.client.session_number
        if not self.is_acquired:
            if self._tried_in != session:
                if self.create_tried and ephemeral:
                    self._withdraw()
                self._tried_in = session
            self.node = None  # an earlier attempt's: what there is of it is found by its prefix
        is_first = bool(super()._inner_acquire(blocking, timeout, ephemeral))
        if is_first and ephemeral and self.client.session_number != session:
            raise ForceRetryError
        return is_first

    def _find_node(self) -> str | None:
        """Our znode, if there is one, even if this server lags behind the one that made it."""
        catch_up(self.client, self.create_path)
        name: str | None = super()._find_node()
        return name

    def _best_effort_cleanup(self) -> None:
        if self._is_ephemeral and not self.client.may_have_ephemeral(self.create_path):
            self.node, self.create_tried = None, False
            return
        with suppress(KazooException):
            _forever(self.client)(self._withdraw)

    def _withdraw(self) -> None:
        node = self.node or self._find_node()
        if node:
            with suppress(NoNodeError):
                self._delete_node(node)
        self.node = None
        self.create_tried = False


class ReadLock(Lock, KazooReadLock):
    """kazoo's ReadLock, with what is said of :class:`Lock`."""


class WriteLock(Lock, KazooWriteLock):
    """kazoo's WriteLock, with what is said of :class:`Lock`."""


class Semaphore(KazooSemaphore):
    """kazoo's Semaphore, which leaves no lease behind when :meth:`acquire` fails, nor a listener in any case."""

    _tried_in = 0  # the number of the session of the last attempt

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
        try:
            return bool(super().acquire(blocking, timeout))
        finally:
            self.client.remove_listener(self._watch_session)

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

        :returns: whether it was held.
        """
        return bool(_forever(self.client)(self._inner_release))

    def _best_effort_cleanup(self) -> None:
        if self.client.may_have_ephemeral(self.create_path):
            with suppress(KazooException):
                _forever(self.client)(self.client.delete, self.create_path)


def _state_of(recipe: Any, path: str) -> str:
    if recipe.is_acquired and recipe._tried_in != recipe.client.session_number:
        return str(KazooState.LOST)
    return str(recipe.client.state_of(path))


def _forever(client: Any) -> Any:
    return KazooRetry(max_tries=-1, max_delay=MAX_DELAY_S, sleep_func=client.handler.sleep_func)
