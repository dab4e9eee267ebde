"""A directory, the states that it may be in, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions

from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import Placement, hash_of, split
from parkazoo.types.znodes import Watch
from tests.explore.alone import find_directory, issue, must, prepared
from tests.explore.lives import mirrored
from tests.explore.model import Model
from tests.explore.scenario import Asking, Beginning, Rise, Violation
from tests.explore.znodes import WORLD, Request
from tests.where_is import where_is

# Homes on 1, mirrors on 0: openings serve requests in that order.
PLACEMENT = Placement(2, choose=lambda directory: hash_of(directory) % 2)
D = find_directory(PLACEMENT, False)
NATIVE = find_directory(PLACEMENT, True)
CLOSED = [ACL(Permissions.ALL & ~Permissions.WRITE, WORLD)]
WATCH: Watch = True  # type: ignore[assignment]  # the explorer leaves a watch of its own


def create(path: str, flags: int = 0, acl: Sequence[ACL] = OPEN_ACL_UNSAFE) -> Create:
    return Create(path, b"", acl, flags)


# ---- the states a directory may be in ----------------------------------------------------------


def first_child(d: str) -> list[Request]:
    return [create(d), create(d + "/x")]


def emptied(d: str) -> list[Request]:
    return [*first_child(d), Delete(d + "/x", -1)]


class State(NamedTuple):
    """The requests that bring a directory into it, and after how many steps the last one is abandoned."""

    requests: Callable[[str], Sequence[Request]]
    steps: int | None = None
    directory: str = D


STATES: Mapping[str, State] = {
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


@cache
def beginning(state: str) -> Beginning:
    requests, steps = STATES[state].requests(STATES[state].directory), STATES[state].steps
    model, specification = prepared(PLACEMENT, [D]), Model(1)
    issue(PLACEMENT, model, *requests, steps=steps)
    for request in requests if steps is None else requests[:-1]:
        must(specification.execute(0, request))
    return Beginning(PLACEMENT, model, specification, [] if steps is None else [requests[-1]])


# ---- what is done to it ------------------------------------------------------------------------


def ensure_path(path: str) -> Asking:
    """As kazoo does it."""
    if (yield Exists(path, None)) is None:
        parent = split(path)[0]
        if parent != "/":
            yield from ensure_path(parent)
        yield create(path)


def delete_recursively(path: str) -> Asking:
    """As kazoo does it."""
    names = yield GetChildren(path, None)
    if isinstance(names, NoNodeError):
        return
    for name in names if isinstance(names, list) else ():
        yield from delete_recursively(f"{path}/{name}")
    yield Delete(path, -1)


def only(request: Request) -> Asking:
    yield request


OPERATIONS: Mapping[str, Callable[[str], Asking]] = {
    "create": lambda d: only(create(d + "/x")),
    "create of itself": lambda d: only(create(d)),
    "ensure_path": lambda d: ensure_path(d + "/x"),
    "delete": lambda d: only(Delete(d, -1)),
    "delete with version": lambda d: only(Delete(d, 0)),
    "delete of the child": lambda d: only(Delete(d + "/x", -1)),
    "recursive delete": delete_recursively,
    "set": lambda d: only(SetData(d, b"new", -1)),
    "get": lambda d: only(GetData(d, None)),
    "exists": lambda d: only(Exists(d, WATCH)),
    "get_children": lambda d: only(GetChildren2(d, None)),
    "get_children with watch": lambda d: only(GetChildren(d, WATCH)),
    "set_acls": lambda d: only(SetACL(d, CLOSED, -1)),
    "transaction": lambda d: only(Transaction([create(d + "/x"), create(d + "/y")])),
    "transaction that deletes": lambda d: only(Transaction([create("/other"), Delete(d, -1)])),
}


def in_order(steps: Sequence[Request | Sequence[Request | Rise]]) -> Callable[[], Asking]:
    """A program of requests, one after the other, and of lists of requests that are issued at once."""

    def program() -> Asking:
        for step in steps:  # noqa: UP028 - a tuple cannot be sent the results
            yield step  # type: ignore[misc]  # a sequence in it is a list

    return program


def try_again(program: Callable[[], Asking]) -> Callable[[], Asking]:
    """A client that issues an operation once more after a lost connection."""

    def run() -> Asking:
        asking = program()
        try:
            request = next(asking)
            while True:
                result = yield request
                if isinstance(result, ConnectionLoss):
                    result = yield request
                request = asking.send(result)
        except StopIteration:
            return

    return run


# ---- what must hold at the end -----------------------------------------------------------------


def acls_are_alike(model: Model, has_crashed: bool) -> None:
    """Each mirror has its home's ACL; not what a client promises that crashed, or lost a connection."""
    for directory in mirrored(Beginning(PLACEMENT, model, model), model):
        home, mirror = where_is(PLACEMENT, directory)[1:3]
        if model.nodes[home.ensemble][home.path].acl != model.nodes[mirror.ensemble][mirror.path].acl:
            raise Violation(f"the mirror of {directory} has another ACL than the home")
