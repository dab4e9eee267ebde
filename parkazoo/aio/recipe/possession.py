"""``async with`` of what is held by a session: a lost session cancels the body."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TypeVar

from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

from parkazoo.aio.tending import Tending

PossessionT = TypeVar("PossessionT", bound="Possession")


class LockLostError(KazooException):
    """Reports that the session has ended while a lock, or a lease of a semaphore, was held."""


class Body:
    """The task in a block. It is cancelled when the session is lost, as :func:`asyncio.timeout` does it.

    :ivar is_lost: the session is.
    """

    def __init__(self, client: Tending) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._client = client
        self._strike: asyncio.Handle | None = None
        self._has_cancelled = False
        client.add_listener(self._told)

    @property
    def is_lost(self) -> bool:
        return self._strike is not None

    def _told(self, state: str) -> None:
        if state == KazooState.LOST and not self.is_lost:  # not here and now: the task itself may be at work
            self._strike = asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        self._has_cancelled = True
        self._task.cancel()

    def end(self) -> bool:
        """Ends it.

        :returns: whether a CancelledError of the body may be ours: nobody else has cancelled the task.
        """
        self._client.remove_listener(self._told)
        if self._strike is not None:
            self._strike.cancel()
        return self._has_cancelled and self._task.uncancel() <= self._before


class Possession:
    """What is acquired, held for a block, and released.

    :ivar path: in the LockLostError.
    """

    client: Tending
    path: str
    _body: Body | None = None

    async def acquire(self, blocking: bool = True) -> bool:
        raise NotImplementedError

    async def release(self) -> bool:
        raise NotImplementedError

    def _let_go(self) -> None:
        """Has it released, if it is held; nobody waits for that."""
        raise NotImplementedError

    async def __aenter__(self: PossessionT) -> PossessionT:
        await self.acquire()
        self._body = Body(self.client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        body, self._body = self._body, None
        assert body is not None
        is_ours = body.end()
        if not body.is_lost:
            await self.release()
            return
        self._let_go()
        if kind is None or (is_ours and issubclass(kind, asyncio.CancelledError)):
            raise LockLostError(f"{self.path}: the session was lost while this was held") from error
