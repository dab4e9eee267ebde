"""A tree in memory behind kazoo's asynchronous calls; its answers come in any order, and connections are lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from parkazoo.admin.transfer.in_order import Around, creates_of
from parkazoo.admin.transfer.systems import System
from parkazoo.admin.transfer.window import Window
from parkazoo.protocol.placement import join, split
from parkazoo.types import ZnodeStat


class CutOffError(Exception):
    """The test's interruption."""


class Znode:
    def __init__(self, data: bytes | None, acl: Sequence[ACL], zxid: int) -> None:
        self.data = data
        self.acl = list(acl)
        self.zxid = self.mzxid = zxid
        self.aversion = self.creates = 0
        self.owner = 0
        self.names: set[str] = set()


class FakeTree:
    """
    :param lost: the share of requests whose connection is lost; half of them are done.
    :param writes_left: after so many writes the next raises CutOffError; None: never.
    :ivar most_under_way: requests without an answer.
    """

    def __init__(self, seed: int = 0, lost: float = 0.0) -> None:
        self.chance = random.Random(seed)
        self.lost = lost
        self.writes_left: int | None = None
        self.writes = self.zxid = self.most_under_way = 0
        self.unreadable: set[str] = set()
        self.reserved: set[str] = set()
        self.znodes = {"/": Znode(b"", OPEN_ACL_UNSAFE, 0)}
        self.members: dict[str, FakeTree] = {}
        self.chroot = ""
        self._pending: list[Callable[[], None]] = []

    # ---- what a test does ----------------------------------------------------------------------

    def make(
        self, path: str, data: bytes | None = b"", acl: Sequence[ACL] = OPEN_ACL_UNSAFE, owner: int = 0
    ) -> None:
        parent, name = split(path)
        if parent not in self.znodes:
            raise NoNodeError
        if path in self.znodes:
            raise NodeExistsError
        self.zxid += 1
        self.znodes[path] = Znode(data, acl, self.zxid)
        self.znodes[path].owner = owner
        self.znodes[parent].names.add(name)
        self.znodes[parent].creates += 1

    def remove(self, path: str) -> None:
        parent, name = split(path)
        del self.znodes[path]
        self.znodes[parent].names.remove(name)

    def content(self) -> dict[str, tuple[bytes | None, list[ACL], int]]:
        return {path: (each.data, each.acl, each.creates) for path, each in self.znodes.items()}

    def system(self) -> System:
        around = Around(
            lambda path, stat: creates_of(stat), lambda path: path == "/zookeeper", self.reserved.__contains__
        )
        return System(self, around, "fake", self._make_above)

    def end_connections(self) -> None:
        """No answer comes any more."""
        self._pending.clear()

    def answer_one(self) -> None:
        if self._pending:
            self._pending.pop(self.chance.randrange(len(self._pending)))()

    # ---- what the code under test calls --------------------------------------------------------

    def exists(self, path: str) -> ZnodeStat | None:
        return self._stat(path) if path in self.znodes else None

    def ensure_path(self, path: str) -> None:
        for at in range(1, len(path) + 1):
            if path[at : at + 1] in ("/", "") and path[:at] not in self.znodes:
                self.make(path[:at])

    def get_async(self, path: str) -> Result:
        return self._read(path, lambda znode: (znode.data, self._stat(path)))

    def get_acls_async(self, path: str) -> Result:
        return self._read(path, lambda znode: (list(znode.acl), self._stat(path)))

    def get_children_async(self, path: str, include_data: bool) -> Result:
        assert include_data
        return self._read(path, lambda znode: ([*znode.names], self._stat(path)))

    def exists_async(self, path: str) -> Result:
        return self._read(path, lambda znode: self._stat(path))

    def sync_async(self, path: str) -> Result:
        return self._read(path, lambda znode: path)

    def create_async(self, path: str, data: bytes | None, acl: Sequence[ACL]) -> Result:
        return self._write(lambda: self.make(path, data, acl))

    def set_async(self, path: str, data: bytes | None) -> Result:
        return self._write(lambda: self._set(path, data))

    def set_acls_async(self, path: str, acl: Sequence[ACL]) -> Result:
        return self._write(lambda: self._set_acls(path, acl))

    def transaction(self) -> FakeTransaction:
        return FakeTransaction(self)

    def commit(self, operations: Sequence[Callable[[], None]]) -> Result:
        return self._write(lambda: [operation() for operation in operations])

    def _make_above(self, path: str) -> Result:
        return self._write(lambda: self.ensure_path(split(path)[0]))

    def _set(self, path: str, data: bytes | None) -> None:
        self.zxid += 1
        self.znodes[path].data, self.znodes[path].mzxid = data, self.zxid

    def _set_acls(self, path: str, acl: Sequence[ACL]) -> None:
        self.znodes[path].acl = list(acl)
        self.znodes[path].aversion += 1

    def _stat(self, path: str) -> ZnodeStat:
        znode = self.znodes[path]
        count = len(znode.names)
        cversion = 2 * znode.creates - count
        return ZnodeStat(
            znode.zxid,
            znode.mzxid,
            0,
            0,
            0,
            cversion,
            znode.aversion,
            znode.owner,
            len(znode.data or b""),
            count,
            0,
        )

    def _read(self, path: str, look: Callable[[Znode], Any]) -> Result:
        if self.chance.random() < self.lost:
            return Result(self, ConnectionLoss())
        if path not in self.znodes:
            return Result(self, NoNodeError())
        return Result(self, NoAuthError() if path in self.unreadable else look(self.znodes[path]))

    def _write(self, do: Callable[[], Any]) -> Result:
        if self.writes_left is not None:
            if not self.writes_left:
                raise CutOffError
            self.writes_left -= 1
        self.writes += 1
        is_lost = self.chance.random() < self.lost
        if is_lost and self.chance.random() < 0.5:
            return Result(self, ConnectionLoss())
        try:
            answer = do()
        except (NoNodeError, NodeExistsError) as error:
            answer = error
        return Result(self, ConnectionLoss() if is_lost else answer)

    def delay(self, call: Callable[[], None]) -> None:
        self._pending.append(call)
        self.most_under_way = max(self.most_under_way, len(self._pending))


class FakeTransaction:
    def __init__(self, tree: FakeTree) -> None:
        self._tree = tree
        self._operations: list[Callable[[], None]] = []

    def create(self, path: str) -> None:
        self._operations.append(lambda: self._tree.make(path))

    def delete(self, path: str) -> None:
        self._operations.append(lambda: self._tree.remove(path))

    def commit_async(self) -> Result:
        return self._tree.commit(self._operations)


class Result:
    """What a call has returned; the answer comes when the test lets it."""

    def __init__(self, tree: FakeTree, answer: Any) -> None:
        self._tree = tree
        self.exception = answer if isinstance(answer, Exception) else None
        self.value = answer

    def rawlink(self, callback: Callable[[Result], None]) -> None:
        self._tree.delay(lambda: callback(self))


class FakeWindow(Window):
    """Has an answer come whenever one is waited for.

    :raises AssertionError: none can come: the code under test would hang.
    """

    tree: FakeTree

    def wait(self) -> None:
        self.tree.answer_one()
        assert self._lost or not self._answers.empty(), "nothing is under way, and nothing is to be sent again"
        super().wait()


def window_of(tree: FakeTree) -> Callable[[float], FakeWindow]:
    """In Window's place: a window whose answers the tree gives."""

    def make(timeout_s: float) -> FakeWindow:
        tree.end_connections()
        window = FakeWindow(timeout_s)
        window.tree = tree
        return window

    return make


def fill(tree: FakeTree, root: str, paths: Sequence[str]) -> None:
    """Makes the paths with what is above them."""
    tree.ensure_path(root)
    for path in paths:
        at = root
        for name in path.split("/"):
            at = join(at, name)
            if at not in tree.znodes:
                tree.make(at, at.encode()[-3:])
