"""What recipes need of the asyncio client, beside its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from parkazoo.aio.async_calls import AsyncCalls

if TYPE_CHECKING:
    from parkazoo.aio.recipe.listing import SharedListings
    from parkazoo.engine.session import Session
    from parkazoo.protocol.cluster_map import ClusterMap
    from parkazoo.types.client import Listener
    from parkazoo.wire.member import Member

T = TypeVar("T")


class Tending(AsyncCalls):
    """Has a client's changes and its cleanups.

    :ivar session_number: of its session. Ephemerals of earlier ones may exist, but are not this one's.
    :ivar losses: called when the session is lost. :ivar listings: of contenders' folders.
    """

    auth_data: set[tuple[str, str]]
    listings: SharedListings
    session_number = 0
    _loop: asyncio.AbstractEventLoop | None = None  # while the client runs
    _session: Session[Member] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._changes: set[asyncio.Future[None]] = set()  # who waits for a change of the session
        self.losses: set[Callable[[], None]] = set()
        self._cleanups: set[asyncio.Task[Any]] = set()

    @property
    def connected(self) -> bool:
        """Returns whether the client is connected."""
        raise NotImplementedError

    def add_listener(self, listener: Listener) -> None:
        """Adds a plain function, which the loop calls with each new KazooState."""
        raise NotImplementedError

    def remove_listener(self, listener: Listener) -> None:
        """Removes a listener, if it is one."""
        raise NotImplementedError

    async def known_map(self) -> ClusterMap:
        """The client's map; waits for it while the client connects."""
        while self._session is None or self._session.roster.cluster_map is None:
            await self.exists("/")
        return self._session.roster.cluster_map

    def hear_others(self) -> None:
        """Reads from now on show what other clients have done until now, on each ensemble.

        A recipe calls it when another client has let it go on.
        """
        if self._session is not None and self._session.driver is not None:
            self._session.driver.context.past.distrust()

    def wake(self) -> None:
        """The session has changed, or one of its members."""
        for change in self._changes:
            if not change.done():
                change.set_result(None)

    def lose(self) -> None:
        """The session is lost: whoever holds something by it hears of that before anyone else."""
        for tell in list(self.losses):
            tell()

    async def changed(self, timeout_s: float | None) -> bool:
        """Whether the session changes within that time."""
        change = self._new_future()
        self._changes.add(change)
        try:
            return bool((await asyncio.wait([change], timeout=timeout_s))[0])
        finally:
            self._changes.discard(change)

    def verify_here(self) -> None:
        """
        :raises RuntimeError: the client runs on another loop.
        """
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the client runs on another event loop, and only that may use it")

    def own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Has work done that goes on when its caller is cancelled. It ends with the session at the latest.

        :returns: None if the client does not run: then there is nothing to do.
        :raises RuntimeError: the client runs on another loop.
        """
        if self._loop is None or self._loop.is_closed():
            work.close()
            return None
        try:
            self.verify_here()
        except RuntimeError:
            work.close()
            raise
        task = self._loop.create_task(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Does such work, and waits for it. None if the client does not run."""
        task = self.own(work)
        if task is None:
            return None
        done: T = await answer(task)
        return done

    async def cleaned(self) -> None:
        """Waits for the cleanups, at the end of the session."""
        if self._cleanups:
            await asyncio.wait(self._cleanups)


async def answer(issued: asyncio.Future[T]) -> T:
    """Waits for what may leave something behind. A cancellation does not reach it."""
    issued.add_done_callback(look)
    if not issued.done():
        ended: asyncio.Future[None] = issued.get_loop().create_future()
        issued.add_done_callback(partial(_end, ended))
        await ended  # asyncio.wait takes more memory; shield, from 3.14 on, logs what follows a cancellation
    return issued.result()


def _end(ended: asyncio.Future[None], _: object) -> None:
    if not ended.done():
        ended.set_result(None)


def look(issued: asyncio.Future[Any]) -> None:
    """Perhaps nobody else looks at its exception."""
    if not issued.cancelled():
        issued.exception()
