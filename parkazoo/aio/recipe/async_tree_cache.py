"""kazoo's TreeCache for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState
from kazoo.recipe.cache import NodeData, TreeEvent

from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.tending import Tending
from parkazoo.aio.tree_states import forgetting, later
from parkazoo.recipe.subtree import Subtree
from parkazoo.recipe.tree_reads import TreeReads

log = logging.getLogger(__name__)
ListenerT = TypeVar("ListenerT", bound=Callable[[Any], object])
OF_SESSION = {
    KazooState.SUSPENDED: TreeEvent.CONNECTION_SUSPENDED,
    KazooState.CONNECTED: TreeEvent.CONNECTION_RECONNECTED,
    KazooState.LOST: TreeEvent.CONNECTION_LOST,
}


class AsyncTreeCache:
    """kazoo's TreeCache: ``async with client.TreeCache("/config") as cache`` starts and closes it.

    It has no task: the loop reads, and calls the listeners with kazoo's TreeEvents, one after the other. It goes
    on over lost connections and sessions, while the map grows, and while directories move.
    """

    def __init__(self, client: Tending, path: str) -> None:
        self.client = client
        self._reads = TreeReads(client, path, later, forgetting(client), self._publish_all, ends_with_client=False)
        self.path: str = self._reads.path
        self._listeners: list[Callable[[Any], object]] = []
        self._fault_listeners: list[Callable[[Any], object]] = []
        self._has_started = False
        self._has_closed = False

    async def start(self) -> None:
        """Makes the first znode, if it is missing, and begins to read. INITIALIZED tells of the end of that.

        :raises KazooException: it was started before.
        :raises ConnectionClosedError: the client was stopped.
        """
        if self._has_started or self._has_closed:
            raise KazooException("already closed" if self._has_closed else "already started")
        self._has_started = True
        try:
            await steadily(self.client, lambda: self.client.ensure_path(self.path))
        except BaseException:
            self._has_started = False
            raise
        if not self._has_closed:
            self.client.add_listener(self._listen)
            self._reads.begin()

    async def close(self) -> None:
        """Ends it, and forgets what it has read. It cannot be started again."""
        if not self._has_closed:
            self._has_closed = True
            self.client.remove_listener(self._listen)
            self._reads.end()
            self._reads.subtree = Subtree(self.path, lambda znode, event: None)

    async def __aenter__(self) -> AsyncTreeCache:
        """Starts it, as :meth:`start` does."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        await self.close()

    def listen(self, listener: ListenerT) -> ListenerT:
        """Adds a plain function, which the loop calls with each TreeEvent: a decorator."""
        self._listeners.append(_plain(listener))
        return listener

    def listen_fault(self, listener: ListenerT) -> ListenerT:
        """Adds a plain function, which the loop calls with each exception of a listener, and with the one that
        says why the first znode cannot be read: a decorator. Without one they are logged.
        """
        self._fault_listeners.append(_plain(listener))
        return listener

    def get_data(self, path: str, default: Any = None) -> Any:
        """Returns kazoo's NodeData of a znode: path, data, stat. None if they were not read yet.

        :param default: is returned if the znode does not exist.
        :raises ValueError: the path is outside of the subtree.
        """
        znode = self._reads.subtree.at(path)
        if znode is None:
            return default
        found = self._reads.subtree.found.get(znode.path)
        return None if found is None else NodeData.make(znode.path, *found)

    def get_children(self, path: str, default: Any = None) -> Any:
        """Returns the names of a znode's children, a frozenset.

        :param default: is returned if the znode does not exist.
        :raises ValueError: the path is outside of the subtree.
        """
        znode = self._reads.subtree.at(path)
        return default if znode is None else frozenset(znode.children)

    def _listen(self, state: str) -> None:
        self._publish_soon(OF_SESSION[state], None)
        if state == KazooState.LOST:
            self._reads.read_all()

    def _publish_all(self) -> None:
        for kind, path, found in self._reads.take_changes():
            self._publish_soon(kind, None if found is None else NodeData.make(path, *found))
        failure = self._reads.failure
        if failure is not None:
            self._reads.end()
            self._fail(failure)

    def _publish_soon(self, kind: int, data: Any) -> None:
        """A listener may change what is read: it is called later, in order."""
        asyncio.get_running_loop().call_soon(self._publish, TreeEvent.make(kind, data))

    def _publish(self, event: Any) -> None:
        if self._has_closed:
            return
        for listener in list(self._listeners):
            self._call(listener, event)

    def _call(self, listener: Callable[[Any], object], event: Any) -> None:
        try:
            listener(event)
        except (Exception, asyncio.CancelledError) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        try:
            for listener in self._fault_listeners:
                listener(error)
        except Exception:
            log.exception("%s: a listener to faults has failed", self.path)
        if not self._fault_listeners:
            log.error("%s: a TreeCache has failed", self.path, exc_info=error)


def _plain(listener: ListenerT) -> ListenerT:
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise TypeError("a listener is a plain function, not a coroutine function")
    return listener
