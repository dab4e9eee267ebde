"""Operations run alone, one after the other, on a model: how tests bring it into a state and look at it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import try_promote
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.ops.creates import names_mirror
from parkazoo.protocol.past import Past
from parkazoo.protocol.placement import DONE, FENCES, HINT, MIRRORS, PINNED, ROOT, Directory, Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.registration import Owners
from parkazoo.protocol.steps import Operation, Step
from parkazoo.protocol.where.places import NATIVE, Places, directory
from tests.explore.model import Model
from tests.explore.scenario import MOVE, MOVED, MOVED_TO, UNPINNED, Knows
from tests.explore.znodes import ANYONE, Answer, Request, Who
from tests.where_is import where_is

T = TypeVar("T")


class Marks:
    """Names for marks: never twice the same from one, nor from two with different prefixes."""

    def __init__(self, prefix: str = "mark") -> None:
        self.prefix = prefix
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"


def find_directory(placement: Placement, is_native: bool, parent: str = "/", name: str = "d") -> str:
    """A path below `parent` that is native, or is not."""
    start = "/" if parent == "/" else parent + "/"
    return next(p for n in range(1000) if placement.is_native(p := f"{start}{name}{n}") is is_native)


def prepared(placement: Placement, directories: Iterable[str] = (), has_lag: bool = False) -> Model:
    """Ensembles with what `parkazoo map init` makes on each, the fences only of `directories`."""
    model = Model(placement.ensembles, has_lag)
    for ensemble in range(placement.ensembles):
        for path in (ROOT, MIRRORS, FENCES, DONE):
            must(model.execute(ensemble, Create(path, b"", OPEN_ACL_UNSAFE, 0)))
    found = [where_is(placement, directory) for directory in directories]
    for ensemble, fence in {(d.mirror.ensemble, d.fence) for d in found}:
        must(model.execute(ensemble, Create(fence, b"", OPEN_ACL_UNSAFE, 0)))
    return model


def promote(context: Context, d: Directory) -> Operation[object]:
    """As the first child's create does, without a child."""
    return try_promote(context, d, None, None, False, partial(names_mirror, context, d))


def make_context(placement: Placement, marks: str = "mark", who: Who = ANYONE, **others: object) -> Context:
    """A context without watches, whose client has the id of its session on the first ensemble.

    It is of a plain map. The client has joined all ensembles, and knows them all.
    """

    def unwatched(*args: object) -> object:
        raise AssertionError("this test has no watches")

    def take_copy(ensemble: int, copy: object) -> None:
        raise AssertionError("the map does not change")

    names = [f"e{index}" for index in range(placement.ensembles)]
    owners = Owners(lambda ensemble: who.owners[ensemble], lambda: who.owners[0], is_alone=len(names) == 1)
    given = {"watch": unwatched, "settle": unwatched, "lock": nullcontext()} | others
    lock = given.pop("lock")
    return Context(
        Form.PLAIN,
        Places(placement, lock=lock),  # type: ignore[arg-type]
        names,
        Marks(marks),
        owners=owners,
        past=Past(len(names), lock),  # type: ignore[arg-type]
        is_joined=lambda ensemble: True,
        is_connected=lambda ensemble: ensemble % 2 == 0,  # so both ways are gone
        take_copy=take_copy,
        **given,  # type: ignore[arg-type]
    )


def make_grown(context: Context, first: Placement, knows: Knows) -> Context:
    """The context of a client of a grown map, for one of a plain map."""
    places = Places(first, knows.guess, nullcontext())
    for path, where in knows.hints:
        certainty = HINT if where == UNPINNED else PINNED
        home, generation = places.known(path).home, MOVE if where == MOVED else ""
        where = MOVED_TO if where == MOVED else max(where, NATIVE)  # noqa: PLW2901 - in one word, the rest in others
        places.remember(directory(path, home, where, generation=generation), 0, certainty)
    return context.risen(knows.form, places)


def must(answer: T) -> T:
    """:raises Exception: the answer, if it is one."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def run(model: Model, operation: Operation[T], who: Who = ANYONE, log: list[Step] | None = None) -> T:
    """Run a generator to its end, alone; its result, or its error raised. `log` gets its requests."""
    try:
        steps = next(operation)
        while True:
            if log is not None:
                log += steps
            steps = operation.send([model.execute(ensemble, request, who) for ensemble, request in steps])
    except StopIteration as stop:
        result: T = stop.value
        return result


def outcome(model: Model, operation: Operation[T], who: Who = ANYONE, log: list[Step] | None = None) -> Answer:
    """As :func:`run`, but an error is returned."""
    try:
        return run(model, operation, who, log)
    except Exception as error:
        return error


def issue(placement: Placement, model: Model, *requests: Request, steps: int | None = None) -> None:
    """Bring a model into a state by requests, run alone; the last one is abandoned after `steps` requests."""
    context = make_context(placement, "before")
    for request in requests[: None if steps is None else -1]:
        must(outcome(model, PLANS[request.type].operation(context, request)))
    if steps is not None:
        abandon(model, PLANS[requests[-1].type].operation(context, requests[-1]), steps)


def abandon(model: Model, operation: Operation[T], steps: int) -> list[Step]:
    """Stop an operation after a number of its requests; which they were."""
    sent: list[Step] = []
    some = next(operation)
    for number in range(steps):
        sent += some
        answers = [model.execute(ensemble, request) for ensemble, request in some]
        if number < steps - 1:
            some = operation.send(answers)
    operation.close()
    return sent
