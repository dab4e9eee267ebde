"""Reads a subtree in the order of a file, with many requests under way and a bounded part of it in memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.admin.transfer.export_file import (
    COUNTER,
    Entry,
    Key,
    MovedCounter,
    Record,
    Unread,
    path_of,
)
from parkazoo.admin.transfer.window import Window
from parkazoo.admin.walk import NAMES_HELD, UNDER_WAY
from parkazoo.protocol.rights import is_masked
from parkazoo.types import ZnodeStat

HELD = 1000  # znodes read ahead; with more, only the next directory in turn is read further
BYTES_HELD = 1 << 25
AHEAD = 128  # of a directory's children, then
AHEAD_OF_LARGE = 8  # with more bytes or names than that
Creates = Callable[[str, ZnodeStat], int]


class Around(NamedTuple):
    """What the walk is told of the system that it reads.

    :param creates: how many children a directory ever had, by its path and stat.
    :param is_left_out: whether a path belongs to the system, and is no user's znode.
    :param is_reserved: whether it is a user's, but of a name that ParKazoo reserves.
    """

    creates: Creates
    is_left_out: Callable[[str], bool]
    is_reserved: Callable[[str], bool]


def creates_of(stat: ZnodeStat) -> int:
    """How many children were ever created, by the stat: cversion counts creates and deletes.

    Rounded up: the root's counts a child that its number of children does not have.
    """
    return (stat.cversion + stat.numChildren + 1) % COUNTER // 2


class _Rest:
    """Children of a directory that are not read yet, in order.

    :ivar ahead: of those that are, how many are still held.
    """

    __slots__ = ("ahead", "key", "names")

    def __init__(self, key: Key, names: list[str]) -> None:
        self.key = key
        self.names = names  # the next is the last
        self.ahead = 0

    @property
    def next(self) -> Key:
        return (*self.key, self.names[-1])


class _Node:
    """A znode that is read, or being read.

    :ivar found: None: it is gone, or was told before.
    """

    __slots__ = ("answers", "found", "is_read", "key", "path", "rest")

    def __init__(self, key: Key, path: str, rest: _Rest | None) -> None:
        self.key = key
        self.path = path
        self.rest = rest
        self.answers: list[Any] = []
        self.found: Entry | MovedCounter | None = None
        self.is_read = False

    @property
    def size(self) -> int:
        return len(self.found.data or b"") if isinstance(self.found, Record) else 0


class InOrder:
    """Iterates over a subtree.

    A znode's data and ACL are of one moment, a directory's counter of the moment of its listing; the tree is not
    of one moment. Znodes that come or go meanwhile may be there or not, each under a parent that is.

    :param after: where to go on, a znode that may have children. All before it are left out; of itself and of
        those above it there is the counter alone, which may have moved.
    """

    def __init__(self, client: Any, window: Window, root: str, around: Around, after: Key | None = None) -> None:
        self._client = client
        self._window = window
        self._root = root
        self._around = around
        self._after = after
        self._rests: list[tuple[Key, int, _Rest]] = []
        self._nodes: list[tuple[Key, int, _Node]] = []
        self._reading = 0
        self._bytes = 0
        self._names = 0
        self._largest = 0
        self._read((), None)

    def __iter__(self) -> Iterator[Entry | MovedCounter]:
        while self._nodes or self._rests:
            self._start_more()
            if self._nodes and self._nodes[0][2].is_read and not self._comes_before():
                node = heapq.heappop(self._nodes)[2]
                self._bytes -= node.size
                if node.rest is not None:
                    node.rest.ahead -= 1
                if node.found is not None:
                    yield node.found
            else:
                self._window.wait()

    def _comes_before(self) -> bool:
        """Whether a znode that is not read yet comes before all that are."""
        return bool(self._rests) and self._rests[0][0] < self._nodes[0][0]

    def _start_more(self) -> None:
        while self._rests and self._reading < UNDER_WAY:
            is_light = self._bytes + self._reading * self._largest < BYTES_HELD and self._names < NAMES_HELD
            _, _, rest = self._rests[0]
            is_full = not is_light or len(self._nodes) >= HELD
            if is_full and rest.ahead >= (AHEAD if is_light else AHEAD_OF_LARGE):
                return
            heapq.heappop(self._rests)
            key = rest.next
            rest.names.pop()
            self._names -= 1
            rest.ahead += 1
            if rest.names:
                heapq.heappush(self._rests, (rest.next, 0, rest))
            self._read(key, rest)

    def _read(self, key: Key, rest: _Rest | None) -> None:
        node = _Node(key, path_of(key, self._root), rest)
        heapq.heappush(self._nodes, (key, 0, node))
        if self._around.is_left_out(node.path):
            node.is_read = True
        elif self._around.is_reserved(node.path):
            node.is_read = True
            if not self._was_told(node):
                node.found = Unread(node.path, "its name is reserved for ParKazoo")
        else:
            self._reading += 1
            self._ask(node)

    def _ask(self, node: _Node) -> None:
        node.answers.clear()
        self._window.read(partial(self._client.get_async, node.path), partial(self._take, node))
        self._window.read(partial(self._client.get_acls_async, node.path), partial(self._take, node))

    def _take(self, node: _Node, answer: Any) -> None:
        node.answers.append(answer)
        if len(node.answers) < 2:
            return
        for each in node.answers:
            if isinstance(each, Exception):
                self._refused(node, each)
                return
        (data, stat), (acl, acl_stat) = sorted(node.answers, key=lambda each: isinstance(each[0], list))
        if (stat.czxid, stat.aversion) != (acl_stat.czxid, acl_stat.aversion):
            self._ask(node)  # the ACL has changed in between
            return
        if is_masked(acl):
            self._refused(node, NoAuthError("the servers hide the digests of its ACL: it takes the ADMIN right"))
            return
        node.found = Record(node.path, data, tuple(acl), 0, stat.mzxid, stat.aversion, stat.ephemeralOwner != 0)
        self._largest = max(self._largest, node.size)
        self._bytes += node.size
        if node.found.is_ephemeral:
            self._end(node)
        elif stat.numChildren:
            self._window.read(
                partial(self._client.get_children_async, node.path, include_data=True), partial(self._list, node)
            )
        else:
            self._list(node, ([], stat))

    def _list(self, node: _Node, answer: Any) -> None:
        if isinstance(answer, Exception):
            self._bytes -= node.size
            self._refused(node, answer)
            return
        names, stat = answer
        assert isinstance(node.found, Record)
        node.found = node.found._replace(creates=self._around.creates(node.path, stat))
        self._end(node, self._still(node.key, names))

    def _still(self, key: Key, names: list[str]) -> list[str]:
        """The names that are not left out, the next one last."""
        after = self._after
        if after is not None and key == after[: len(key)] and len(key) < len(after):
            names = [name for name in names if name >= after[len(key)]]
        return sorted(names, reverse=True)

    def _refused(self, node: _Node, error: Exception) -> None:
        node.found = None
        if isinstance(error, NoAuthError):
            node.found = Unread(node.path, str(error) or "no right to read it")
        elif not isinstance(error, NoNodeError):  # it is gone meanwhile
            raise error
        self._end(node)

    def _was_told(self, node: _Node) -> bool:
        return self._after is not None and node.key <= self._after

    def _end(self, node: _Node, names: list[str] | None = None) -> None:
        self._reading -= 1
        node.is_read = True
        if self._was_told(node):
            self._bytes -= node.size
            found, node.found = node.found, None
            if isinstance(found, Record) and not found.is_ephemeral:
                node.found = MovedCounter(found.path, found.creates)
        if names:
            self._names += len(names)
            rest = _Rest(node.key, names)
            heapq.heappush(self._rests, (rest.next, 0, rest))
