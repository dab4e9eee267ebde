"""What a session holds by a znode: ``async with`` acquires it, and a lost session cancels the body."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TypeVar

from kazoo.exceptions import KazooException, NoNodeError

from parkazoo.aio.recipe.own_znode import OwnZnode
from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.recipe.task_turns import TaskTurns
from parkazoo.aio.tending import Tending
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path

PossessionT = TypeVar("PossessionT", bound="Possession")


class LockLostError(KazooException):
    """Reports that the session has ended while a lock, or a lease of a semaphore, was held."""


class Body:
    """The task in a block. It is cancelled when the session is lost, as :func:`asyncio.timeout` does it.

    :ivar task: the task. :ivar held: that it holds. :ivar is_lost: the session is.
    """

    def __init__(self, client: Tending, held: object = None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.held = held
        self._before = task.cancelling()
        self._client = client
        self._strike: asyncio.Handle | None = None
        self._has_cancelled = False
        client.losses.add(self._lose)

    @property
    def is_lost(self) -> bool:
        return self._strike is not None

    def _lose(self) -> None:
        if not (self.is_lost or self.task.get_loop().is_closed()):  # not now: the task itself may be at work
            self._strike = asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        self._has_cancelled = True
        self.task.cancel()

    def let_go(self) -> None:
        """It holds nothing that a lost session could take."""
        self._client.losses.discard(self._lose)

    def end(self, path: str, kind: type[BaseException] | None, error: BaseException | None) -> None:
        """Ends it.

        :param path: of what it holds. :param kind: of what the body raises, if it does.
        :raises LockLostError: the session is lost, unless the body raises an error of its own, or somebody else
            has cancelled the task.
        """
        self.let_go()
        if self._strike is None:
            return
        self._strike.cancel()
        is_ours = self._has_cancelled and self.task.uncancel() <= self._before
        if kind is None or (is_ours and issubclass(kind, asyncio.CancelledError)):
            raise LockLostError(f"{path}: the session was lost while this was held") from error


class Possession:
    """What is acquired, held by its own znode for a block, and released.

    :ivar path: of the folder. :ivar data: of its own znode.
    """

    def __init__(self, client: Tending, path: str, identifier: str | None) -> None:
        check_path(path)
        self.client = client
        self.path: str = normpath(path)
        self.data = str(identifier or "").encode()
        self._turns = TaskTurns()
        self._held: OwnZnode | None = None
        self._bodies: tuple[Body, ...] = ()  # of several tasks, if one has released it in its block

    def _new(self) -> OwnZnode:
        """A znode for an attempt; it is not made yet."""
        raise NotImplementedError

    async def _try(self, own: OwnZnode, blocking: bool) -> bool:
        """Whether it holds it by this znode; if `blocking`, it waits for that.

        :raises NoNodeError: another program has deleted the znode, or the folder.
        """
        raise NotImplementedError

    @property
    def is_acquired(self) -> bool:
        """Whether this holds it, in the client's present session."""
        return self._held is not None and self._held.is_of_now

    async def acquire(self, blocking: bool = True) -> bool:
        """Acquires it; waits also while the connection is lost. :func:`asyncio.timeout` limits that.

        :param blocking: whether to wait for other holders.
        :returns: whether it was acquired.
        :raises ConnectionClosedError: the client was stopped.
        """
        self.client.verify_here()
        if self._turns.is_taken and not blocking:
            return False
        await self._turns.take()
        try:
            self._held = await self._contend(blocking)
        finally:
            if self._held is None:
                self._turns.give()
        if self._held is None:
            return False
        self.client.hear_others()
        return True

    async def _contend(self, blocking: bool) -> OwnZnode | None:
        """From the last answer to the end there is no suspension, at which a cancellation could lose it."""
        own = self._new()

        async def attempt() -> bool:
            nonlocal own
            while True:
                if not own.is_of_now:
                    self.client.own(own.withdraw())
                    own = self._new()
                try:
                    has_it = await self._try(own, blocking)
                except NoNodeError:
                    self.client.own(own.withdraw())
                    own = self._new()
                else:
                    if not has_it or own.is_of_now:
                        return has_it

        try:
            if await steadily(self.client, attempt):
                return own
        except BaseException:
            self.client.own(own.withdraw())
            raise
        await self.client.finish(own.withdraw())
        return None

    async def release(self) -> bool:
        """Releases it. If it is cancelled, it goes on by itself, also while the connection is lost.

        :returns: whether it was held until now: its znode was there, and its session.
        """
        self.client.verify_here()
        held = self._give_up()
        return held is not None and bool(await self.client.finish(held.withdraw()))

    def _let_go(self) -> None:
        """Has it released, if it is held; nobody waits for that."""
        if (held := self._give_up()) is not None:
            self.client.own(held.withdraw())

    def _give_up(self) -> OwnZnode | None:
        """The next task's znode comes behind."""
        held, self._held = self._held, None
        if held is not None:
            for body in self._bodies:
                if body.held is held:
                    body.let_go()
            self._turns.give()
        return held

    async def __aenter__(self: PossessionT) -> PossessionT:
        await self.acquire()
        self._bodies += (Body(self.client, self._held),)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        body = ([each for each in self._bodies if each.task is task] or self._bodies)[-1]
        self._bodies = tuple(each for each in self._bodies if each is not body)
        is_held = self._held is body.held  # else it was released in the block, and may be another task's
        if is_held and body.is_lost:
            self._let_go()
        body.end(self.path, kind, error)
        if is_held and not body.is_lost:
            await self.release()
