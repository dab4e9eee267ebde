"""What a client has on one ensemble that ends with its session there: ephemerals.

kazoo tells requests apart by their number, so a program may have classes of its own for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from parkazoo.kazoo_private import Create, Create2, Delete, Transaction
from parkazoo.protocol.ops.creates import EPHEMERAL, SEQUENCE
from parkazoo.protocol.placement import MARKER, ROOT
from parkazoo.protocol.steps import ExistsForWatch, Request

MOST_PATHS = 1 << 16
MARKERS = f"{ROOT}/{MARKER}"  # nobody misses them: their session's end is noticed by the write that needs them
CREATES = (Create.type, Create2.type)
CHANGING = frozenset((*CREATES, Delete.type, Transaction.type))  # the types of requests that count here


class Holdings:
    """The ephemerals of one session, by physical path, as far as its answers tell. When in doubt there is one.

    What another client deletes still counts.

    :ivar has_more: there may be some of unknown names.
    """

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self.has_more = False

    def __bool__(self) -> bool:
        return self.has_more or bool(self._paths)

    def clear(self) -> None:
        """A new session has none."""
        self._paths.clear()
        self.has_more = False

    def below(self, path: str) -> list[str]:
        """The ephemerals of known names below a znode."""
        return sorted(each for each in self._paths if each.startswith(path + "/"))

    def forget(self, path: str) -> None:
        """What is below a znode counts no more: it goes, and is not missed."""
        self._paths.difference_update(self.below(path))

    def assume(self) -> None:
        """There may be some: the session was another client's."""
        self.has_more = True

    def answered(self, request: Request, answer: Any) -> None:
        """A request of one of the types CHANGING has succeeded.

        :param answer: of a transaction: the results, whose paths are physical. If it failed, all are exceptions.
        """
        if request.type != Transaction.type:
            self._done(request, answer)
        elif answer and not isinstance(answer[0], Exception):
            for operation, result in zip(_operations(request), answer, strict=True):
                self._done(operation, result)

    def lost(self, requests: Iterable[Request]) -> None:
        """Requests that were sent will get no answer: they may have been done."""
        for request in requests:
            for operation in filter(is_ephemeral, _operations(request)):
                self._add(None if operation.flags & SEQUENCE else operation.path)

    def _done(self, operation: Request, result: Any) -> None:
        if is_ephemeral(operation):
            self._add(result if operation.type == Create.type else result[0])
        elif operation.type == Delete.type:
            self._paths.discard(operation.path)  # type: ignore[attr-defined]  # a Delete's

    def _add(self, path: str | None) -> None:
        if path is None or len(self._paths) >= MOST_PATHS:
            self.has_more = True
        else:
            self._paths.add(path)


def is_ephemeral(request: Request) -> TypeGuard[Create | Create2]:
    """Whether it makes an ephemeral of the user's."""
    if request.type not in CREATES:
        return False
    create: Create | Create2 = request  # type: ignore[assignment]  # by its number
    return bool(create.flags & EPHEMERAL) and not create.path.startswith(MARKERS)


def leaves_ephemeral(request: Request) -> bool:
    return any(map(is_ephemeral, _operations(request)))


def _operations(request: Request) -> Sequence[Request]:
    return request.operations if request.type == Transaction.type else (request,)  # type: ignore[attr-defined]


def leaves_watch(request: object) -> bool:
    """Whether it leaves a watch, or is part of what does."""
    return getattr(request, "watcher", None) is not None or isinstance(request, ExistsForWatch)
