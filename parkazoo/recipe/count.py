"""The number of znodes below one."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.recipe.tree_walk import TreeNode, TreeWalk


class TreeCount(TreeWalk):
    """Counts the znodes below one: a listing for each. The result is right if nobody makes or deletes any."""

    result = 0

    def take(self, listed: TreeNode | None, answer: Any) -> None:
        assert listed is not None
        if not isinstance(answer, Exception):
            self.result += len(answer)
            self.go_below(listed, answer)
        elif listed is self._root or not isinstance(answer, NoNodeError):
            raise answer
        else:  # deleted meanwhile
            self.result -= 1
