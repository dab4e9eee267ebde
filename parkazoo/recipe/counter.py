"""A counter that adds once, even if an answer is lost."""

from __future__ import annotations

import struct
from functools import partial

from kazoo.exceptions import BadVersionError, NoNodeError
from kazoo.recipe.counter import Counter as KazooCounter
from kazoo.retry import ForceRetryError

from parkazoo.recipe.exactly_once import retried
from parkazoo.recipe.swept import in_folder


class Counter(KazooCounter):
    """Replaces kazoo's Counter: same methods, same data.

    If the answer to a set is lost, kazoo's reads the value, which may include the addition, and adds again. Here
    ``client.once`` does the set.

    If another program deletes the znode, it is made again and counts from the default.

    :raises SessionExpiredError: the session has ended before an answer. The message says so if the addition may
        have been done.
    """

    def _change(self, value: float) -> Counter:
        if not isinstance(value, self.default_type):
            raise TypeError("invalid type for value change")
        retried(self.client, self._value, partial(self._add, value))
        return self

    def _add(self, value: float, found: tuple[float, int]) -> None:
        """
        :param found: the value that is there, and its version.
        """
        before, version = found
        after = before + value
        data = struct.pack(">i", after) if self.support_curator else repr(after).encode("ascii")
        self.pre_value, self.post_value = before, None
        try:
            self.client.once(self.client.set, self.path, data, version)
        except (BadVersionError, NoNodeError):
            raise ForceRetryError from None
        self.post_value = after

    def _value(self) -> tuple[float, int]:
        found: tuple[float, int] = in_folder(self._forget_node, super()._value)
        return found

    def _forget_node(self) -> None:
        self._ensured_path = False
