"""A walk through a tree that does not wait for each request."""

from __future__ import annotations

from collections import deque
from typing import Any

from parkazoo.protocol.placement import join

MOST_IN_FLIGHT = 100


class TreeNode:
    """A znode of the tree.

    :ivar children: those that are still to be done.
    """

    __slots__ = ("children", "parent", "path")

    def __init__(self, path: str, parent: TreeNode | None) -> None:
        self.path = path
        self.parent = parent
        self.children = 0


class TreeWalk:
    """Lists a znode and all below it, in any order, up to MOST_IN_FLIGHT requests at a time.

    :ivar result: at the end.
    """

    result: Any = None

    def __init__(self, client: Any, path: str) -> None:
        self._client = client
        self._root = TreeNode(path, None)
        self._unlisted = [self._root]
        self._in_flight: deque[tuple[TreeNode | None, Any]] = deque()  # listings of a znode, and other requests
        self._listed: TreeNode | None = self._root  # what the next answer lists; None: it is another request's

    def run(self) -> Any:
        """:returns: the result.
        :raises: the error of a request.
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
            self.take(self._listed, answer)
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

    def take(self, listed: TreeNode | None, answer: Any) -> None:
        """Takes an answer, perhaps an exception.

        :param listed: what it lists; None: it is another request's.
        """
        raise NotImplementedError

    def go_below(self, znode: TreeNode, names: list[str]) -> None:
        """The children of a znode are next."""
        self._unlisted += [TreeNode(join(znode.path, name), znode) for name in names]
