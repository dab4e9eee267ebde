"""kazoo's TreeCache, which keeps its watches over a lost connection."""

from __future__ import annotations

from typing import Any

from kazoo.protocol.states import KazooState
from kazoo.recipe.cache import TreeCache as KazooTreeCache
from kazoo.recipe.cache import TreeEvent, TreeNode

from parkazoo.kazoo_private import prefix_root
from parkazoo.protocol.outlasting import outlasting

outlasting(TreeNode._process_watch)  # which ignores NONE


class TreeCache(KazooTreeCache):
    """kazoo's class: same arguments, methods and events.

    When the session goes on after a lost connection, it reads the znodes that have changed meanwhile, and any that
    it does not watch; kazoo's reads all.
    """

    _client: Any
    _root: Any

    def _session_watcher(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._in_background(self._refresh_unwatched)
            self._publish_event(TreeEvent.CONNECTION_RECONNECTED)
        else:
            super()._session_watcher(state)

    def _refresh_unwatched(self) -> None:
        client = self._client
        znodes = [self._root]
        while znodes:
            znode = znodes.pop()
            znodes += znode._children.values()
            path = prefix_root(client.chroot, znode._path)
            if znode._process_watch not in client._data_watchers[path]:
                znode._refresh_data()
            if znode._process_watch not in client._child_watchers[path]:
                znode._refresh_children()
