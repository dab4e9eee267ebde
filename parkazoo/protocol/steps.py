"""What the protocol's generators yield and receive.

Every operation of a client is a generator. It yields a tuple of steps, each ``(ensemble, request)`` with one
of kazoo's request objects, physical path inside; steps yielded together are sent together, in their order.
It receives the list of their answers, one each: what kazoo's connection would put into the async result, or the
exception. It returns the operation's result or raises its error. It never sees a socket, a thread or a clock, so a
test can be its server.

A lost connection is an answer too, a ConnectionLoss, and no generator catches it: it ends the operation. The
exception is :class:`Either`: what one ensemble answers may make up for the other.

A RequestTooLargeError is one as well. Only a write that is to be done once still asks then what has become of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    RolledBackError,
    RuntimeInconsistency,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL
from parkazoo.types.znodes import ZnodeStat

IMPOSSIBLE = (1 << 31) - 1  # a version that no znode reaches
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Request(Protocol):
    """What a client is asked to do: by kazoo's request, a program's own, or one of ours that goes to no server."""

    @property
    def type(self) -> int: ...


class WireRequest(Request, Protocol):
    """A request that a server understands."""

    def serialize(self) -> bytes: ...


class Question(WireRequest, Protocol[T_co]):
    """A request whose answer kazoo reads, and so the type of that."""

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int, /) -> T_co: ...


WriteRequest = Create | Delete | SetData | CheckVersion  # what a multi may hold
WatchRequest = Exists | GetChildren | GetChildren2 | GetData
PathRequest = WriteRequest | WatchRequest | Create2 | CreateTTL | CreateContainer | GetACL | SetACL | Sync
DataAnswer = tuple[bytes, ZnodeStat] | Exception  # to a GetData
PathRequestT = TypeVar("PathRequestT", bound=PathRequest)
Step = tuple[int, WireRequest]
Operation = Generator[tuple[Step, ...], list[Any], T]


class ExistsForWatch(Exists):
    """An Exists without which a read that leaves a watch elsewhere fails.

    The program then waits for CONNECTED, as if this left the watch.
    """

    __slots__ = ()


class NoAnswerYet(Exception):
    """In place of an answer that :class:`Either` has not waited for."""


class Either(tuple[Step, ...]):
    """Reads that are sent together. The operation goes on as soon as the answers so far are enough, or with all.

    The other answers are dropped when they come.

    :ivar is_enough: given the answers so far, in the steps' order.
    """

    is_enough: Callable[[Sequence[object]], bool]

    @classmethod
    def of(cls, steps: Sequence[Step], is_enough: Callable[[Sequence[object]], bool]) -> Either:
        either = cls(steps)
        either.is_enough = is_enough
        return either


def placed(request: PathRequestT, path: str) -> PathRequestT:
    """The request with a physical path; faster than ``_replace``."""
    return request if request.path == path else tuple.__new__(type(request), (path, *request[1:]))


def ask(ensemble: int, request: Question[T]) -> Operation[T]:
    """One request; returns its answer or raises it."""
    (answer,) = yield ((ensemble, request),)
    if isinstance(answer, Exception):
        raise answer
    return answer


def commit(
    ensemble: int, operations: Sequence[WriteRequest]
) -> Operation[tuple[list[Any], int, Exception | None]]:
    """One multi; returns its results, and where and why it failed (``-1, None`` if it did not)."""
    (results,) = yield ((ensemble, Transaction(operations)),)
    if isinstance(results, Exception):
        raise results
    return (results, *failure(results))


def resumed(operation: Operation[T], step: Step, answer: object) -> Operation[T]:
    """An operation whose first step was sent before it begins. If it would begin otherwise by now, it does.

    :param answer: to that step.
    """
    try:
        steps = next(operation)
        answers = [answer] if steps == (step,) else (yield steps)
        while True:
            answers = yield operation.send(answers)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()


def failure(results: Sequence[object]) -> tuple[int, Exception | None]:
    """Index and error of the operation that made a multi fail; ``-1, None`` if it did not."""
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            return index, result
    return -1, None
