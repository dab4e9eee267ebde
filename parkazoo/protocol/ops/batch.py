"""Deferred writes where pins decide: a batch stays on the ensemble of its lane, and says which write does not."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.errors import GUARD, CrossEnsembleError
from parkazoo.kazoo_private import Create, Delete
from parkazoo.protocol.chain import LANDED, ChainedBatch, ChainStep, Landed
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.ops.creates import certainty_by_child, promote_secret, to_be
from parkazoo.protocol.ops.multi import METHODS, Sent
from parkazoo.protocol.ops.transaction import Attempt
from parkazoo.protocol.placement import CERTAIN, GUESS, HINT, PINNED, Directory, join, split
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.steps import Operation, WriteRequest, ask, failure, placed
from parkazoo.protocol.where.lookup import locate
from parkazoo.protocol.where.places import NATIVE, directory


def chained(context: Context, request: ChainedBatch) -> Operation[Landed]:
    """One multi, as a rule. It looks for a missing znode, as a user's transaction does."""
    places, writes = context.places, request.operations
    changed = [each.path for each in writes if isinstance(each, (Create, Delete))]
    if not changed:
        above: dict[str, Directory] = {}
        since, multi = places.count, _of_sets(context, request, above)
        if multi is not None:
            at, error = failure((yield from ask(request.marker.ensemble, ChainStep(multi))))
            if error is None:
                for parent, d in above.items():
                    if places.known(parent).certainty == GUESS:
                        places.remember(d, since, HINT if d.is_native else PINNED)
                return LANDED
            if not at or not isinstance(error, NoNodeError):
                return Landed(at - 1, error)
            if above[split(writes[at - 1].path)[0]].certainty == CERTAIN:
                return Landed(at - 1, error)
        return (yield from _Batch(context, request).land())
    for path in changed:
        places.forget(path)
    ensemble = request.marker.ensemble
    with context.past.begin(changed, ensemble if context.form is Form.PLAIN else -1) as change:
        landed = yield from _Batch(context, request).land()
        change.ensemble = ensemble if landed.error is None else -1  # else another operation may have failed
    for path in changed:
        places.forget(path)
    return landed


def _of_sets(context: Context, request: ChainedBatch, above: dict[str, Directory]) -> list[WriteRequest] | None:
    """The multi of a batch that makes and deletes nothing; None: something is thought to be elsewhere.

    :param above: gets the directories.
    """
    multi: list[WriteRequest] = [request.step]
    for operation in request.operations:
        parent, name = split(operation.path)
        d = above.get(parent)
        if d is None:
            d = above[parent] = context.places.known(parent)
            if d.mirror.ensemble != request.marker.ensemble:
                return None
        multi.append(placed(operation, join(d.mirror.path, name) if name else d.home.path))
    return multi


class _Batch(Attempt):
    """A batch that makes or deletes something, or of which something has to be looked for."""

    def __init__(self, context: Context, request: ChainedBatch) -> None:
        super().__init__(context, [request.step, *request.operations], None)
        self.ensemble = request.marker.ensemble
        self._marker = directory(request.marker.path, request.marker, NATIVE)
        self._has_guard = request.guard is not None
        self._since = context.places.count
        self._missing: set[str] = set()  # directories that are not there

    def land(self) -> Operation[Landed]:
        try:
            at, error = failure((yield from self.run()))
        except CrossEnsembleError:
            return self._sent_back()
        return LANDED if error is None else Landed(at - 1, error)

    def _sent_back(self) -> Landed:
        """Which operation is to go to another ensemble, or is refused: its directory is not there."""
        at = next(index for index, d in enumerate(self._homes) if d.home.ensemble != self.ensemble)
        if split(self.operations[at].path)[0] in self._missing:
            return Landed(at - 1, NoNodeError())
        if not self._has_guard or at == 1:  # the guard may be there too, if its directory has moved
            return Landed(at - 1, NoNodeError(), self._homes[at].home.ensemble)
        names = self.context.names
        both = [
            (
                METHODS[self.operations[each].type],
                self.operations[each].path,
                names[self._homes[each].home.ensemble],
            )
            for each in (1, at)
        ]
        return Landed(at - 1, CrossEnsembleError(both, GUARD))

    def _place(self) -> list[Directory]:
        return [self._marker, *super()._place()[1:]]

    def _locate_all(self) -> Operation[None]:
        """Those alone that are thought to be elsewhere. What is decided by that is the order of writes."""
        made = {operation.path for operation in self.operations if isinstance(operation, Create)}
        for operation, d in zip(self.operations, self._homes, strict=True):
            parent = split(operation.path)[0]
            is_certain = self.context.places.known(parent).certainty == CERTAIN
            if d.home.ensemble != self.ensemble and parent not in made and not is_certain:
                made.add(parent)  # once
                found = yield from locate(self.context, parent, is_fresh=True)
                self._take_in(parent, found)
                if found is None:
                    self._missing.add(parent)

    def _prepare(self, sent: Sent) -> Operation[bool]:
        return bool(sent.at) and (yield from super()._prepare(sent))

    def _complete(self, results: list[Any]) -> Operation[list[Any]]:
        """No one asks for the stats of sets."""
        for operation in self.operations[1:]:
            if isinstance(operation, Create) and is_secret(operation.acl):
                yield from promote_secret(self.context, operation.path, operation.acl, 0)
            self._remember(operation)
        return results

    def _remember(self, operation: WriteRequest) -> None:
        """Where a write was done."""
        places, parent = self.context.places, split(operation.path)[0]
        d = self._native.get(parent) or places.known(parent)
        if d.mirror.ensemble != self.ensemble:  # made here, and forgotten
            return
        if isinstance(operation, Create):
            places.remember(d, self._since, certainty_by_child(self.context, d))
        elif places.known(parent).certainty == GUESS:
            places.remember(d, self._since, HINT if d.is_native else PINNED)


def find_children(context: Context, path: str) -> Operation[int | None]:
    """The ensemble that holds the children of a directory, or would hold the first; None: it is not there."""
    places = context.places
    known = places.known(path)
    if known.certainty < PINNED:
        since = places.count
        found = yield from locate(context, path, is_fresh=True)
        if found is None:
            return None
        d = to_be(context, found)
        if found.certainty < PINNED and d.is_native:
            places.remember(d, since, HINT)
        return d.mirror.ensemble
    return known.mirror.ensemble
