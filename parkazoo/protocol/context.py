"""What the operations of one client have in common.

Operations work by one form of the map from their begin to their end. The forms differ in this:

    form      makes a child below a home         decides where the children of a directory are
    plain     by a plain create                  the path, by the first epoch
    tolerant  by a plain create                  a pin; else the first epoch; below the home it leaves no pin
    guarded   by one that asks for the proof     a pin; else the first epoch
    grown     the same                           a pin; else the newest epoch, unless there were children before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kazoo.exceptions import ConnectionLoss, NotReadOnlyCallError

from parkazoo.protocol.epochs import Form
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.moving import Moving
from parkazoo.protocol.past import CATCH_UP, REFUSED, Past
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.registration import Owners
from parkazoo.protocol.steps import DataAnswer, Either, Operation, Question, Step, T
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.places import Places
from parkazoo.types.znodes import Watch

BEHIND = (*REFUSED, NotReadOnlyCallError)  # a server that is cut off serves what it has


@dataclass(eq=False)
class Context:
    """What one client's operations run with: pure, apart from the functions that the session passes in.

    :param form: of the map by which the operations work.
    :param places: where znodes are, as far as this client knows.
    :param names: the ensembles' names by index. Others may be appended: see :meth:`grow`.
    :param new_mark: makes a name that is never used twice.
    :param watch: stands in for a user's watch: see :meth:`parkazoo.engine.watching.Watching.watch`.
    :param settle: called with such a watch and True when its call has succeeded, False when it has not.
    :param owners: which client each session belongs to.
    :param past: what this client has changed.
    :param is_joined: whether the client has joined an ensemble.
    :param is_connected: whether it has a connection there, as far as it knows.
    :param take_copy: called with an ensemble and the answer to a read of its map: the client may know more
        ensembles then.
    :param hold: of a directory that moves; None: there is none.
    :ivar known: where a path and its children are, as far as that is known without asking.
    :ivar away: ensembles whose last answer to a question of where children are was a lost connection.
    :ivar proofs: directories below which a child was not found, by the proof under way.
    """

    form: Form
    places: Places
    names: Sequence[str]
    new_mark: Callable[[], str]
    watch: Callable[[str, Watch], DirectoryWatch]
    settle: Callable[[DirectoryWatch, bool], None]
    owners: Owners
    past: Past
    is_joined: Callable[[int], bool]
    is_connected: Callable[[int], bool]
    take_copy: Callable[[int, DataAnswer], None]
    hold: Hold | None = None
    away: set[int] = field(default_factory=set, init=False)
    proofs: dict[object, str] = field(default_factory=dict, init=False)
    known: Callable[[str], Directory] = field(init=False)

    def __post_init__(self) -> None:
        self.known = self.places.known

    @property
    def moving(self) -> Moving | None:
        """What the map says of a directory that moves."""
        return None if self.hold is None else self.hold.moving

    def unheld(self) -> Context:
        """Return the context of operations that need not wait for the end of a move."""
        return self.risen(self.form, self.places)

    def risen(self, form: Form, places: Places, hold: Hold | None = None) -> Context:
        """Return the context of operations that begin by a newer form of the map."""
        return replace(self, form=form, places=places, hold=hold)

    def follow(self, newer: Context) -> None:
        """Work by the places of a newer map of the same form from now on."""
        self.places, self.known, self.hold = newer.places, newer.known, newer.hold

    def grow(self, ensembles: int) -> None:
        """There are more ensembles, at least two; called before any request goes to one of them."""
        self.owners.is_alone = False
        self.past.grow(ensembles)

    # ---- ensembles that are away -----------------------------------------------------------------

    def answered(self, ensemble: int, answer: object) -> None:
        """An ensemble has answered a question of where children are; or its connection was lost."""
        if isinstance(answer, ConnectionLoss):
            self.away.add(ensemble)
        elif self.away:
            self.away.discard(ensemble)

    def may_ask_guess(self, d: Directory) -> bool:
        """Whether to ask first where the children of a directory would be, and not the pin.

        A guess does not make the client join, unless the home is away; and a guess of an absent ensemble waits.
        There is no guess of a directory that moves.
        """
        guess = d.mirror.ensemble
        may_ask = d.home.ensemble in self.away or (self.is_joined(guess) and guess not in self.away)
        return may_ask and not d.is_nowhere

    # ---- this client's own past ------------------------------------------------------------------

    def read(
        self, path: str, *steps: Step, is_enough: Callable[[Sequence[object]], bool] | None = None
    ) -> Operation[list[Any]]:
        """The answers to reads of `path`, none from before what this client has created or deleted there.

        An ensemble that may be behind first gets a write that cannot succeed. If that is lost, so are its reads.

        :param is_enough: see :class:`Either`; None: all answers are waited for.
        """
        past = self.past
        behind = [ensemble for ensemble in dict(steps) if past.is_behind(ensemble, path)]
        if not behind:
            return (yield steps if is_enough is None else Either.of(steps, is_enough))
        count = past.count
        sent = (*((ensemble, CATCH_UP) for ensemble in behind), *steps)

        def answers_behind(answers: Sequence[object]) -> list[object]:
            lost = {at: each for at, each in zip(behind, answers, strict=False) if not isinstance(each, BEHIND)}
            return [lost.get(at, answer) for (at, _), answer in zip(steps, answers[len(behind) :], strict=True)]

        if is_enough is None:
            answers = yield sent
        else:
            answers = yield Either.of(sent, lambda answers: is_enough(answers_behind(answers)))
        for ensemble, answer in zip(behind, answers, strict=False):
            if isinstance(answer, REFUSED):
                past.caught_up(ensemble, count)
        return answers_behind(answers)

    def ask(self, path: str, ensemble: int, request: Question[T]) -> Operation[T]:
        """One read of `path`, as :meth:`read`; returns its answer or raises it."""
        (answer,) = yield from self.read(path, (ensemble, request))
        if isinstance(answer, Exception):
            raise answer
        return answer
