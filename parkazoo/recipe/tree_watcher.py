"""The states of a znode and of all below it, told to a function of the user's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kazoo.exceptions import KazooException
from kazoo.protocol.states import Callback

from parkazoo.recipe.subtree import Found
from parkazoo.recipe.tree_reads import TreeReads

log = logging.getLogger(__name__)
FuncT = TypeVar("FuncT", bound=Callable[[Mapping[str, Found]], object])


class TreeWatcher:
    """Calls ``func(state)`` once the whole subtree was read, and after changes, where watches are called.

    A state is a new dict: value and stat by path, of each znode that exists and may be read; empty if none does.
    It is not of one moment: each znode is read, with one watch for its data and its children, up to a hundred at
    a time, again after each event, and after a lost connection if it has changed meanwhile. So the newest state
    always comes; between two that come, others may have been. That holds while the map grows, and while
    directories move. The stat's `numChildren` may be older than the state.

    It ends when `func` returns False, by :meth:`close`, or with an error in the log if the first znode may not be
    read. Like a DataWatch it goes on when the client is stopped and started again.
    """

    def __init__(self, client: Any, path: str, func: Callable[[Mapping[str, Found]], object] | None) -> None:
        self._client = client
        self._func = func
        self._reads = TreeReads(
            client, path, client.call_later, client.withdraw_watch, self._changed, ends_with_client=False
        )
        self._seen = -1  # the number of changes at the last call
        self._is_called = False
        if func is not None:
            self._reads.begin()

    def __call__(self, func: FuncT) -> FuncT:
        """Begins: it is a decorator."""
        if self._func is not None:
            raise RuntimeError("this has a function already")
        self._func = func
        self._reads.begin()
        return func

    def close(self) -> None:
        """Ends it. A call under way goes on."""
        self._reads.end()

    def _changed(self) -> None:
        """Has the function called, at most once at a time."""
        self._reads.take_changes()
        if not self._is_called and (self._reads.failure is not None or self._reads.is_newer(self._seen)):
            self._is_called = True
            self._client.handler.dispatch_callback(Callback("watch", self._call, ()))

    def _call(self) -> None:
        self._is_called = False
        try:
            state = self._reads.snapshot()
        except KazooException as error:
            log.error("%s: a tree cannot be read: %r", self._reads.path, error)
            self.close()
            return
        if state is None or state[0] == self._seen or not self._reads.is_active:
            return
        assert self._func is not None
        self._seen = state[0]
        try:
            if self._func(state[1]) is False:
                self.close()
        except Exception:
            log.exception("%s: the function of watch_tree has failed", self._reads.path)
