"""What the operations of one client have in common, if the pins decide where children are.

A map that is to grow gets there in steps. Its clients work by pins in each of them, and differ in this:

    form      makes a child below a home         decides where the children of a directory are
    tolerant  by a plain create                  by the first epoch; below the home it leaves no pin
    guarded   by one that asks for the proof     by the first epoch
    grown     the same                           by the newest epoch, unless there were children before
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionLoss

from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.grown.places import Places
from parkazoo.protocol.placement import Directory


class GrownContext(Context):
    """What one client's operations run with; it shares all but the places with the context before.

    :param form: TOLERANT, GUARDED or GROWN.
    :param is_joined: whether the client has joined an ensemble.
    :param take_copy: called with an ensemble and the answer to a read of its map: the client may know more
        ensembles then.
    :ivar away: ensembles whose last answer to a question of where children are was a lost connection.
    :ivar proofs: directories below which a child was not found, by what is proving that.
    """

    def __init__(
        self,
        form: Form,
        before: Context,
        places: Places,
        is_joined: Callable[[int], bool],
        take_copy: Callable[[int, Any], None],
    ) -> None:
        vars(self).update(vars(before))
        self.form = form
        self.places = places
        self.known = places.known
        self.is_joined = is_joined
        self.take_copy = take_copy
        self.away: set[int] = set()
        self.proofs: dict[object, str] = {}

    def answered(self, ensemble: int, answer: Any) -> None:
        """An ensemble has answered a question of where children are; or its connection was lost."""
        if isinstance(answer, ConnectionLoss):
            self.away.add(ensemble)
        elif self.away:
            self.away.discard(ensemble)

    def may_ask_guess(self, d: Directory) -> bool:
        """Whether to ask first where the children of a directory would be, and not the pin.

        A guess does not make the client join, unless the home is away; and that of an ensemble that is away waits.
        """
        guess = d.mirror.ensemble
        return d.home.ensemble in self.away or (self.is_joined(guess) and guess not in self.away)
