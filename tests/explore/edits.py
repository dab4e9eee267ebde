"""What mutants do to the steps of an operation, and to the answers: wrong operations are made of right ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from kazoo.exceptions import NoNodeError

from parkazoo.kazoo_private import Exists, GetChildren, SetData, Transaction
from parkazoo.protocol.placement import FENCES, MIRRORS, PIN, split
from parkazoo.protocol.steps import Either, Operation, Request, Step
from tests.explore.mutation import Wrong
from tests.explore.znodes import Answer, path_of

Between = Callable[[tuple[Step, ...]], Operation[list[Any]]]  # sends steps, perhaps others, and answers them
Fits = Callable[[Request], bool]
Generate = Callable[..., Operation[Any]]


# ---- which request it is -----------------------------------------------------------------------


def is_mirror(request: Request) -> bool:
    return split(path_of(request))[0] == MIRRORS


def is_of_fence(request: Request) -> bool:
    return split(path_of(request))[0] == FENCES


def is_bump(request: Request) -> bool:
    return isinstance(request, SetData) and is_of_fence(request) and request.version == -1


def is_checked_bump(request: Request) -> TypeGuard[SetData]:
    return isinstance(request, SetData) and is_of_fence(request) and request.version != -1


def is_pin(request: Request) -> bool:
    return split(path_of(request))[1] == PIN


def is_mark(request: Request) -> bool:
    return split(split(path_of(request))[0])[1] == PIN


def lists_marks(request: Request) -> bool:
    return isinstance(request, GetChildren) and is_pin(request)


def operations_of(request: Request) -> Sequence[Request]:
    """Those of a multi; else the request itself."""
    return request.operations if isinstance(request, Transaction) else (request,)


# ---- operations --------------------------------------------------------------------------------


def through(make: Callable[..., Between]) -> Wrong:
    """Each run of the operation goes through what `make` makes of its arguments."""

    def wrong(operation: Generate) -> Generate:
        return lambda *arguments: passed(operation(*arguments), make(*arguments))

    return wrong


def passed(operation: Operation[Any], between: Between) -> Operation[Any]:
    """An operation with `between` in place of the servers."""
    try:
        steps = next(operation)
        while True:
            steps = operation.send((yield from between(steps)))
    except StopIteration as stop:
        return stop.value
    finally:
        operation.close()


class Running:
    """Which runs of an operation go on just now: something else is wrong as long as they do.

    :param only_begins: only until their first request.
    :ivar now: their arguments, the innermost last.
    """

    def __init__(self, *, only_begins: bool = False) -> None:
        self.now: list[tuple[Any, ...]] = []
        self._only_begins = only_begins

    def __call__(self, operation: Generate) -> Generate:
        return lambda *arguments, **named: self._run(operation(*arguments, **named), arguments)

    def _run(self, operation: Operation[Any], arguments: tuple[Any, ...]) -> Operation[Any]:
        answers: Any = None
        try:
            while True:
                is_watched = answers is None or not self._only_begins
                self.now += [arguments] * is_watched
                try:
                    steps = operation.send(answers)
                finally:
                    del self.now[len(self.now) - is_watched :]
                answers = yield steps
        except StopIteration as stop:
            return stop.value
        finally:
            operation.close()


def saying(value: Any) -> Generate:
    """An operation that asks nobody."""

    def operation(*arguments: object) -> Operation[Any]:
        yield from ()
        return value

    return operation


def sent(steps: tuple[Step, ...]) -> Operation[list[Any]]:
    """As it is."""
    return (yield steps)


# ---- steps and answers -------------------------------------------------------------------------


def edited(edit: Callable[[Any], Any]) -> Wrong:
    """Other requests, those of multis too."""

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        return (yield like(steps, [(ensemble, in_multi(edit, request)) for ensemble, request in steps]))

    return through(lambda *_: between)


def in_multi(edit: Callable[[Any], Any], request: Any) -> Any:
    """The edited request; of a multi, its requests are."""
    if isinstance(request, Transaction):
        return Transaction([edit(each) for each in request.operations])
    return edit(request)


def like(steps: tuple[Step, ...], sent: Sequence[Step]) -> tuple[Step, ...]:
    """What is sent in place of steps, waited for as they are."""
    return Either.of(sent, steps.is_enough) if isinstance(steps, Either) else tuple(sent)


def answered(fits: Fits, answer: Callable[[Any], Any]) -> Wrong:
    """Other answers to the requests that fit."""

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        answers = yield steps
        return [answer(each) if fits(request) else each for (_, request), each in zip(steps, answers, strict=True)]

    return through(lambda *_: between)


def unasked(fits: Fits, answer: Answer) -> Between:
    """The requests that fit are not sent, and are answered all the same."""

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        sent = [step for step in steps if not fits(step[1])]
        if len(sent) == len(steps):
            return (yield steps)
        assert not isinstance(steps, Either)
        answers = iter((yield tuple(sent)) if sent else ())
        return [answer if fits(request) else next(answers) for _, request in steps]

    return between


def without(fits: Fits) -> Between:
    """Multis lack the operations that fit; these are answered as if they had been done."""

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        sent: list[Step] = []
        for ensemble, request in steps:
            if isinstance(request, Transaction):
                kept = Transaction([each for each in request.operations if not fits(each)])
                sent.append((ensemble, kept))
            else:
                sent.append((ensemble, request))
        answers = yield like(steps, sent)
        return [_filled(request, answer, fits) for (_, request), answer in zip(steps, answers, strict=True)]

    return between


def _filled(request: Request, answer: Answer, fits: Fits) -> Answer:
    if not isinstance(request, Transaction) or not isinstance(answer, list):
        return answer
    results = iter(answer)
    return [True if fits(each) else next(results) for each in request.operations]


def apart(fits: Fits) -> Between:
    """The deletes of a multi that fit are sent before it, one by one."""
    rest = without(fits)

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        for ensemble, request in steps:
            if isinstance(request, Transaction):
                for each in filter(fits, request.operations):
                    (answer,) = yield ((ensemble, each),)
                    if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
                        raise answer
        return (yield from rest(steps))

    return between


def unbumped(steps: tuple[Step, ...]) -> Operation[list[Any]]:
    """Fences are read where they would go up."""
    answers = yield like(
        steps,
        [
            (ensemble, Exists(path_of(request), None) if is_bump(request) else request)
            for ensemble, request in steps
        ],
    )
    return [
        NoNodeError() if answer is None and is_bump(request) else answer
        for (_, request), answer in zip(steps, answers, strict=True)
    ]


def with_newest_fence(steps: tuple[Step, ...]) -> Operation[list[Any]]:
    """A fence is read once more just before it goes up from the version that was read."""
    newest: dict[str, int] = {}
    for ensemble, request in steps:
        for each in filter(is_checked_bump, operations_of(request)):
            (stat,) = yield ((ensemble, Exists(each.path, None)),)
            newest[each.path] = stat.version

    def edit(request: Any) -> Any:
        return request._replace(version=newest[request.path]) if is_checked_bump(request) else request

    return (yield like(steps, [(ensemble, in_multi(edit, request)) for ensemble, request in steps]))
