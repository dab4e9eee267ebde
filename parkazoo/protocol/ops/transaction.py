"""A user's transaction where pins decide: one multi on one ensemble, or refused before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NoChildrenForEphemeralsError, NoNodeError, NotEmptyError

from parkazoo.errors import CrossEnsembleError
from parkazoo.kazoo_private import CheckVersion, Create, Delete, Exists, GetChildren, SetData, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import (
    ANY_VERSION,
    may_delete,
    take_mark,
    verify_no_foreign_child,
)
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.fence import make_fence, unprepared
from parkazoo.protocol.old_place import clear_moves
from parkazoo.protocol.ops.creates import (
    decide,
    has_mirror,
    may_be_native,
    names_mirror,
    native_marks,
    promote_secret,
    to_be,
)
from parkazoo.protocol.ops.deletes import last_of_native, look_at_pin, verify_may_delete_in
from parkazoo.protocol.ops.multi import (
    METHODS,
    REFUSALS,
    Deletes,
    Guard,
    Guarded,
    Sent,
    changed_by,
    delete_mirrors,
    failed,
    send,
)
from parkazoo.protocol.ops.whole_stat import complete_stat
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import CERTAIN, GUESS, PINNED, Directory
from parkazoo.protocol.reserved import refusal
from parkazoo.protocol.rights import is_secret, pin_acl
from parkazoo.protocol.steps import Operation, WriteRequest, ask, placed
from parkazoo.protocol.where.lookup import locate, verify_whole
from parkazoo.protocol.where.places import NATIVE, directory


def transaction(context: Context, request: Transaction | Guarded) -> Operation[list[Any]]:
    """Commit; like kazoo's, the result of a failed transaction is the list of errors.

    :raises CrossEnsembleError: the operations live on more than one ensemble; nothing was sent.
    """
    operations = request.operations
    for index, operation in enumerate(operations):
        if error := refusal(operation):
            return failed(operations, index, error)
    changed = [each.path for each in operations if isinstance(each, (Create, Delete))]
    attempt = Attempt(context, operations, request.guard if isinstance(request, Guarded) else None)
    ensemble = attempt.expect()
    for path in changed:
        context.places.forget(path)
    if not changed:
        return (yield from attempt.run())
    with context.past.begin(changed, ensemble) as change:
        results = yield from attempt.run()
        change.ensemble = -1  # another operation may be the one that failed
        if not isinstance(results[0], Exception):  # else all are
            change.paths = changed_by(operations, results)
            change.ensemble = attempt.ensemble
    for path in change.paths:
        context.places.forget(path)
    return results


class Attempt:
    """A transaction on its way, and what it has learned of the directories that it concerns."""

    def __init__(
        self,
        context: Context,
        operations: Sequence[WriteRequest],
        guard: Guard | None,
    ) -> None:
        self.context = context
        self.operations = operations
        self._guard = guard
        self.ensemble = context.places.bootstrap
        self._parents = [each.path.rpartition("/")[0] or "/" for each in operations]  # as split()
        self._homes: list[Directory] = []  # of each operation's path
        self._is_certain = False  # they are there for ever
        self._native: dict[str, Directory] = {}  # parents that are native, and not pinned yet
        self._found: dict[str, Directory] = {}  # parents that pins have just named: others may forget them again
        self._above: dict[str, Directory] = {}  # parents as the homes have them, whatever other threads learn
        self._is_guarded = context.form >= Form.GUARDED
        self._before: dict[int, list[WriteRequest]] = {}  # deletes: the steps in front, all on the same ensemble
        self._undone: set[int] = set()  # deletes of what this transaction itself has decided
        self._planned: dict[int, Directory] = {}  # deletes whose mirror is on another ensemble, still
        self._deletes: Deletes = {}
        self._had_children: set[int] = set()  # deletes that met children, and are sent again

    def expect(self) -> int:
        """The ensemble to which it will go; -1 if a place may turn out to be another.

        :raises CrossEnsembleError: there are several.
        """
        for parent in self._parents:
            if self.context.known(parent).certainty < CERTAIN:
                return -1
        self._homes = self._place()
        self._is_certain = True
        self.ensemble = self._one_ensemble()
        return self.ensemble

    def run(self) -> Operation[list[Any]]:
        operations = self.operations
        try:
            while True:
                multi = yield from self._multi()
                try:
                    sent = yield from send(self.ensemble, multi, self._planned, self._deletes, self._guard)
                except ConnectionLoss as lost:
                    self.context.answered(self.ensemble, lost)
                    raise
                if sent.error is None:
                    break
                refused_at: tuple[int, Exception] | None = None
                if sent.at == len(operations):
                    names = partial(_names_mirror, self.context)
                    refused_at = yield from delete_mirrors(self.context, self._planned, self._deletes, names)
                    if refused_at is None:
                        continue
                elif not (sent.at in self._had_children and isinstance(sent.error, NotEmptyError)):
                    try:
                        if (yield from self._prepare(sent)):
                            continue
                    except REFUSALS as refused:  # one ZooKeeper would have answered this at once
                        refused_at = sent.at, refused
                yield from self._give_up()
                if refused_at is None:
                    return sent.results
                if not self._must_see_again(*refused_at):
                    return failed(operations, *refused_at)
                self._had_children.add(refused_at[0])
        except CrossEnsembleError:
            yield from self._give_up()
            raise
        return (yield from self._complete(sent.results))

    def _must_see_again(self, at: int, refused: Exception) -> bool:
        """Whether a directory had children after its version, or an operation before it, was seen to fit.

        If both fit when they are seen again, they fitted in between too.
        """
        operation = self.operations[at]
        if not isinstance(operation, Delete) or not isinstance(refused, NotEmptyError):
            return False
        return at > 0 or operation.version != ANY_VERSION

    def _give_up(self) -> Operation[None]:
        for d, mark, _ in self._deletes.values():
            yield from take_mark(d, mark)
        self._deletes.clear()

    def _complete(self, results: list[Any]) -> Operation[list[Any]]:
        for index, operation in enumerate(self.operations):
            if isinstance(operation, SetData):
                results[index] = yield from complete_stat(self.context, self._homes[index], results[index])
            elif isinstance(operation, Create) and not operation.flags and is_secret(operation.acl):
                yield from promote_secret(self.context, operation.path, operation.acl, 0)
        return results

    # ---- the multi -------------------------------------------------------------------------------

    def _multi(self) -> Operation[list[list[WriteRequest]]]:
        """For each operation the steps in front of it, then itself."""
        if not self._is_certain:
            self._found.clear()
            self._homes = self._place()
            if len({d.home.ensemble for d in self._homes}) > 1 or self._is_guess_away():
                yield from self._locate_all()
                self._homes = self._place()
            self.ensemble = self._one_ensemble()
        born: dict[str, tuple[Create, Directory]] = {}  # made here, and without a child yet
        decided_here: dict[str, list[WriteRequest]] = {}  # the steps that undo it
        self._undone.clear()
        multi = []
        for index, (operation, d) in enumerate(zip(self.operations, self._homes, strict=True)):
            steps = list(self._before.get(index, ()))
            parent = self._parents[index]
            if isinstance(operation, Create):
                if parent in born:
                    made = yield from self._decide_here(*born.pop(parent))
                    decided_here[parent] = _undo(made)
                    steps += made
                elif parent in self._native and parent not in decided_here:
                    made = self._native_marks(self._native[parent])
                    decided_here[parent] = _undo(made)
                    steps += made
                elif self._is_guarded and (proof := self._proof_of(parent)) is not None:
                    steps.append(CheckVersion(proof, -1))
                if not operation.flags:
                    born[operation.path] = operation, d
            elif isinstance(operation, Delete) and operation.path in decided_here:
                steps = decided_here.pop(operation.path)
                self._undone.add(index)
            multi.append([*steps, placed(operation, d.home.path)])
        return _with_each_fence_once(multi)

    def _one_ensemble(self) -> int:
        ensembles = {d.home.ensemble for d in self._homes} or {self.context.places.bootstrap}
        if len(ensembles) > 1:
            raise CrossEnsembleError(
                [
                    (METHODS[operation.type], operation.path, self.context.names[d.home.ensemble])
                    for operation, d in zip(self.operations, self._homes, strict=True)
                ]
            )
        return ensembles.pop()

    def _proof_of(self, parent: str) -> str | None:
        """The proof that the children of a native directory are below it; None if there is none, or need be."""
        above = self._above.get(parent) or self.context.places.known(parent)
        return above.proof if above.is_native and above.certainty < CERTAIN else None

    def _is_guess_away(self) -> bool:
        """Whether a place is a guess, and of an ensemble that is away."""
        parents = map(self.context.places.known, self._parents)
        return any(d.certainty == GUESS and d.mirror.ensemble in self.context.away for d in parents)

    def _place(self) -> list[Directory]:
        """Where the operations' znodes are, or will be."""
        places, made, homes = self.context.places, dict[str, Directory](), []
        known = self._above = {**self._found, **self._native}
        for operation, parent in zip(self.operations, self._parents, strict=True):
            if parent in made:
                above = directory(parent, made[parent].home, places.guess(parent))
            elif isinstance(operation, Create) or parent in known:
                above = known[parent] = known.get(parent) or places.known(parent)
            else:
                homes.append(places.known(operation.path))
                continue
            d = places.below(above, operation.path) if parent != operation.path else above
            if isinstance(operation, Create):
                made[operation.path] = d
            homes.append(d)
        return homes

    def _locate_all(self) -> Operation[None]:
        """Ask the pins: the places that the client thinks of are apart."""
        made = {operation.path for operation in self.operations if isinstance(operation, Create)}
        for parent in dict.fromkeys(self._parents):
            if parent not in made and self.context.places.known(parent).certainty < CERTAIN:
                self._take_in(parent, (yield from locate(self.context, parent)))

    def _take_in(self, parent: str, found: Directory | None) -> None:
        """What has been found out of the place of a directory's children."""
        self._native.pop(parent, None)
        if found is not None and found.certainty >= PINNED:
            self._found[parent] = found
            return
        self.context.places.drop(parent)
        if found is not None and (d := to_be(self.context, found)).is_native:
            self._native[parent] = d

    def _decide_here(self, operation: Create, d: Directory) -> Operation[list[WriteRequest]]:
        """The steps that make a directory, which this transaction makes too, one with children on its ensemble."""
        if self.context.places.guess(d.path) == NATIVE:
            return self._native_marks(d)
        mirror = directory(d.path, d.home, self.ensemble)
        fence = yield from make_fence(mirror)
        pin = encode_pin(fence, self.context.names[self.ensemble])
        return [
            SetData(mirror.fence, b"", -1),
            Create(mirror.pin, pin, pin_acl(operation.acl), 0),
            Create(mirror.mirror.path, b"", operation.acl, 0),
        ]

    def _native_marks(self, d: Directory) -> list[WriteRequest]:
        return native_marks(d) if self._is_guarded else []

    # ---- what was missing --------------------------------------------------------------------------

    def _prepare(self, sent: Sent) -> Operation[bool]:
        """After the multi failed at an operation: do what was missing. Returns whether to send it again."""
        operation, d, error = self.operations[sent.at], self._homes[sent.at], sent.error
        parent = self._parents[sent.at]
        if isinstance(error, (NoAuthError, NoChildrenForEphemeralsError)):
            return False
        if sent.at in self._undone:
            return False
        if sent.at in self._deletes or sent.at in self._before:
            return (yield from self._prepare_again(sent, d))
        if isinstance(error, NoNodeError) or not sent.is_own:
            before = [each for each in self.operations[: sent.at] if each.path == parent]
            if any(isinstance(each, (Create, Delete)) for each in before):
                if sent.is_own or isinstance(before[-1], Delete):
                    return False
                raise unprepared(directory(parent, d.home, self.ensemble))
            above = self.context.known(parent)
            if above.certainty == CERTAIN:
                return (yield from self._make_mirror(above, operation))
            return (yield from self._look_for(parent, operation, d))
        is_native = d.certainty == CERTAIN and d.is_native
        if isinstance(operation, Delete) and isinstance(error, NotEmptyError) and not is_native:
            return (yield from self._prepare_delete(sent.at, d, operation.version))
        return False

    def _make_mirror(self, above: Directory, operation: WriteRequest) -> Operation[bool]:
        """A znode, or what it is to be made below, was not found where its place is certain."""
        if isinstance(operation, Create) and not above.is_native:
            self.context.places.drop(above.path)
            yield from decide(self.context, above.path)
            return True
        if isinstance(operation, Delete):
            yield from verify_may_delete_in(self.context, above.path)
        return False

    def _look_for(self, parent: str, operation: WriteRequest, d: Directory) -> Operation[bool]:
        """A znode, or what it is to be made below, was not found."""
        if not isinstance(operation, Create) and (yield from self._has_mirror_here(parent)):
            return False
        found = yield from locate(self.context, parent, is_fresh=True)
        self._take_in(parent, found)
        was_there = found is not None and self.context.places.below(found, d.path).home == d.home
        if found is not None and found.is_native and was_there and isinstance(operation, Create):
            yield from verify_whole(found)
        if isinstance(operation, Create) and found is not None:
            if self._is_to_decide(found) or (found.certainty == PINNED and not found.is_native and was_there):
                try:
                    yield from decide(self.context, parent)
                except NoAuthError:  # without the ACL for a mirror
                    if not may_be_native(self.context, found):
                        raise
                    self._native[parent] = found
            return True
        if found is None or self._is_to_decide(found) or was_there:
            if isinstance(operation, Delete):
                yield from verify_may_delete_in(self.context, parent)
            return False
        return True

    def _has_mirror_here(self, parent: str) -> Operation[bool]:
        """Whether the home need not be asked: the children are where the multi was sent."""
        d = self.context.places.known(parent)
        return not d.is_native and d.mirror.ensemble == self.ensemble and (yield from has_mirror(d))

    def _is_to_decide(self, found: Directory) -> bool:
        """Whether an undecided directory is to have a mirror: it has no child yet."""
        return found.certainty < PINNED and not to_be(self.context, found).is_native

    def _prepare_delete(self, index: int, d: Directory, version: int) -> Operation[bool]:
        """A directory is to be deleted that has a pin, or children."""
        try:
            pinned = yield from look_at_pin(self.context, d)
        except NotEmptyError:
            pinned = yield from self._native_with_children(d)
        if pinned is None:
            return True
        if pinned.is_native:
            self._before[index] = last_of_native(pinned, version)[:-1]
        elif pinned.mirror.ensemble == self.ensemble:
            self._before[index] = yield from _last_of_mirrored_here(self.context, pinned)
        elif (yield from may_delete(pinned)):
            self._planned[index] = pinned
        return True

    def _native_with_children(self, d: Directory) -> Operation[Directory]:
        """A native directory whose children this transaction may delete as well."""
        if (yield from ask(d.home.ensemble, Exists(d.proof, None))) is None:
            raise NotEmptyError
        return directory(d.path, d.home, NATIVE)

    def _prepare_again(self, sent: Sent, d: Directory) -> Operation[bool]:
        """The directory to delete has changed since it was looked at; or it has children."""
        error = sent.error
        if sent.at in self._deletes:
            pinned, mark, _ = self._deletes.pop(sent.at)
            yield from take_mark(pinned, mark)
            if isinstance(error, NotEmptyError):
                yield from verify_no_foreign_child(pinned)
            return isinstance(error, (NoNodeError, NotEmptyError))
        del self._before[sent.at]
        if not isinstance(error, NotEmptyError):
            if not sent.is_own:
                yield from verify_whole(d)
            return not sent.is_own or isinstance(error, NoNodeError)
        try:
            marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
        except NoNodeError:
            return True
        if (yield from ask(d.home.ensemble, Exists(d.proof, None))) is None:
            return bool(marks)  # one has come
        return bool(marks) and not (yield from clear_moves(self.context, d, marks))


def _undo(made: list[WriteRequest]) -> list[WriteRequest]:
    """The steps that delete what these make."""
    return [Delete(each.path, -1) for each in reversed(made) if isinstance(each, Create)]


def _with_each_fence_once(multi: list[list[WriteRequest]]) -> list[list[WriteRequest]]:
    """Directories may share a fence, which goes up with the first of them: a second time its version is another.

    Of the versions that were seen the lowest counts: none of what was read behind one of them has changed then.
    """
    seen: dict[str, list[int]] = {}
    for steps in multi:
        for step in steps[:-1]:
            if isinstance(step, SetData):
                seen.setdefault(step.path, []).append(step.version)
    if max(map(len, seen.values()), default=1) == 1:
        return multi
    return [[*_fences_from(seen, steps[:-1]), steps[-1]] for steps in multi]


def _fences_from(seen: dict[str, list[int]], steps: Sequence[WriteRequest]) -> Iterator[WriteRequest]:
    for step in steps:
        if not isinstance(step, SetData):
            yield step
        elif versions := seen.pop(step.path, None):
            yield step._replace(version=min((each for each in versions if each >= 0), default=-1))


def _last_of_mirrored_here(context: Context, d: Directory) -> Operation[list[WriteRequest]]:
    """The steps in front of the delete of a home, if its mirror is on the same ensemble.

    The fence goes up with them, so that no promotion that began earlier can land.
    """
    fence = yield from make_fence(d)
    try:
        marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
        marks = yield from clear_moves(context, d, marks)
    except NoNodeError:
        return []
    steps: list[WriteRequest] = [SetData(d.fence, b"", fence.version)]
    if (yield from has_mirror(d)):
        steps.append(Delete(d.mirror.path, -1))
    return [*steps, *(Delete(d.mark(mark), -1) for mark in marks), Delete(d.pin, -1)]


def _names_mirror(context: Context, d: Directory) -> Operation[bool]:
    try:
        return (yield from names_mirror(context, d))
    except NoNodeError:
        return False
