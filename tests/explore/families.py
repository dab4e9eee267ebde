"""Every pair of operations on one directory, in every state that it may be in, with all that may go wrong."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions

from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import MIRRORS, Placement, split, unescape
from tests.explore.explorer import Explorer, Program, Violation, issue
from tests.explore.model import SEQUENCE, WORLD, Model, find_directory, must, prepared

PLACEMENT = Placement(2)
D = find_directory(PLACEMENT, False)
NATIVE = find_directory(PLACEMENT, True)
CLOSED = [ACL(Permissions.ALL & ~Permissions.WRITE, WORLD)]
WATCH = True  # the explorer leaves a watch of its own


def create(path: str, flags: int = 0) -> Create:
    return Create(path, b"", OPEN_ACL_UNSAFE, flags)


def first_child(d: str) -> list[Any]:
    return [create(d), create(d + "/x")]


def emptied(d: str) -> list[Any]:
    return [*first_child(d), Delete(d + "/x", -1)]


class State(NamedTuple):
    """The requests that bring a directory into it, and after how many steps the last one is abandoned."""

    requests: Callable[[str], Sequence[Any]]
    steps: int | None = None
    directory: str = D


STATES: dict[str, State] = {
    "missing": State(lambda d: []),
    "native": State(first_child, directory=NATIVE),
    "leaf": State(lambda d: [create(d)]),
    "promotion abandoned": State(first_child, 2),
    "empty": State(emptied),
    "with a child": State(first_child),
    "delete abandoned early": State(lambda d: [*emptied(d), Delete(d, -1)], 4),
    "delete abandoned late": State(lambda d: [*emptied(d), Delete(d, -1)], 7),
    "made again": State(lambda d: [*emptied(d), Delete(d, -1), create(d)]),
}


def ensure_path(path: str) -> Generator[Any, Any, None]:
    """As kazoo does it."""
    if (yield Exists(path, None)) is None:
        parent = split(path)[0]
        if parent != "/":
            yield from ensure_path(parent)
        yield create(path)


def delete_recursively(path: str) -> Generator[Any, Any, None]:
    """As kazoo does it."""
    names = yield GetChildren(path, None)
    if isinstance(names, NoNodeError):
        return
    for name in names if isinstance(names, list) else ():
        yield from delete_recursively(f"{path}/{name}")
    yield Delete(path, -1)


def alone(request: Any) -> Generator[Any, Any, None]:
    yield request


# What is done to a directory, by name.
OPERATIONS: dict[str, Callable[[str], Generator[Any, Any, None]]] = {
    "create": lambda d: alone(create(d + "/x")),
    "create of itself": lambda d: alone(create(d)),
    "ensure_path": lambda d: ensure_path(d + "/x"),
    "delete": lambda d: alone(Delete(d, -1)),
    "delete with version": lambda d: alone(Delete(d, 0)),
    "delete of the child": lambda d: alone(Delete(d + "/x", -1)),
    "recursive delete": delete_recursively,
    "set": lambda d: alone(SetData(d, b"new", -1)),
    "get": lambda d: alone(GetData(d, None)),
    "exists": lambda d: alone(Exists(d, WATCH)),
    "get_children": lambda d: alone(GetChildren2(d, None)),
    "get_children with watch": lambda d: alone(GetChildren(d, WATCH)),
    "set_acls": lambda d: alone(SetACL(d, CLOSED, -1)),
    "transaction": lambda d: alone(Transaction([create(d + "/x"), create(d + "/y")])),
    "transaction that deletes": lambda d: alone(Transaction([create("/other"), Delete(d, -1)])),
}
PAIRS = tuple(itertools.combinations_with_replacement(OPERATIONS, 2))


class Trouble(NamedTuple):
    """What may go wrong."""

    crashes: int = 0
    losses: int = 0
    has_lag: bool = False


TROUBLES = {
    "a crash": Trouble(crashes=1),
    "a lost connection": Trouble(losses=1),
    "lag": Trouble(has_lag=True),
}
ALL_TROUBLES = Trouble(1, 1, True)


def tried_again(program: Callable[[], Generator[Any, Any, None]]) -> Callable[[], Generator[Any, Any, None]]:
    """A client that issues an operation once more after a lost connection."""

    def run() -> Generator[Any, Any, None]:
        requests = program()
        result: Any = None
        while True:
            try:
                request = requests.send(result)
            except StopIteration:
                return
            result = yield request
            if isinstance(result, ConnectionLoss):
                result = yield request

    return run


def judge(request: Any, result: Hashable) -> Hashable:
    """What of a result is compared. A directory's stat is put together from two moments, so less of it."""
    if isinstance(request, (Exists, SetData, SetACL)):
        return _of_one_moment(result)
    if isinstance(request, (GetData, GetACL)) and isinstance(result, tuple):
        return result[0], _of_one_moment(result[1])
    if isinstance(request, GetChildren2) and isinstance(result, tuple):
        return result[0]
    return result


def _of_one_moment(stat: Hashable) -> Hashable:
    if not isinstance(stat, tuple):
        return stat
    _, version, _, aversion, length, _ = stat
    return version, aversion, length


def scenario(state: str, programs: Sequence[Program], has_lag: bool = False, **others: Any) -> Explorer:
    """The explorer of some programs on a directory in that state."""
    requests, steps, d = STATES[state].requests(STATES[state].directory), *STATES[state][1:]
    model, specification = prepared(PLACEMENT, [D]), Model(1)
    issue(PLACEMENT, model, *requests, steps=steps)
    for request in requests if steps is None else requests[:-1]:
        must(specification.execute(0, request))
    others.setdefault("observe", [GetChildren(d, None), Exists(d, None)])
    return Explorer(
        PLACEMENT,
        model.remembering() if has_lag else model,
        specification,
        programs,
        judge,
        abandoned=[] if steps is None else [requests[-1]],
        **others,
    )


def cell(state: str, names: Sequence[str], trouble: Trouble, **others: Any) -> Explorer:
    """The explorer of operations by name, each by a client of its own."""
    d = STATES[state].directory
    programs: list[Program] = [tried_again(lambda name=name: OPERATIONS[name](d)) for name in names]
    gap = is_gap(names)
    return scenario(
        state,
        programs,
        trouble.has_lag,
        crashes=trouble.crashes,
        losses=trouble.losses,
        mirrors_per_life=None if gap else 1,
        judges_watches=not gap,
        at_end=acls_are_alike if trouble == TROUBLES["lag"] else _nothing,
        **others,
    )


# ---- a client's own past ---------------------------------------------------------------------

P = find_directory(PLACEMENT, False, name="p")
BELOW = find_directory(PLACEMENT, False, P)  # two levels of mirrors


def programs(d: str) -> dict[str, Sequence[Any]]:
    """What another client does meanwhile to a directory, by name; of its requests those that fail do no harm."""
    x, y = d + "/x", d + "/y"
    empty = [Delete(x, -1), Delete(d, -1)]
    return {
        "deletes": empty,
        "makes again": [*empty, create(d)],
        "makes again with a child": [*empty, create(d), create(y)],
        "makes": [create(d), create(x)],
    }


class OwnPast(NamedTuple):
    """A client changes something, then reads; another is at work, and servers lag."""

    state: str
    change: Any
    read: Any
    other: str

    def explorer(self, **others: Any) -> Explorer:
        d = STATES[self.state].directory
        mine, theirs = [self.change, self.read], programs(d)[self.other]
        return scenario(self.state, [mine, theirs], has_lag=True, crashes=0, mirrors_per_life=None, **others)


def own_pasts() -> Iterator[OwnPast]:
    for name, state in STATES.items():
        d, x = state.directory, state.directory + "/x"
        above = split(d)[0]
        changes = [create(d), Delete(d, -1), create(x), Delete(x, -1), create(d + "/s", SEQUENCE)]
        changes += [Transaction([create(d), create(above.rstrip("/") + "/other")])]
        reads = [GetChildren(d, None), GetChildren2(d, None), Exists(d, None), GetData(d, None), GetData(x, None)]
        for change, read, other in itertools.product(changes, reads, programs(d)):
            yield OwnPast(name, change, read, other)


class Remembered(NamedTuple):
    """A client knows that a directory has a mirror; another deletes it; then the client issues operations at once.

    :param knows: how it knows: because it has made the first child, listed the directory, or read its stat.
    :param other: what another client does then, to its end.
    :param awaited: what the first client does next, one by one. :param at_once: and then, without waiting.
    """

    knows: str
    other: str
    awaited: Sequence[Any]
    at_once: Sequence[Any]

    def explorer(self, **others: Any) -> Explorer:
        state, known = KNOWN[self.knows]

        def mine() -> Generator[Any, Any, None]:
            for request in (*known, *self.awaited):  # noqa: UP028 - a tuple cannot be sent the results
                yield request
            yield list(self.at_once)

        turns = [(0, len(known)), (1, None), (0, len(self.awaited))]
        return scenario(state, [mine, programs(D)[self.other]], crashes=0, turns=turns, is_in_order=True, **others)


KNOWN: dict[str, tuple[str, Sequence[Any]]] = {
    "made it": ("missing", first_child(D)),
    "listed it": ("with a child", [GetChildren(D, None)]),
    "read its stat": ("with a child", [Exists(D, None)]),
}


def remembereds() -> Iterator[Remembered]:
    x, y = D + "/x", D + "/y"
    again: list[Sequence[Any]] = [[create(D)], [Delete(D, -1), create(D)], [Transaction([create(D)])]]
    at_once = [
        [create(y), GetData(D, None), GetChildren(D, None)],
        [create(y), GetChildren2(D, None), Delete(y, -1)],
        [create(x), create(y), Exists(x, None)],
        [create(y), SetData(D, b"new", -1), Delete(D, -1)],
        [create(D + "/s", SEQUENCE), create(D + "/s", SEQUENCE), GetChildren(D, None)],
        [Transaction([create(x), create(y)]), GetChildren(D, None), GetData(x, None)],
        [GetChildren(D, None), create(y), GetChildren(D, None)],
    ]
    for knows, other, own, last in itertools.product(KNOWN, programs(D), again, at_once):
        yield Remembered(knows, other, own, last)
        yield Remembered(knows, other, [], [*own, *last])


def is_gap(names: Sequence[str]) -> bool:
    """Whether the mirror of a directory that lives may go: docs/design/protocol.md, "Known gaps"."""
    return {"delete with version", "set"} <= set(names) or "transaction that deletes" in names


def random_triple(dice: random.Random) -> tuple[str, list[str], Trouble]:
    names = [dice.choice(list(OPERATIONS)) for _ in range(3)]
    trouble = Trouble(dice.randrange(2), dice.randrange(2), dice.random() < 0.5)
    return dice.choice(list(STATES)), names, trouble


def cells() -> Iterator[tuple[str, tuple[str, str], str]]:
    """State, pair and trouble of every cell."""
    return itertools.product(STATES, PAIRS, TROUBLES)


def _nothing(model: Model, has_crashed: bool) -> None:
    pass


def acls_are_alike(model: Model, has_crashed: bool) -> None:
    """Each mirror has its home's ACL; not what a client promises that crashed, or lost a connection."""
    for ensemble, nodes in enumerate(model.nodes):
        for name in nodes[MIRRORS].children:
            home = PLACEMENT.home(unescape(name))
            mirror = PLACEMENT.directory(unescape(name)).mirror
            if model.nodes[home.ensemble][home.path].acl != nodes[mirror.path].acl or ensemble != mirror.ensemble:
                raise Violation(f"the mirror of {unescape(name)} has another ACL than the home")
