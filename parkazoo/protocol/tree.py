"""What the operations of one client have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError, NotReadOnlyCallError

from parkazoo.protocol.past import CATCH_UP, Past
from parkazoo.protocol.placement import Place, Placement, above, join, split
from parkazoo.protocol.steps import Operation, Request, Step
from parkazoo.protocol.watches import DirectoryWatch

PROMOTED_REMEMBERED = 1 << 16
CHILDLESS_REMEMBERED = 1 << 12
REFUSED = (BadVersionError, NoAuthError, NoNodeError)  # the answers to CATCH_UP


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
    :param lock: is held for a moment while what is remembered changes; operations run on several threads.
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
        lock: AbstractContextManager[Any],
    ) -> None:
        self.placement = placement
        self.names = tuple(names)
        self.new_mark = new_mark
        self.watch = watch
        self.settle = settle
        self.own = own
        self.past = Past(len(names), lock)
        self._promoted: set[str] = set()
        self._above_promoted: Counter[str] = Counter()  # how many are below a path
        self._lock = lock
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

        Only operations that hold a claim on the children may call :meth:`remember`; a create or delete of
        `path` calls :meth:`forget` when it starts, and :meth:`forget_all` when it has succeeded. So what this
        client knows is never undone by this client.
        """
        return path in self._promoted

    def remember(self, path: str) -> None:
        with self._lock:
            if len(self._promoted) >= PROMOTED_REMEMBERED:
                self._promoted.clear()
                self._above_promoted.clear()
            if path not in self._promoted:
                self._promoted.add(path)
                self._above_promoted.update(above(path))
        self._childless.discard(path)

    def forget(self, path: str) -> None:
        if path in self._promoted:
            with self._lock:
                self._discard([path])
        self._childless.discard(path)

    def forget_all(self, path: str) -> None:
        """Forget it and all that is below it."""
        self.forget(path)
        if path in self._above_promoted:
            with self._lock:
                self._discard([each for each in self._promoted if each.startswith(path + "/")])

    def _discard(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path in self._promoted:
                self._promoted.remove(path)
                self._above_promoted.subtract(above(path))
                for each in above(path):
                    if not self._above_promoted[each]:
                        del self._above_promoted[each]

    def is_childless(self, path: str) -> bool:
        """Whether `path` probably has no mirror: this client has made it. A hint, for others make children too."""
        return path in self._childless

    def remember_childless(self, path: str) -> None:
        if len(self._childless) >= CHILDLESS_REMEMBERED:
            self._childless.clear()
        self._childless.add(path)

    # ---- this client's own past ------------------------------------------------------------------

    def read(self, path: str, *steps: Step) -> Operation[list[Any]]:
        """The answers to reads of `path`, none of before what this client has created or deleted there.

        An ensemble that may be behind that is first asked for a write that cannot succeed.
        """
        past = self.past
        behind = [each for each in {ensemble for ensemble, _ in steps} if past.is_behind(each, path)]
        if not behind:
            return (yield steps)
        count = past.count
        answers = yield (*((ensemble, CATCH_UP) for ensemble in behind), *steps)
        for ensemble, answer in zip(behind, answers, strict=False):
            if isinstance(answer, REFUSED):
                past.caught_up(ensemble, count)
            elif not isinstance(answer, NotReadOnlyCallError):  # a server that is cut off shows what it has
                raise answer
        return answers[len(behind) :]

    def ask(self, path: str, ensemble: int, request: Request) -> Operation[Any]:
        """One read of `path`, as :meth:`read`; returns its answer or raises it."""
        (answer,) = yield from self.read(path, (ensemble, request))
        if isinstance(answer, Exception):
            raise answer
        return answer
