"""Production code of which a function, a step or a value is wrong, as long as a test wants that."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from parkazoo.protocol.plans import PLANS, Plan
from tests.explore import tell

Fault = Callable[[], AbstractContextManager[object]]  # is in force as long as its value is entered
Right = Callable[..., Any]
Wrong = Callable[[Right], Right]  # makes a wrong function of the right one


@dataclass(frozen=True)
class Mutation:
    """What is wrong."""

    fault: Fault

    @contextmanager
    def applied(self, name: str) -> Iterator[None]:
        """The mutation, as long as it is entered.

        :param name: the mutant's, for the commands that violations print.
        """
        with self.fault(), patch.object(tell, "applied", [*tell.applied, name.replace(" ", "-")]):
            yield


@dataclass(frozen=True)
class SeenMutation(Mutation):
    """One of which the explorer says `violation`, a pattern."""

    violation: str


def instead(function: Callable[..., object], wrong: Wrong) -> Fault:
    """A wrong function in place of a function or method, wherever that is used."""
    module = inspect.getmodule(function)
    owner, _, called = function.__qualname__.rpartition(".")  # of a method, its class

    @contextmanager
    def fault() -> Iterator[None]:
        mutant = wrong(function)
        with ExitStack() as stack:
            if owner:
                stack.enter_context(patch.object(getattr(module, owner), called, mutant))
            for user in list(sys.modules.values()):
                if user.__name__.startswith("parkazoo.") and vars(user).get(called) is function:
                    stack.enter_context(patch.object(user, called, mutant))
            for kind, plan in PLANS.items():
                if function in plan:
                    other = Plan._make(mutant if each is function else each for each in plan)
                    stack.enter_context(patch.dict(PLANS, {kind: other}))
            yield

    return fault


def in_calls(kind: type, wrong: Wrong) -> Fault:
    """A wrong operation in place of each that runs the requests of a type, on a map of any form."""
    return instead(PLANS[kind.type].operation, wrong)  # type: ignore[attr-defined]


def together(*faults: Fault) -> Fault:
    @contextmanager
    def fault() -> Iterator[None]:
        with ExitStack() as stack:
            for each in faults:
                stack.enter_context(each())
            yield

    return fault


def nothing(right: Right) -> Right:
    """A function that does nothing, in place of a right one."""
    return lambda *arguments, **named: None


class Callers:
    """Which of some functions run just now.

    :ivar names: theirs, the innermost last.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, right: Right) -> Right:
        def run(*arguments: Any, **named: Any) -> Any:
            self.names.append(right.__name__)
            try:
                return right(*arguments, **named)
            finally:
                self.names.pop()

        return run


def left_out(call: Right, caller: Right, *others: Right) -> Fault:
    """A function does not call another one.

    :param others: they call it too, perhaps on the way from `caller`: they still do.
    """
    callers = Callers()

    def wrong(right: Right) -> Right:
        def run(*arguments: Any, **named: Any) -> Any:
            return None if callers.names[-1:] == [caller.__name__] else right(*arguments, **named)

        return run

    return together(*(instead(each, callers) for each in (caller, *others)), instead(call, wrong))
