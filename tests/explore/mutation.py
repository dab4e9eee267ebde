"""Production code with a piece of its source replaced."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from parkazoo.protocol.grown.claims import GROWN_PLANS
from parkazoo.protocol.plans import PLANS, Plan
from parkazoo.protocol.steps import Operation
from tests.explore import tell


@dataclass(frozen=True)
class Mutation:
    """What is changed in which function.

    :param pieces: old and new, alternating.
    """

    function: Callable[..., object]
    pieces: Sequence[str]

    def made(self) -> Callable[..., Operation[object]]:
        """The function with its pieces replaced."""
        source, name = textwrap.dedent(inspect.getsource(self.function)), self.function.__name__
        for old, new in zip(self.pieces[::2], self.pieces[1::2], strict=True):
            assert source.count(old) == 1, f"{name} has changed: {old!r} is in it {source.count(old)} times"
            source = source.replace(old, new)
        made: dict[str, Callable[..., Operation[object]]] = {}
        flags = __future__.annotations.compiler_flag
        code = compile(source, f"<mutant of {name}>", "exec", flags)
        exec(code, vars(inspect.getmodule(self.function)), made)
        return made[name]

    @contextmanager
    def applied(self, name: str) -> Iterator[None]:
        """The mutation, as long as it is entered, wherever the function is used.

        :param name: the mutant's, for the commands that violations print.
        """
        made, module = self.made(), inspect.getmodule(self.function)
        owner, _, called = self.function.__qualname__.rpartition(".")  # of a method, its class
        with ExitStack() as stack:
            if owner:
                stack.enter_context(patch.object(getattr(module, owner), called, made))
            for user in list(sys.modules.values()):
                if user.__name__.startswith("parkazoo.") and vars(user).get(called) is self.function:
                    stack.enter_context(patch.object(user, called, made))
            for plans in (PLANS, GROWN_PLANS):
                for kind, plan in plans.items():
                    if self.function in plan:
                        mutant = Plan._make(made if each is self.function else each for each in plan)
                        stack.enter_context(patch.dict(plans, {kind: mutant}))
            stack.enter_context(patch.object(tell, "applied", [*tell.applied, name.replace(" ", "-")]))
            yield
