"""What the operations of one client have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError, NotReadOnlyCallError

from parkazoo.protocol.epochs import Form
from parkazoo.protocol.past import CATCH_UP, Past
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.registration import Owners
from parkazoo.protocol.resolver import Resolver
from parkazoo.protocol.steps import Either, Operation, Request, Step
from parkazoo.protocol.watches import DirectoryWatch

REFUSED = (BadVersionError, NoAuthError, NoNodeError)  # the answers to CATCH_UP
BEHIND = (*REFUSED, NotReadOnlyCallError)  # a server that is cut off serves what it has


class Context:
    """What one client's operations run with: pure, apart from the functions that the session passes in.

    :param names: the ensembles' names by index. Others may be appended: see :meth:`grow`.
    :param new_mark: makes a name that is never used twice.
    :param watch: stands in for a user's watch: see :meth:`parkazoo.engine.watching.Watching.watch`.
    :param settle: called with such a watch and True when its call has succeeded, False when it has not.
    :param lock: held for a moment while the memory changes; operations run on several threads.
    :param owners: which client each session belongs to.
    :ivar known: where a path and its children are, as far as that is known without asking.
    :ivar form: of the map by which the operations work.
    """

    form = Form.PLAIN

    def __init__(
        self,
        placement: Placement,
        names: Sequence[str],
        new_mark: Callable[[], str],
        watch: Callable[[str, Callable[[Any], Any]], DirectoryWatch],
        settle: Callable[[DirectoryWatch, bool], None],
        owners: Owners,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.resolver = Resolver(placement, lock)
        self.known = self.resolver.known
        self.names = names
        self.new_mark = new_mark
        self.watch = watch
        self.settle = settle
        self.owners = owners
        self.past = Past(len(names), lock)

    def grow(self, ensembles: int) -> None:
        """There are more ensembles, at least two; called before any request goes to one of them."""
        self.owners.is_alone = False
        self.past.grow(ensembles)

    # ---- this client's own past ------------------------------------------------------------------

    def read(
        self, path: str, *steps: Step, is_enough: Callable[[Sequence[Any]], bool] | None = None
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

        def answers_behind(answers: Sequence[Any]) -> list[Any]:
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

    def ask(self, path: str, ensemble: int, request: Request) -> Operation[Any]:
        """One read of `path`, as :meth:`read`; returns its answer or raises it."""
        (answer,) = yield from self.read(path, (ensemble, request))
        if isinstance(answer, Exception):
            raise answer
        return answer
