"""A user's transaction: one multi on one ensemble, or refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    NoAuthError,
    NoChildrenForEphemeralsError,
    NoNodeError,
    NotEmptyError,
)

from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Delete,
    RolledBackError,
    RuntimeInconsistency,
    SetData,
)
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import (
    IN_TRANSACTION,
    last_step,
    leave_mark,
    remove_mirror,
    take_mark,
)
from parkazoo.protocol.ops.creates import SEQUENCE
from parkazoo.protocol.placement import Directory, join, split
from parkazoo.protocol.steps import IMPOSSIBLE, Operation, WriteRequest, commit

REFUSALS = (NoAuthError, NoChildrenForEphemeralsError, NoNodeError, NotEmptyError)

# By index: directories whose mirror we deleted, with our mark and all that were there.
Deletes = dict[int, tuple[Directory, str, list[str]]]

METHODS = {Create.type: "create", Delete.type: "delete", SetData.type: "set_data", CheckVersion.type: "check"}


# Makes the last step of a multi, given its ensemble, and whether the znode of the last such step was gone.
Guard = Callable[[int, bool], Operation[WriteRequest]]


class Guarded(NamedTuple):
    """A transaction whose multi ends with one more step."""

    operations: Sequence[WriteRequest]
    guard: Guard


def changed_by(operations: Sequence[WriteRequest], results: Sequence[Any]) -> list[str]:
    """What a transaction has created and deleted."""
    changed = []
    for operation, result in zip(operations, results, strict=True):
        if isinstance(operation, Create) and operation.flags & SEQUENCE:
            changed.append(join(split(operation.path)[0], split(result)[1]))
        elif isinstance(operation, (Create, Delete)):
            changed.append(operation.path)
    return changed


def failed(operations: Sequence[object], index: int, error: Exception) -> list[Exception]:
    """The results of a transaction that failed at `index`, as a server would give them."""
    after = len(operations) - index - 1
    return [
        *(RolledBackError() for _ in range(index)),
        error,
        *(RuntimeInconsistency() for _ in range(after)),
    ]


class Sent(NamedTuple):
    """What a multi was answered.

    :param results: one for each of the user's operations.
    :param at: the one that failed; that past the last, if only the impossible step did; -1 if none.
    :param is_own: it was the user's request that failed, and not a step in front of it.
    """

    results: list[Any]
    at: int = -1
    error: Exception | None = None
    is_own: bool = True


def send(
    ensemble: int,
    multi: Sequence[Sequence[WriteRequest]],
    planned: dict[int, Directory],
    deletes: Deletes,
    guard: Guard | None,
    is_gone: bool = False,
) -> Operation[Sent]:
    """The user's multi, with the delete of a directory widened to its marks, pin and home.

    While deletes are planned it is the multi without them, and fails, at an index past its end if all is well.

    :param multi: for each operation the steps in front of it, then the user's request.
    :param guard: see :class:`Guarded`. :param is_gone: what it is given.
    """
    if planned and any(_is_met(multi, index) for index in planned):
        return Sent([], len(multi), NotEmptyError())
    widened: list[WriteRequest] = []
    source: list[int] = []
    for index, steps in enumerate(multi):
        if index in planned:
            continue
        if index in deletes:
            d, _, marks = deletes[index]
            delete = steps[-1]
            assert isinstance(delete, Delete)
            steps = last_step(d, marks, delete.version)  # noqa: PLW2901 - in place of the user's
        widened += steps
        source += [index] * len(steps)
    for d in planned.values():
        widened.append(Delete(d.pin, IMPOSSIBLE))
        source.append(len(multi))
    if guard is not None and not planned:
        widened.append((yield from guard(ensemble, is_gone)))
        source.append(len(multi))
    results, at, error = yield from commit(ensemble, widened)
    if error is not None and source[at] == len(multi) and not planned:  # the guard, whose session has ended
        if not isinstance(error, NoNodeError):
            raise error
        return (yield from send(ensemble, multi, planned, deletes, guard, is_gone=True))
    if error is not None:
        is_own = source[at] != (source[at + 1] if at + 1 < len(source) else -1)
        return Sent(failed(multi, source[at], error), source[at], error, is_own)
    return Sent(list(dict(zip(source, results, strict=True)).values())[: len(multi)])


def _is_met(multi: Sequence[Sequence[WriteRequest]], index: int) -> bool:
    """Whether another operation may depend on this delete: on the same znode, the parent, a sequence number."""
    path = multi[index][-1].path
    return any(at != index and path.startswith(steps[-1].path) for at, steps in enumerate(multi))


def delete_mirrors(
    context: Context,
    planned: dict[int, Directory],
    deletes: Deletes,
    names_mirror: Callable[[Directory], Operation[bool]],
) -> Operation[tuple[int, Exception] | None]:
    """Leave a mark on every directory, then delete the mirrors; returns where and why that was refused.

    :param names_mirror: whether the pin, held by the mark, names the mirror's ensemble.
    """
    begun: dict[int, str] = {}
    refusal_at: tuple[int, Exception] | None = None
    for index, d in planned.items():
        try:
            mark = yield from leave_mark(context, d, IN_TRANSACTION)
        except REFUSALS as refused:
            refusal_at = index, refused
            break
        if mark is None:
            continue
        if (yield from names_mirror(d)):
            begun[index] = mark
        else:
            yield from take_mark(d, mark)
    for index, mark in begun.items():
        d = planned[index]
        if refusal_at is not None:
            yield from take_mark(d, mark)
            continue
        try:
            marks = yield from remove_mirror(context, d, mark)
        except REFUSALS as refused:
            refusal_at = index, refused
        else:
            if marks:
                deletes[index] = d, mark, marks
    planned.clear()
    return refusal_at
