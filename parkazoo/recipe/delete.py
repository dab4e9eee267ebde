"""A recursive delete that does not wait for each request."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.recipe.tree_walk import TreeNode, TreeWalk


class TreeDelete(TreeWalk):
    """Deletes a tree, as kazoo's ``delete(recursive=True)``: children first; a missing znode is no error.

    An operation sees the earlier operations of its client, so a delete need not wait for the deletes of the
    children: it is issued after them. Memory is needed for the siblings of a path's znodes, as with kazoo.

    After an error up to MOST_IN_FLIGHT others may have been done. The result is True if there was nothing to
    delete, None otherwise, as in kazoo.
    """

    result: bool | None

    def take(self, listed: TreeNode | None, answer: Any) -> None:
        if isinstance(answer, Exception):
            if not isinstance(answer, NoNodeError):
                raise answer
            if listed is not None:
                self.result = True if listed is self._root else self.result
                self._leave(listed)
        elif listed is not None:
            listed.children = len(answer)
            self.go_below(listed, answer)
            if not answer:
                self._delete(listed)

    def _delete(self, znode: TreeNode) -> None:
        self._in_flight.append((None, self._client.delete_async(znode.path)))
        self._leave(znode)

    def _leave(self, znode: TreeNode) -> None:
        """Its delete is on its way; if it was the last child, the parent's can follow."""
        parent = znode.parent
        if parent is not None:
            parent.children -= 1
            if not parent.children:
                self._delete(parent)
