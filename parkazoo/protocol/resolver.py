"""Where things are, as one client knows it. Nothing else in the package asks the placement.

Today the placement is a function of the path, so every location is known without asking. Callers must not rely on
that. They may send a request to the place that :attr:`Resolver.known` returns. Before a step that decides
something (the first child of a directory, its delete) they call :meth:`Resolver.find`, which may ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from parkazoo.protocol.placement import Directory, Placement, above
from parkazoo.protocol.steps import Operation

PROMOTED_REMEMBERED = 1 << 16
CHILDLESS_REMEMBERED = 1 << 12


class Resolver:
    """What a client knows of where znodes live, and of which directories have a mirror.

    :param lock: held for a moment while the memory changes; None if only one thread uses this.
    :ivar ensembles: how many carry znodes; they have the indexes 0 to `ensembles` - 1.
    :ivar bootstrap: index of the ensemble that answers for ``/zookeeper``.
    :ivar known: where a path and its children live, as far as that is known without asking; raises ValueError for
        a path that has no UTF-8.
    :ivar is_promoted: whether a path is known to have a mirror, so that a create below it takes one request.
    :ivar is_childless: whether a path probably has no mirror, because this client has made it.
    """

    def __init__(self, placement: Placement, lock: AbstractContextManager[Any] | None = None) -> None:
        self.ensembles = placement.ensembles
        self.bootstrap = placement.bootstrap
        self.known: Callable[[str], Directory] = placement.directory
        self._lock = lock or nullcontext()
        self._promoted: set[str] = set()
        self._above_promoted: Counter[str] = Counter()  # how many are below a path
        self._childless: set[str] = set()
        self.is_promoted = self._promoted.__contains__
        self.is_childless = self._childless.__contains__

    def find(self, path: str) -> Operation[Directory]:
        """Where a path and its children live, for certain; asks if it is not known. Today it is always known."""
        yield from ()
        return self.known(path)

    # ---- mirrors ---------------------------------------------------------------------------------

    def remember_promoted(self, path: str) -> None:
        """`path` has a mirror.

        Only operations that hold a claim on the children may call this; a create or delete of `path` calls
        :meth:`forget` when it starts, and :meth:`forget_all` when it has succeeded. So what this client knows is
        never undone by this client itself.
        """
        with self._lock:
            if len(self._promoted) >= PROMOTED_REMEMBERED:
                self._promoted.clear()
                self._above_promoted.clear()
            if path not in self._promoted:
                self._promoted.add(path)
                self._above_promoted.update(above(path))
        self._childless.discard(path)

    def remember_childless(self, path: str) -> None:
        """This client has made `path`."""
        if len(self._childless) >= CHILDLESS_REMEMBERED:
            self._childless.clear()
        self._childless.add(path)

    def forget(self, path: str) -> None:
        """What this remembers of `path` may no longer be true."""
        if path in self._promoted:
            with self._lock:
                self._discard([path])
        self._childless.discard(path)

    def forget_all(self, path: str) -> None:
        """Forget `path` and everything below it."""
        if path in self._promoted or path in self._above_promoted:
            with self._lock:
                self._discard([path, *(each for each in self._promoted if each.startswith(path + "/"))])
        self._childless.discard(path)

    def _discard(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path in self._promoted:
                self._promoted.remove(path)
                self._above_promoted.subtract(above(path))
                for each in above(path):
                    if not self._above_promoted[each]:
                        del self._above_promoted[each]
