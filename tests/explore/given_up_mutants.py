"""Mutations of what becomes of an operation that is given up. As mutants.py; each is seen in one scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar
from unittest.mock import patch

from parkazoo.compat.creation import Creation
from parkazoo.engine import driver, total
from parkazoo.engine.driver import _Run
from parkazoo.engine.gather import Gather
from parkazoo.engine.ports import AbandonedError, OwnAnswer, Reply, give, is_abandoned
from parkazoo.engine.read_reply import ReadReply
from parkazoo.engine.total import TotalDriver
from parkazoo.protocol.past import Past
from tests.explore.families import NOTHING, name_of
from tests.explore.given_up import AT_ONCE, AWAITED, ONE_ORDER, Abandoned
from tests.explore.mutation import Fault, SeenMutation, instead
from tests.explore.scenario import Scenario

SENT_LATE, HALF_DONE, HANGS = "sent that was given up", "left half done", "has not ended, or holds something"


@dataclass(frozen=True)
class GivenUpMutant(SeenMutation):
    """A mutation, and the scenario in which it is seen."""

    member: Abandoned


def alone(
    state: str, one: str, two: str, how: str, keeps: str, trouble: str = "no trouble", other: str = NOTHING
) -> Abandoned:
    return Abandoned(state, one, two, how, other, NOTHING, keeps, "once", trouble)


def abandoned(kind: type, when: Callable[[Any], bool]) -> Fault:
    """A reply of that type says otherwise whether it is abandoned."""
    return instead(kind.is_abandoned.fget, lambda _: property(when))  # type: ignore[attr-defined, arg-type, return-value]


def does_not_ask(right: Callable[[_Run], None]) -> Callable[[_Run], None]:
    def wrong(run: _Run) -> None:
        with patch.object(driver, "is_abandoned", lambda reply: False):
            right(run)

    return wrong


def keeps_its_claims(run: _Run, error: Exception) -> None:
    run._generator.close()
    give(run._reply, error)


def keeps_its_znode(right: Callable[..., None]) -> Callable[..., None]:
    def wrong(reply: ReadReply, error: Exception) -> None:
        if isinstance(error, AbandonedError):
            give(reply._reply, error)
        else:
            right(reply, error)

    return wrong


def stays_in_line(right: Callable[..., None]) -> Callable[..., None]:
    def wrong(in_line: TotalDriver, token: object, reply: Reply | None, answer: object) -> None:
        if isinstance(answer, AbandonedError):
            give(reply, answer)
        else:
            right(in_line, token, reply, answer)

    return wrong


GIVEN_UP_MUTANTS: Mapping[str, GivenUpMutant] = {
    "one that was given up in its turn is begun": GivenUpMutant(
        instead(_Run.start, does_not_ask), SENT_LATE, alone("empty", "delete", "create", AT_ONCE, "sent")
    ),
    "one that was given up keeps its claims": GivenUpMutant(
        instead(_Run.fail, lambda _: keeps_its_claims), HANGS, alone("empty", "delete", "set", AT_ONCE, "kept")
    ),
    "a get that was given up keeps its znode": GivenUpMutant(
        instead(ReadReply.set_exception, keeps_its_znode),
        HANGS,
        alone("with a child", "get", "delete", AWAITED, "kept"),
    ),
    "a get behind a write of its own is sent": GivenUpMutant(
        abandoned(ReadReply, lambda reply: reply._is_first and is_abandoned(reply._reply)),
        SENT_LATE,
        alone("with a child", "create", "get with watch", AWAITED, "kept"),
    ),
    "a create is given up in its middle": GivenUpMutant(
        abandoned(_Run, lambda run: is_abandoned(run._reply)),
        HALF_DONE,
        alone("leaf", "create", "get_children", AWAITED, "kept"),
    ),
    "a delete is given up in its middle": GivenUpMutant(
        abandoned(_Run, lambda run: is_abandoned(run._reply)),
        HALF_DONE,
        alone("empty", "delete", "get_children", AWAITED, "kept on a"),
    ),
    "one of several steps is given up": GivenUpMutant(
        abandoned(Gather, lambda gather: is_abandoned(gather.asker)),
        HALF_DONE,
        alone("missing", "get_children with watch", "makepath", AT_ONCE, "kept on b", "lag"),
    ),
    "a create with makepath that was given up is sent": GivenUpMutant(
        abandoned(Creation, lambda creation: False), SENT_LATE, alone("leaf", "makepath", "get", AWAITED, "kept")
    ),
    "what was not sent counts as one's own past": GivenUpMutant(
        instead(Past._doubted, lambda _: lambda past, change: change),
        "not linearizable",
        alone("missing", "create and another beside", "get_children above", AWAITED, "kept", "lag", "ensure_path"),
    ),
    "one that was given up stays in line": GivenUpMutant(
        instead(TotalDriver._answered, stays_in_line),
        HANGS,
        alone("native", "transaction", "delete with version", AWAITED, "kept on b", ONE_ORDER),
    ),
    "a write in front is given up with its read": GivenUpMutant(
        partial(patch.object, total, "OnAnswer", OwnAnswer),
        HALF_DONE,
        alone("empty", "tree delete", "get", AT_ONCE, "kept on b", ONE_ORDER),
    ),
}


@dataclass(frozen=True)
class GivenUpMutated:
    """The scenario in which a mutant is seen; the mutant itself is not applied."""

    mutant: str
    family: ClassVar[str] = "given-up-mutant"

    def scenario(self) -> Scenario:
        return replace(GIVEN_UP_MUTANTS[self.mutant].member.scenario(), name=name_of(self))
