"""Whether a znode is there, and nothing else of it: its mirror proves that too, while its home is away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError

from parkazoo.kazoo_private import Exists
from parkazoo.protocol.context import Context
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.steps import NoAnswerYet, Operation, Step

UNANSWERED = (ConnectionLoss, NoAnswerYet)


class Presence(Exists):
    """A request that is answered True or False; it leaves no watch."""

    __slots__ = ()
    type = -16  # of no request of ZooKeeper's


def is_there(context: Context, request: Presence) -> Operation[bool]:
    """Whether the znode is there, as soon as its home or its mirror says so."""
    d = context.known(request.path)
    if d.is_native:
        return (yield from context.ask(d.path, d.home.ensemble, Exists(d.home.path, None))) is not None
    home, mirror = yield from context.read(d.path, *at_both(d), is_enough=is_enough)
    if is_proved_by(mirror):
        return True
    if isinstance(home, Exception):
        raise home
    return home is not None


def at_both(d: Directory) -> tuple[Step, Step]:
    """Ask for the home and for the mirror."""
    return (d.home.ensemble, Exists(d.home.path, None)), (d.mirror.ensemble, Exists(d.mirror.path, None))


def is_enough(answers: Sequence[Any]) -> bool:
    """Whether the home has answered, whatever it says, or the mirror is there."""
    home, mirror = answers
    return not isinstance(home, UNANSWERED) or is_proved_by(mirror)


def mirror_is_enough(answers: Sequence[Any]) -> bool:
    """Whether the mirror, which was asked first, is there."""
    return is_proved_by(answers[0])


def is_proved_by(mirror: Any) -> bool:
    """Whether the answer to an Exists shows a mirror: a delete takes it away before the home."""
    return isinstance(mirror, NoAuthError) or not (isinstance(mirror, Exception) or mirror is None)
