"""What the operations of one client have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from parkazoo.protocol.placement import Place, Placement, join, split
from parkazoo.protocol.steps import Request
from parkazoo.protocol.watches import DirectoryWatch

PROMOTED_REMEMBERED = 1 << 16
CHILDLESS_REMEMBERED = 1 << 12


def parent_of(request: Request) -> tuple[str, str]:
    """Parent and name of what a create creates; the name is empty for a sequence number alone."""
    path: str = request.path
    if path != "/" and path.endswith("/"):
        return path[:-1], ""
    return split(path)


class Directory(NamedTuple):
    """The znodes that make up a directory whose home and children are on different ensembles."""

    path: str
    home: Place
    mirror: Place
    pin: str  # on the home's ensemble
    fence: str  # on the mirror's ensemble

    def mark(self, name: str) -> str:
        return f"{self.pin}/{name}"


class Tree:
    """The tree as one client sees it: pure, but for what the driver lends it.

    :param names: the ensembles' names by index, for messages.
    :param new_mark: makes a name that was never made before and never will be.
    :param watch: stands in for a user's watch on the children of a directory that has no mirror.
    :param settle: called with such a watch and True when its call has succeeded, False when it has not.
    :param own: replaces a member's session id in ``ephemeralOwner`` by the client's.
    """

    def __init__(
        self,
        placement: Placement,
        names: Sequence[str],
        new_mark: Callable[[], str],
        watch: Callable[[Directory, Callable[[Any], Any]], DirectoryWatch],
        settle: Callable[[DirectoryWatch, bool], None],
        own: Callable[[int, Any], Any],
    ) -> None:
        self.placement = placement
        self.names = tuple(names)
        self.new_mark = new_mark
        self.watch = watch
        self.settle = settle
        self.own = own
        self._promoted: set[str] = set()
        self._childless: set[str] = set()

    def directory(self, path: str) -> Directory | None:
        """The parts of `path` as a directory; None if it is native, plain ZooKeeper."""
        if self.placement.is_native(path):
            return None
        home = self.placement.home(path)
        return Directory(
            path,
            home,
            self.placement.children(path),
            self.placement.pin(path).path,
            self.placement.fence(path).path,
        )

    def child(self, parent: str, name: str) -> Place:
        """Where the child `name` of `parent` lives; `name` may be empty, for a sequence number alone."""
        ensemble, path = self.placement.children(parent)
        return Place(ensemble, join(path, name))

    def is_promoted(self, path: str) -> bool:
        """Whether `path` is known to have a mirror, so that a create below it takes one request.

        Only operations that hold a claim on the children may call :meth:`remember`, and a delete calls
        :meth:`forget` when it starts: so what this client knows is never undone by this client.
        """
        return path in self._promoted

    def remember(self, path: str) -> None:
        if len(self._promoted) >= PROMOTED_REMEMBERED:
            self._promoted.clear()
        self._promoted.add(path)
        self._childless.discard(path)

    def forget(self, path: str) -> None:
        self._promoted.discard(path)
        self._childless.discard(path)

    def is_childless(self, path: str) -> bool:
        """Whether `path` probably has no mirror: this client has made it. A hint, for others make children too."""
        return path in self._childless

    def remember_childless(self, path: str) -> None:
        if len(self._childless) >= CHILDLESS_REMEMBERED:
            self._childless.clear()
        self._childless.add(path)
