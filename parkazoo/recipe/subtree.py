"""What is known of a znode and of all below it, and which reads would say more. Pure: somebody else makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent
from kazoo.recipe.cache import TreeEvent

from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.placement import join
from parkazoo.types.znodes import Watch, ZnodeStat

DATA, NAMES, PRESENCE = "data", "names", "presence"  # of a read: get, get_children, exists
MOST_READS = 100  # at a time
Found = tuple[bytes, ZnodeStat]
Change = tuple[int, "str | None", "Found | None"]  # a type of kazoo's TreeEvent; path and data


@outlasting
class TreeZnode:
    """A znode of the subtree, and the watch on its data and its children.

    :ivar children: by name.
    """

    __slots__ = ("_tell", "children", "name", "parent", "path")

    def __init__(self, path: str, name: str, parent: TreeZnode | None, tell: Any) -> None:
        self.path = path
        self.name = name
        self.parent = parent
        self.children: dict[str, TreeZnode] = {}
        self._tell = tell

    def __call__(self, event: WatchedEvent) -> None:
        self._tell(self, event)


class TreeRead:
    """A read of a znode, with that as its watch.

    :ivar is_outdated: something was told since it was issued: it is made again.
    """

    __slots__ = ("is_outdated", "kind", "znode")

    def __init__(self, znode: TreeZnode, kind: str) -> None:
        self.znode = znode
        self.kind = kind
        self.is_outdated = False


class Subtree:
    """Grows by answers, and follows what watches tell.

    :param tell: called with a znode and an event, when its watch is called.
    :ivar found: value and stat of each znode that exists, by path; those that may not be read are left out.
    :ivar count: of the changes of :attr:`found`.
    :ivar is_whole: each znode was read.
    :ivar changes: since they were taken.
    :ivar left: paths and watches that are to be forgotten.
    :ivar failure: why the first znode cannot be read.
    """

    def __init__(self, path: str, tell: Any) -> None:
        self.found: dict[str, Found] = {}
        self.count = 0
        self.is_whole = False
        self.changes: list[Change] = []
        self.left: list[tuple[str, Watch]] = []
        self.failure: Exception | None = None
        self._tell = tell
        self._root = TreeZnode(path, "", None, tell)
        self._due: dict[tuple[TreeZnode, str], None] = {}
        self._in_flight: dict[tuple[TreeZnode, str], TreeRead] = {}
        self._lost: dict[tuple[TreeZnode, str], None] = {}
        self._unread: set[tuple[TreeZnode, str]] = set()  # until it is whole
        self.read_all()

    # ---- reads -----------------------------------------------------------------------------------

    def next(self) -> TreeRead | None:
        """A read that is to be made now."""
        if not self._due or len(self._in_flight) >= MOST_READS:
            return None
        key = next(iter(self._due))
        del self._due[key]
        self._in_flight[key] = read = TreeRead(*key)
        return read

    def take(self, read: TreeRead, answer: Any) -> None:
        """Takes the answer to a read, perhaps an exception."""
        znode, key = read.znode, (read.znode, read.kind)
        self._in_flight.pop(key, None)
        if not self._is_here(znode):
            self.left.append((znode.path, znode))
            return
        if isinstance(answer, NoNodeError):
            self._remove(znode)
        elif isinstance(answer, Exception):
            self._refuse(read, answer)
        elif read.kind == DATA:
            self._find(znode, answer)
        elif read.kind == NAMES:
            self._list(znode, answer)
        elif answer is not None:  # the first znode has come
            self._want_both(znode)
        if read.is_outdated and self._is_here(znode):
            self._want(znode, read.kind)
        self._note_read(key)

    def lose(self, read: TreeRead) -> None:
        """No answer came: :meth:`ask_again`."""
        key = read.znode, read.kind
        del self._in_flight[key]
        self._lost[key] = None

    def ask_again(self) -> None:
        lost, self._lost = self._lost, {}
        for znode, kind in lost:
            if self._is_here(znode):
                self._want(znode, kind)

    def read_all(self) -> None:
        """Until each znode was read again, it is not whole."""
        self.is_whole = False
        for znode in self.znodes():
            self._want_both(znode)
        asked = (*self._due, *self._in_flight, *self._lost)
        self._unread = {(znode, kind) for znode, kind in asked if self._is_here(znode)}

    def told(self, znode: TreeZnode, kind: str) -> None:
        """:param kind: of the event that its watch was called with."""
        if not self._is_here(znode):
            return
        if kind == EventType.CHANGED:
            self._want(znode, DATA)
        elif kind == EventType.CHILD:
            self._want(znode, NAMES)
        else:  # whether it has come or gone, or nobody knows: read it
            self._want_both(znode)

    def _want_both(self, znode: TreeZnode) -> None:
        self._want(znode, DATA)
        self._want(znode, NAMES)

    def _want(self, znode: TreeZnode, kind: str) -> None:
        read = self._in_flight.get((znode, kind))
        if read is None:
            self._due[znode, kind] = None
        else:
            read.is_outdated = True

    def _note_read(self, key: tuple[TreeZnode, str]) -> None:
        self._unread.discard(key)
        if not self.is_whole and not self._unread:
            self.is_whole = True
            self._change(TreeEvent.INITIALIZED)

    # ---- znodes ----------------------------------------------------------------------------------

    def znodes(self) -> Iterator[TreeZnode]:
        """All that are known."""
        znodes = [self._root]
        while znodes:
            znode = znodes.pop()
            yield znode
            znodes += znode.children.values()

    def at(self, path: str) -> TreeZnode | None:
        """:raises ValueError: the path is outside of the subtree."""
        root = self._root.path
        if path != root and not path.startswith(join(root, "")):
            raise ValueError(f"{path} is not below {root}")
        znode: TreeZnode | None = self._root
        for name in filter(None, path[len(root) :].split("/")):
            znode = None if znode is None else znode.children.get(name)
        return znode

    def _is_here(self, znode: TreeZnode) -> bool:
        return znode is self._root or (znode.parent is not None and znode.parent.children.get(znode.name) is znode)

    def _find(self, znode: TreeZnode, found: Found) -> None:
        before = self.found.get(znode.path)
        if before is None or _version(before) != _version(found):
            self.found[znode.path] = found
            self._change(TreeEvent.NODE_ADDED if before is None else TreeEvent.NODE_UPDATED, znode.path, found)

    def _list(self, znode: TreeZnode, names: list[str]) -> None:
        listed = {*names}
        for name, child in list(znode.children.items()):
            if name not in listed:
                self._drop(child)
        for name in names:
            if name not in znode.children:
                child = TreeZnode(join(znode.path, name), name, znode, self._tell)
                znode.children[name] = child
                self._want_both(child)
                if not self.is_whole:
                    self._unread |= {(child, DATA), (child, NAMES)}

    def _remove(self, znode: TreeZnode) -> None:
        """A read has not found it."""
        self._drop(znode)
        parent = znode.parent
        if parent is None:
            self._want(znode, PRESENCE)
            if not self.is_whole:
                self._unread.add((znode, PRESENCE))
        elif (parent, NAMES) not in self._in_flight:  # it may have come again since the list was read
            self._want(parent, NAMES)

    def _drop(self, znode: TreeZnode) -> None:
        """It is gone, with all below it."""
        for child in list(znode.children.values()):
            self._drop(child)
        self._miss(znode)
        for kind in (DATA, NAMES):
            self._due.pop((znode, kind), None)
            self._unread.discard((znode, kind))
        if znode.parent is not None:  # else it is watched for when it comes
            self.left.append((znode.path, znode))
            del znode.parent.children[znode.name]

    def _miss(self, znode: TreeZnode) -> None:
        before = self.found.pop(znode.path, None)
        if before is not None:
            self._change(TreeEvent.NODE_REMOVED, znode.path, before)

    def _refuse(self, read: TreeRead, error: Exception) -> None:
        """It may not be read."""
        if read.znode is self._root:
            self.failure = error
        elif read.kind == DATA:
            self._miss(read.znode)
        else:
            for child in list(read.znode.children.values()):
                self._drop(child)

    def _change(self, kind: int, path: str | None = None, found: Found | None = None) -> None:
        self.count += 1
        self.changes.append((kind, path, found))


def _version(found: Found) -> tuple[int, int, bytes]:
    value, stat = found
    return stat.czxid, stat.mzxid, value  # where its directory has moved, it may have another's by chance
