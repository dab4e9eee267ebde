"""Whether a znode is there, and nothing else of it: its mirror proves that too, while its home is away."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import ConnectionLoss, NoAuthError

from parkazoo.kazoo_private import Exists
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.steps import NoAnswerYet, Step

UNANSWERED = (ConnectionLoss, NoAnswerYet)


class Presence(Exists):
    """A request that is answered True or False; it leaves no watch."""

    __slots__ = ()
    type = -16  # of no request of ZooKeeper's


def at_both(d: Directory) -> tuple[Step, Step]:
    """Ask for the home and for the mirror."""
    return (d.home.ensemble, Exists(d.home.path, None)), (d.mirror.ensemble, Exists(d.mirror.path, None))


def is_enough(answers: Sequence[object]) -> bool:
    """Whether the home has answered, whatever it says, or the mirror is there."""
    home, mirror = answers
    return not isinstance(home, UNANSWERED) or is_proved_by(mirror)


def mirror_is_enough(answers: Sequence[object]) -> bool:
    """Whether the mirror, which was asked first, is there."""
    return is_proved_by(answers[0])


def is_proved_by(mirror: object) -> bool:
    """Whether the answer to an Exists shows a mirror: a delete takes it away before the home."""
    return isinstance(mirror, NoAuthError) or not (isinstance(mirror, Exception) or mirror is None)
