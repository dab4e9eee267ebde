"""Where znodes are, as one client knows it. Nothing else in the package asks the placement.

On a plain map the path decides, so each place is certain. Else the pins do: a place is what a client remembers of
a directory, or where the newest epoch of the map would put its children, and either may be wrong. What is found is
in the right place all the same; what is not found there has to be proved.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from parkazoo.protocol.placement import (
    CERTAIN,
    GUESS,
    HINT,
    MIRRORS,
    OF_GENERATION,
    PINNED,
    Directory,
    Place,
    Placement,
    generation_of,
    is_of_zookeeper,
    mirror_path,
    split,
)

NATIVE = -1  # in place of an ensemble: the children are below their home
REMEMBERED = 1 << 16
CHILDLESS_REMEMBERED = 1 << 12
CHANGES_REMEMBERED = 1 << 12


class _Directories(dict[str, Directory]):
    """By path. A question for one that is there calls no Python function."""

    def __init__(self, find: Callable[[str], Directory]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, path: str) -> Directory:
        return self._find(path)


class Places:
    """What a client knows of where the children of directories are.

    :param first: the placement by the map's first epoch: where `/` has its children, and what pins mean that do
        not say where.
    :param guess: the ensemble to which the newest epoch that decides gives a directory; or NATIVE. None if the map
        is plain: `first` decides for ever.
    :param lock: held for a moment while the memory changes; None if only one thread uses this.
    :param leaving: ensembles that no new pin may name. :param gone: those of them that hold nothing for ever.
    :param moving: a directory that moves. It is never guessed: its place of before may still be there, and dead.
        Nor is it remembered where its children are, until :meth:`trust_pin`.
    :ivar bootstrap: index of the ensemble that answers for ``/zookeeper``.
    :ivar count: goes up with each own create and delete.
    :ivar known: returns where a path and its children are, as far as is known.
    """

    def __init__(
        self,
        first: Placement,
        guess: Callable[[str], int] | None = None,
        lock: AbstractContextManager[object] | None = None,
        leaving: frozenset[int] = frozenset(),
        gone: frozenset[int] = frozenset(),
        moving: str = "",
    ) -> None:
        self.first = first
        self.leaving = leaving
        self._gone = gone
        self._moving = self._untrusted = moving
        self.guess = guess or by_first(first)
        self._is_plain = guess is None
        self.bootstrap = first.bootstrap
        self._root = Directory("/", *(Place(first.of_children("/"), "/"),) * 2, True)
        self._lock = lock or nullcontext()
        self._hints: dict[str, tuple[Place | None, int]] = {}  # mirror, or None: native; HINT, PINNED or CERTAIN
        self._directories = _Directories(self._find)  # as hints and guess have them
        self._below: dict[str, set[str]] = {}  # which of those were found by the one above them
        self._childless: set[str] = set()
        self.count = 0
        self._begun: dict[str, int] = {}  # the count when this client began or ended to make or delete a path
        self._forgotten = 0  # the count when the earlier ones were dropped
        self._heir: Places | None = None  # of the form after this
        self.known: Callable[[str], Directory] = self._directories.__getitem__
        self.is_childless = self._childless.__contains__

    def decide_by(self, guess: Callable[[str], int]) -> None:
        """From now on a newer epoch decides."""
        with self._lock:
            self.guess = guess
            self._forget_directories()

    def nearest(self, path: str) -> str:
        """The path, or what is next above it of which this client knows where it is: `/` has a place for ever."""
        near, above = path, self.known(split(path)[0])
        while above.certainty != CERTAIN:
            if above.certainty == GUESS:
                near = above.path
            elif not above.is_native:
                break
            above = self.known(split(above.path)[0])
        return near

    def both(self, path: str) -> tuple[Directory, Directory]:
        """The directory above a path, and the path below that, whatever other threads learn meanwhile."""
        d = self.known(path)
        above = self.known(path.rpartition("/")[0] or "/")
        return above, d if d is self.known(path) else self.below(above, path)

    def below(self, parent: Directory, path: str) -> Directory:
        """The child of a directory, which is where that has its children."""
        if path.startswith("/zookeeper") and is_of_zookeeper(path):
            home = Place(self.bootstrap, path)
            return Directory(path, home, home, True)
        ensemble, place = parent.mirror
        home = Place(ensemble, f"{place if place != '/' else ''}/{path.rpartition('/')[2]}")
        hint = self._hints.get(path)
        if self._is_plain:
            where, certainty, is_decided = self.first.of_children(path), CERTAIN, hint is not None
            if where == ensemble:
                return Directory(path, home, home, True)
        elif hint is not None:
            mirror, certainty = hint
            is_decided = certainty == PINNED
            if mirror is not None:
                return Directory(path, home, mirror, False, certainty, is_decided)
            where = NATIVE
        else:
            where, certainty, is_decided = self.guess(path), GUESS, False
            if path == self._moving:
                return Directory(
                    path, home, Place(ensemble, mirror_path(path) + OF_GENERATION), False, GUESS, False
                )
        if where != NATIVE:
            name = path.replace("%", "%25").replace("/", "%2F")  # as mirror_path(): called often
            return Directory(path, home, Place(where, f"{MIRRORS}/{name}"), False, certainty, is_decided)
        if parent.certainty == GUESS:  # so is where the home is
            return Directory(path, home, home, True, GUESS, False)
        return Directory(path, home, home, True, certainty, is_decided)

    def _find(self, path: str) -> Directory:
        with self._lock:
            if len(self._directories) > REMEMBERED:
                self._forget_directories()
            found = self._directories.get(path)
            if found is not None:  # another thread was here first
                return found
            missing = [path]
            while found is None:
                parent = missing[-1].rpartition("/")[0] or "/"
                if parent == missing[-1]:
                    found = self._directories[missing.pop()] = self._root
                else:
                    found = self._directories.get(parent)
                    if found is None:
                        missing.append(parent)
            for each in reversed(missing):
                self._below.setdefault(found.path, set()).add(each)
                found = self._directories[each] = self.below(found, each)
            return found

    def _renew(self, path: str) -> None:
        """A directory's remembered place is new. As a rule its children stay where they were thought to be."""
        old, above = self._directories.get(path), self._directories.get(path.rpartition("/")[0] or "/")
        new = None if above is None else self.below(above, path)
        if old is None or new is None or new.mirror != old.mirror:
            self._forget_below(path)
            return
        self._directories[path] = new
        for child in self._below.get(path, ()):
            if child in self._hints:
                self._forget_below(child)

    def _forget_directories(self) -> None:
        self._directories.clear()
        self._below.clear()

    def _forget_below(self, path: str) -> None:
        """A directory's place has changed: where it and all below it are is found anew."""
        stale = [path]
        for each in stale:
            stale += self._below.get(each, ())
        for each in reversed(stale):  # a signal handler's exception leaves a way to the rest
            self._directories.pop(each, None)
            self._below.pop(each, None)

    # ---- memory ----------------------------------------------------------------------------------

    def remember(self, d: Directory, since: int, certainty: int = PINNED) -> None:
        """The children of a directory are there, or have been a moment ago.

        :param since: :attr:`count` when that was asked. What has been asked before this client itself has begun to
            make or delete the directory is not remembered: what it issues behind that finds another life of it.
        :param certainty: HINT or PINNED; it is CERTAIN anyway if `d` is.
        """
        hint = None if d.is_native else d.mirror, CERTAIN if d.certainty == CERTAIN else certainty
        if self._hints.get(d.path) == hint or (d.is_native and d.certainty == CERTAIN):
            return
        with self._lock:
            if since < self._forgotten or since < self._begun.get(d.path, 0) or d.path == self._untrusted:
                return
            if len(self._hints) >= REMEMBERED:
                self._hints.clear()
                self._forget_directories()
            self._hints[d.path] = hint
            self._renew(d.path)
            self._childless.discard(d.path)

    def remember_found(self, d: Directory, since: int) -> None:
        """A child of `d` was found: its children are there, and so are those of all above it on the way there."""
        while self.known(d.path).certainty == GUESS:
            if d.path not in self._hints:
                self.remember(d, since, HINT if d.is_native else PINNED)
            if not d.is_native:
                return
            d = self.above(d)

    def above(self, d: Directory) -> Directory:
        """The directory that has its children where `d` has its home."""
        path = split(d.path)[0]
        place = Place(d.home.ensemble, split(d.home.path)[0])
        is_mirror = place.path.partition(OF_GENERATION)[0] == mirror_path(path)
        where = place.ensemble if is_mirror else NATIVE
        return directory(path, place, where, self.known(path).certainty, generation_of(place.path))

    def inherit(self, before: Places) -> None:
        """Takes over the places of earlier operations. They hold, but for what these operations forget yet.

        That a directory has no child does not: another client may have made one without a pin.
        """
        with before._lock:
            before._heir = self
            self._hints = {
                path: hint
                for path, hint in before._hints.items()
                if (hint[0] is None or hint[0].ensemble not in self._gone) and path != self._untrusted
            }
            self._forget_directories()

    def trust_pin(self) -> None:
        """The hold is over: what the pin says from now on holds."""
        with self._lock:
            self._untrusted = ""

    def guess_again(self) -> None:
        """Nothing moves any more, and nothing is left of it."""
        with self._lock:
            self._moving = self._untrusted = ""
            self._forget_directories()

    def remember_childless(self, path: str) -> None:
        """This client has made `path`."""
        with self._lock:
            if len(self._childless) >= CHILDLESS_REMEMBERED:
                self._childless.clear()
            self._childless.add(path)

    def drop(self, directory: str) -> None:
        """The children of a directory are not where they were thought to be."""
        with self._lock:
            if directory in self._hints:
                self._forget_below(directory)
                del self._hints[directory]
            self._childless.discard(directory)

    def forget(self, path: str) -> None:
        """This client begins, or has ended, to make or delete `path`."""
        with self._lock:
            if path in self._hints:
                self._forget_below(path)
                del self._hints[path]
            self._childless.discard(path)
            self.count += 1
            self._begun[path] = self.count
            if len(self._begun) > CHANGES_REMEMBERED:
                self._forgotten = self.count
                self._begun.clear()
            heir = self._heir
        if heir is not None:
            heir.forget(path)


def by_first(first: Placement) -> Callable[[str], int]:
    """Where a directory's children are, or NATIVE, as long as the first epoch decides."""
    return lambda directory: NATIVE if first.is_native(directory) else first.of_children(directory)


def directory(path: str, home: Place, where: int, certainty: int = PINNED, generation: str = "") -> Directory:
    """A directory with its home there, and its children on that ensemble, or NATIVE."""
    if where == NATIVE:
        return Directory(path, home, home, True, certainty, certainty == PINNED)
    mirror = Place(where, mirror_path(path, generation))
    return Directory(path, home, mirror, False, certainty, certainty == PINNED)
