"""A recursive delete that does not wait for each request."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.protocol.placement import join

MOST_IN_FLIGHT = 100


class _Znode:
    __slots__ = ("children", "parent", "path")

    def __init__(self, path: str, parent: _Znode | None) -> None:
        self.path = path
        self.parent = parent
        self.children = 0  # whose delete has not been issued


class TreeDelete:
    """Deletes a tree, as kazoo's ``delete(recursive=True)``: children first; a missing znode is no error.

    An operation sees the earlier operations of its client, so a delete need not wait for the deletes of the
    children: it is issued after them. Memory is needed for the siblings of a path's znodes, as with kazoo.
    """

    def __init__(self, client: Any, path: str) -> None:
        self._client = client
        self._unlisted = [_Znode(path, None)]
        self._in_flight: deque[tuple[_Znode | None, Any]] = deque()  # listings of a znode, and deletes

    def run(self) -> bool | None:
        """:returns: True if there was nothing to delete; None otherwise, as in kazoo.
        :raises: the error of a listing or a delete; then up to MOST_IN_FLIGHT others may have been done.
        """
        (root,) = self._unlisted
        is_missing = False
        while self._unlisted or self._in_flight:
            while self._unlisted and len(self._in_flight) < MOST_IN_FLIGHT:
                znode = self._unlisted.pop()
                self._in_flight.append((znode, self._client.get_children_async(znode.path)))
            listed, result = self._in_flight.popleft()
            if listed is None:
                with suppress(NoNodeError):
                    result.get()
                continue
            try:
                names = result.get()
            except NoNodeError:
                is_missing = listed is root
                self._leave(listed)
                continue
            listed.children = len(names)
            self._unlisted += [_Znode(join(listed.path, name), listed) for name in names]
            if not names:
                self._delete(listed)
        return True if is_missing else None

    def _delete(self, znode: _Znode) -> None:
        self._in_flight.append((None, self._client.delete_async(znode.path)))
        self._leave(znode)

    def _leave(self, znode: _Znode) -> None:
        """Its delete is on its way; if it was the last child, the parent's can follow."""
        parent = znode.parent
        if parent is not None:
            parent.children -= 1
            if not parent.children:
                self._delete(parent)
