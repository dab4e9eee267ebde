"""A user's transaction: one multi on one ensemble, or refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    NoAuthError,
    NoChildrenForEphemeralsError,
    NoNodeError,
    NotEmptyError,
)

from parkazoo.errors import CrossEnsembleError
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
    may_delete,
    promote,
    promote_secret,
    remove_mirror,
    take_mark,
    verify_may_delete_in,
    verify_no_foreign_child,
)
from parkazoo.protocol.placement import Directory, Place, join, split
from parkazoo.protocol.reserved import refusal
from parkazoo.protocol.rights import (
    is_secret,
)
from parkazoo.protocol.stats import complete_stat
from parkazoo.protocol.steps import IMPOSSIBLE, Operation, Request, commit, failure, placed

REFUSALS = (NoAuthError, NoChildrenForEphemeralsError, NoNodeError, NotEmptyError)

# By index: directories whose mirror we deleted, with our mark and all that were there.
Deletes = dict[int, tuple[Directory, str, list[str]]]

METHODS = {Create.type: "create", Delete.type: "delete", SetData.type: "set_data", CheckVersion.type: "check"}


# Makes the last step of a multi, given its ensemble, and whether the znode of the last such step was gone.
Guard = Callable[[int, bool], Operation[Request]]


class Guarded(NamedTuple):
    """A transaction whose multi ends with one more step."""

    operations: Sequence[Request]
    guard: Guard


def guard_of(request: Request) -> Guard | None:
    return request.guard if isinstance(request, Guarded) else None


def transaction(context: Context, request: Request) -> Operation[list[Any]]:
    """Commit; like kazoo's, the result of a failed transaction is the list of errors.

    A create may find that its parent has no mirror yet, a delete that its directory has one. Then this promotes
    the parent, or deletes the mirror, and sends the multi again. Before it deletes a mirror, it sends the rest
    with an impossible last step: unless everything else would succeed, the mirror stays.

    :raises CrossEnsembleError: the operations live on more than one ensemble; nothing was sent.
    """
    operations = request.operations
    ensemble, multi = _place(context, operations)
    for index, operation in enumerate(operations):
        if error := refusal(operation):
            return failed(operations, index, error)
    changed = [each.path for each in operations if isinstance(each, (Create, Delete))]
    if not changed:
        return (yield from transact(context, request, ensemble, multi))
    for path in changed:
        context.resolver.forget(path)
    with context.past.begin(changed, ensemble) as change:
        results = yield from transact(context, request, ensemble, multi)
        if failure(results)[1] is None:
            change.paths = list(changed_by(operations, results))
        else:
            change.ensemble = -1  # another operation may be the one that failed
    for path in change.paths:
        context.resolver.forget_all(path)
    return results


def changed_by(operations: Sequence[Request], results: Sequence[Any]) -> Iterator[str]:
    """What a transaction has created and deleted."""
    for operation, result in zip(operations, results, strict=True):
        if isinstance(operation, Create):
            yield join(split(operation.path)[0], split(result)[1])
        elif isinstance(operation, Delete):
            yield operation.path


def transact(context: Context, request: Request, ensemble: int, multi: Sequence[Request]) -> Operation[list[Any]]:
    """:param multi: the operations, with their physical paths on that ensemble."""
    operations, guard = request.operations, guard_of(request)
    planned: dict[int, Directory] = {}  # by index: directories to delete that have a mirror yet
    deletes: Deletes = {}
    steps = [[each] for each in multi]
    while True:
        results, index, error, _ = yield from send(ensemble, steps, planned, deletes, guard)
        if error is None:
            break
        if index == len(multi):
            is_worth_another = True
            if (refusal_at := (yield from delete_mirrors(context, planned, deletes))) is not None:
                results, is_worth_another = failed(operations, *refusal_at), False
        else:
            try:
                is_worth_another = yield from _prepare(context, operations, index, error, planned, deletes)
            except REFUSALS as refused:  # one ZooKeeper would have answered this at once
                results, is_worth_another = failed(operations, index, refused), False
        if not is_worth_another:
            for d, mark, _ in deletes.values():
                yield from take_mark(d, mark)
            return results
    for index, operation in enumerate(operations):
        if isinstance(operation, SetData):
            results[index] = yield from complete_stat(context, operation.path, results[index])
        elif isinstance(operation, Create) and not operation.flags and is_secret(operation.acl):
            yield from promote_secret(context, operation.path, operation.acl, 0)
    return results


def _place(context: Context, operations: Sequence[Request]) -> tuple[int, list[Request]]:
    """The one ensemble, and the operations with their physical paths."""
    places = [place_of(context, operation) for operation in operations]
    ensembles = {place.ensemble for place in places} or {context.resolver.bootstrap}
    if len(ensembles) > 1:
        raise CrossEnsembleError(
            [
                (METHODS[operation.type], operation.path, context.names[place.ensemble])
                for operation, place in zip(operations, places, strict=True)
            ]
        )
    multi = [placed(operation, place.path) for operation, place in zip(operations, places, strict=True)]
    return ensembles.pop(), multi


def place_of(context: Context, operation: Request) -> Place:
    """Where an operation of a transaction goes."""
    if not isinstance(operation, Create):
        return context.resolver.known(operation.path).home
    parent, name = split(operation.path)
    ensemble, path = context.resolver.known(parent).mirror
    return Place(ensemble, join(path, name))


def failed(operations: Sequence[Any], index: int, error: Exception) -> list[Exception]:
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
    multi: Sequence[Sequence[Request]],
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
    if any(_is_met(multi, index) for index in planned):
        return Sent([], len(multi), NotEmptyError())
    widened: list[Request] = []
    source: list[int] = []
    for index, steps in enumerate(multi):
        if index in planned:
            continue
        if index in deletes:
            d, _, marks = deletes[index]
            steps = last_step(d, marks, steps[-1].version)  # noqa: PLW2901 - in place of the user's
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


def _is_met(multi: Sequence[Sequence[Request]], index: int) -> bool:
    """Whether another operation may depend on this delete: on the same znode, the parent, a sequence number."""
    path: str = multi[index][-1].path
    return any(at != index and path.startswith(steps[-1].path) for at, steps in enumerate(multi))


def _prepare(
    context: Context,
    operations: Sequence[Request],
    index: int,
    error: Exception,
    planned: dict[int, Directory],
    deletes: Deletes,
) -> Operation[bool]:
    """After the multi failed at `index`: do what was missing. Returns whether to send it again."""
    operation = operations[index]
    if isinstance(operation, Create) and isinstance(error, NoNodeError):
        d = yield from context.resolver.find(split(operation.path)[0])
        if d.is_native:
            return False
        yield from promote(context, d)
        return True
    if not isinstance(operation, Delete):
        return False
    if isinstance(error, NoNodeError) and index not in deletes:
        yield from verify_may_delete_in(context, split(operation.path)[0])
    d = yield from context.resolver.find(operation.path)
    if d.is_native:
        return False
    context.resolver.forget(operation.path)
    if index in deletes:  # the directory has changed since its mirror was deleted
        _, mark, _ = deletes.pop(index)
        yield from take_mark(d, mark)
        if isinstance(error, NotEmptyError):
            yield from verify_no_foreign_child(d)
        return isinstance(error, (NoNodeError, NotEmptyError))
    if not isinstance(error, NotEmptyError):
        return False
    if (yield from may_delete(d)):
        planned[index] = d
    return True


def delete_mirrors(
    context: Context,
    planned: dict[int, Directory],
    deletes: Deletes,
    names_mirror: Callable[[Directory], Operation[bool]] | None = None,
) -> Operation[tuple[int, Exception] | None]:
    """Leave a mark on every directory, then delete the mirrors; returns where and why that was refused.

    :param names_mirror: whether the pin, held by the mark, names the mirror's ensemble; None if any does.
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
        if names_mirror is None or (yield from names_mirror(d)):
            begun[index] = mark
        else:
            yield from take_mark(d, mark)
    for index, mark in begun.items():
        d = planned[index]
        if refusal_at is not None:
            yield from take_mark(d, mark)
            continue
        try:
            marks = yield from remove_mirror(d, mark)
        except REFUSALS as refused:
            refusal_at = index, refused
        else:
            if marks:
                deletes[index] = d, mark, marks
    planned.clear()
    return refusal_at
