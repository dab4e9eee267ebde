"""What a look of fsck's concludes: pure, and right while clients go on working.

No client sees several ensembles at one moment, so looks at two of them prove nothing:

- A mirror lives within the life of its pin, and the pin within the life of its home. So a mirror is wrong if its
  pin or home is missing at a moment *between* two looks at the very same mirror (its czxid), each no older than
  the one before (:func:`ask_fresh`).
- Deletes and set_acls under way leave marks and ACLs that differ for a while. So fsck looks at a directory twice,
  with time in between. Only a state that has not moved at all was left by a client that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from parkazoo.protocol.context import Context
from parkazoo.protocol.findings import FOREIGN, MISPLACED, Finding
from parkazoo.protocol.placement import Directory, Place, join
from parkazoo.protocol.snapshot import Snapshot
from parkazoo.protocol.steps import Operation

T = TypeVar("T")


class Suspect(NamedTuple):
    """A directory that looked wrong, and has to look the same a while later."""

    directory: Directory
    snapshot: Snapshot


class Unvisited(NamedTuple):
    """Names to look at next, and how to look at one."""

    look: Callable[[str], Operation[Audit]]
    names: list[str]


class Audit(NamedTuple):
    """The result of a look.

    :param hidden: znodes that this identity has no right to look at.
    :param undecided: znodes of which nothing can be said, because an ensemble that is away would have to be asked.
    :param moved: mirrors that moves have made, and that were looked at.
    """

    findings: Sequence[Finding] = ()
    suspects: Sequence[Suspect] = ()
    hidden: Sequence[Place] = ()
    unvisited: Sequence[Unvisited] = ()
    undecided: Sequence[Place] = ()
    moved: Sequence[Place] = ()


class AwayError(Exception):
    """An ensemble that is away would have to be asked."""


NOTHING = Audit()


def merge(*audits: Audit) -> Audit:
    return Audit(*(tuple(each for part in parts for each in part) for parts in zip(*audits, strict=True)))


def without(away: Collection[int], operation: Operation[T]) -> Operation[T]:
    """Run an operation that sends nothing to these ensembles: where it would, it gets an AwayError."""
    try:
        steps = next(operation)
        while True:
            if any(ensemble in away for ensemble, _ in steps):
                steps = operation.throw(AwayError())
            else:
                steps = operation.send((yield steps))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()


def judge_alone(place: Place, operation: Operation[Audit]) -> Operation[Audit]:
    """Return what an operation finds at `place`; if it needs an ensemble that is away, that it is undecided."""
    try:
        return (yield from operation)
    except AwayError:
        return Audit(undecided=[place])


def foreign(folder: Place, names: Iterable[str]) -> list[Finding]:
    return [Finding(FOREIGN, folder.ensemble, join(folder.path, name)) for name in names]


def misplaced(context: Context, parent: Place, directory: str, name: str) -> Finding:
    should = context.known(join(directory, name)).home
    detail = f"should be on {context.names[should.ensemble]}, with what is below it"
    return Finding(MISPLACED, parent.ensemble, join(parent.path, name), detail)
