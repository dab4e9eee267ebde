"""Where znodes are, as one client knows it, if the pins decide that and not the path.

A place is what a client remembers of a directory, else where the newest epoch of the map would put its children.
Either may be wrong. What is found is in the right place all the same; what is not found there has to be proved.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from parkazoo.protocol.placement import Directory, Place, Placement, is_of_zookeeper, join, mirror_path, split
from parkazoo.protocol.resolver import CHILDLESS_REMEMBERED

NATIVE = -1  # in place of an ensemble: the children are below their home
UNPINNED = -2  # the same, as long as nobody has pinned that: the directory has been adopted
UNKNOWN = -3
REMEMBERED = 1 << 16
CHANGES_REMEMBERED = 1 << 12


class Places:
    """What a client knows of where the children of directories are.

    :param first: the placement by the map's first epoch: where `/` has its children, and what pins mean that do
        not say where.
    :param guess: the ensemble to which the newest epoch that decides gives a directory; or NATIVE.
    :param lock: held for a moment while the memory changes; None if only one thread uses this.
    :ivar root: index of the ensemble that holds the children of ``/``.
    :ivar bootstrap: index of the ensemble that answers for ``/zookeeper``.
    :ivar count: goes up with each own create and delete.
    """

    def __init__(
        self, first: Placement, guess: Callable[[str], int], lock: AbstractContextManager[Any] | None = None
    ) -> None:
        self.first = first
        self.guess = guess
        self.bootstrap = first.bootstrap
        self.root = first.of_children("/")
        self._lock = lock or nullcontext()
        self._hints: dict[str, int] = {}
        self._childless: set[str] = set()
        self.count = 0
        self._begun: dict[str, int] = {}  # the count when this client began or ended to make or delete a path
        self._forgotten = 0  # the highest count that has fallen out
        self._heir: Places | None = None  # of the form after this
        self.is_childless = self._childless.__contains__

    def where(self, directory: str) -> int:
        """The ensemble that holds the children of a directory, as far as is known; or NATIVE."""
        if is_fixed(directory):
            return NATIVE
        hint = self._hints.get(directory)
        return self.guess(directory) if hint is None else max(hint, NATIVE)

    def is_known(self, directory: str) -> bool:
        """Whether this client has seen where the children of a directory are."""
        return directory in self._hints

    def is_pinned(self, directory: str) -> bool:
        """Whether a pin has said so, and it is known where: a child takes one request, if that still holds."""
        hint = self._hints.get(directory, UNPINNED)
        while hint == NATIVE and directory != "/":
            directory = split(directory)[0]
            hint = max(self._hints.get(directory, UNKNOWN), NATIVE if is_fixed(directory) else UNKNOWN)
            if hint == UNPINNED:
                hint = NATIVE
        return hint >= NATIVE

    def home(self, path: str) -> Place:
        """Where the znode itself is, as far as is known."""
        if is_of_zookeeper(path):
            return Place(self.bootstrap, path)
        above = split(path)[0]
        while above != "/":
            where = self.where(above)
            if where != NATIVE:
                return Place(where, mirror_path(above) + path[len(above) :])
            above = split(above)[0]
        return Place(self.root, path)

    def known(self, path: str) -> Directory:
        """Where a path and its children are, as far as is known."""
        return directory(path, self.home(path), self.where(path))

    def nearest(self, path: str) -> str:
        """The path, or what is next above it of which this client knows where it is: `/` has a place for ever."""
        near, parent = path, split(path)[0]
        while not is_fixed(parent):
            if not self.is_known(parent):
                near = parent
            elif self.where(parent) != NATIVE:
                break
            parent = split(parent)[0]
        return near

    def below(self, parent: Directory, path: str) -> Directory:
        """The child of a directory, which is where that has its children."""
        ensemble, above = parent.mirror
        return directory(path, Place(ensemble, join(above, split(path)[1])), self.where(path))

    # ---- memory ----------------------------------------------------------------------------------

    def remember(self, d: Directory, since: int, is_pinned: bool = True) -> None:
        """The children of a directory are there, or have been a moment ago.

        :param since: :attr:`count` when that was asked. What has been asked before this client itself has begun to
            make or delete the directory is not remembered: what it issues behind that finds another life of it.
        """
        where = UNPINNED if not is_pinned else NATIVE if d.is_native else d.mirror.ensemble
        if self._hints.get(d.path) == where or is_fixed(d.path):
            return
        with self._lock:
            if since < self._forgotten or since < self._begun.get(d.path, 0):
                return
            if len(self._hints) >= REMEMBERED:
                self._hints.clear()
            self._hints[d.path] = where
            self._childless.discard(d.path)

    def remember_found(self, d: Directory, since: int) -> None:
        """A child of `d` was found: its children are there, and so are those of all above it on the way there."""
        while not is_fixed(d.path) and not self.is_known(d.path):
            self.remember(d, since, is_pinned=not d.is_native)
            if not d.is_native:
                return
            d = above(d)

    def inherit(self, before: Places) -> None:
        """What was known by the form of the map before. It holds, but for what operations of that form forget yet.

        That a directory has no child does not: by that form another client may have made one without a pin.
        """
        with before._lock:
            before._heir = self
            self._hints = before._hints.copy()

    def remember_childless(self, path: str) -> None:
        """This client has made `path`."""
        with self._lock:
            if len(self._childless) >= CHILDLESS_REMEMBERED:
                self._childless.clear()
            self._childless.add(path)

    def drop(self, directory: str) -> None:
        """The children of a directory are not where they were thought to be."""
        with self._lock:
            self._hints.pop(directory, None)
            self._childless.discard(directory)

    def forget(self, path: str) -> None:
        """This client begins, or has ended, to make or delete `path`."""
        with self._lock:
            self._hints.pop(path, None)
            self._childless.discard(path)
            self.count += 1
            self._begun.pop(path, None)
            self._begun[path] = self.count
            if len(self._begun) > CHANGES_REMEMBERED:
                self._forgotten = self._begun.pop(next(iter(self._begun)))
            heir = self._heir
        if heir is not None:
            heir.forget(path)


def by_first(first: Placement) -> Callable[[str], int]:
    """Where a directory's children are, or NATIVE, as long as the first epoch decides."""
    return lambda directory: NATIVE if first.is_native(directory) else first.of_children(directory)


def directory(path: str, home: Place, where: int) -> Directory:
    """A directory with its home there, and its children on that ensemble, or NATIVE."""
    if where == NATIVE:
        return Directory(path, home, home, True)
    return Directory(path, home, Place(where, mirror_path(path)), False)


def above(d: Directory) -> Directory:
    """The directory that has its children where `d` has its home."""
    path = split(d.path)[0]
    place = Place(d.home.ensemble, split(d.home.path)[0])
    return directory(path, place, NATIVE if place.path != mirror_path(path) else place.ensemble)


def is_fixed(directory: str) -> bool:
    """Whether the children of a directory have one place for ever: there is no pin, and nothing to prove."""
    return directory == "/" or is_of_zookeeper(directory)
