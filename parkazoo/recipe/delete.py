"""A recursive delete that does not wait for each request."""

from __future__ import annotations

from collections import deque
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
        self._root = _Znode(path, None)
        self._unlisted = [self._root]
        self._in_flight: deque[tuple[_Znode | None, Any]] = deque()  # listings of a znode, and deletes
        self._listed: _Znode | None = self._root  # what the next answer lists; None: it is a delete's
        self.result: bool | None = None
        """At the end: True if there was nothing to delete; None otherwise, as in kazoo."""

    def run(self) -> bool | None:
        """:returns: the result.
        :raises: the error of a listing or a delete; then up to MOST_IN_FLIGHT others may have been done.
        """
        issued = self.next(None)
        while issued is not None:
            answer: object
            try:
                answer = issued.get()
            except Exception as error:
                answer = error
            issued = self.next(answer)
        return self.result

    def next(self, answer: object) -> Any:
        """Goes on.

        :param answer: to the last of what this has returned, perhaps an exception; None at first.
        :returns: what to wait for next; None at the end.
        :raises: see :meth:`run`.
        """
        if answer is not None:
            self._take(answer)
        while self._unlisted and len(self._in_flight) < MOST_IN_FLIGHT:
            znode = self._unlisted.pop()
            self._in_flight.append((znode, self._client.get_children_async(znode.path)))
        if not self._in_flight:
            return None
        self._listed, issued = self._in_flight.popleft()
        return issued

    def issued(self) -> list[Any]:
        """What nobody has waited for yet."""
        return [issued for _, issued in self._in_flight]

    def _take(self, answer: object) -> None:
        listed = self._listed
        if isinstance(answer, Exception):
            if not isinstance(answer, NoNodeError):
                raise answer
            if listed is not None:
                self.result = True if listed is self._root else self.result
                self._leave(listed)
        elif listed is not None:
            names: Any = answer
            listed.children = len(names)
            self._unlisted += [_Znode(join(listed.path, name), listed) for name in names]
            if not names:
                self._delete(listed)

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
