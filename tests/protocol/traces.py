"""Which requests each operation sends, one a line, in traces/CLASS.txt: a diff of it shows what a change costs.

PARKAZOO_TEST_RENEW=1 writes these files anew; look at the difference before it is committed. ``H`` is the ensemble
of the directory's home, ``M`` that of its mirror.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parkazoo.kazoo_private import Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import DONE, Directory, Placement
from parkazoo.protocol.plans import OTHER, PLANS
from parkazoo.protocol.steps import Step
from tests.explore.alone import abandon, find_directory, make_context, outcome, prepared
from tests.explore.model import Model
from tests.where_is import where_is

TRACES = Path(__file__).parent / "traces"
PLACEMENT = Placement(3)
MIRRORED = find_directory(PLACEMENT, False)
NATIVE = find_directory(PLACEMENT, True)


class TracedTest(unittest.TestCase):
    """A test of this class is a section of its file, if it calls :meth:`expect` or :meth:`abandon`."""

    def setUp(self) -> None:
        self.model: Model = prepared(PLACEMENT, [MIRRORED, NATIVE])
        self.context: Context = make_context(PLACEMENT)
        self._trace: list[str] = []

    def tearDown(self) -> None:
        if not self._trace:
            return
        path, name = TRACES / f"{type(self).__name__}.txt", self._testMethodName.removeprefix("test_")
        known = read(path)
        if os.environ.get("PARKAZOO_TEST_RENEW"):
            write(path, known | {name: self._trace})
        else:
            self.assertEqual(known.get(name, []), self._trace, f"{path.name} tells otherwise; see traces.py")

    def perform(self, request: Any, context: Context | None = None) -> tuple[Any, list[str]]:
        """The outcome and the requests, in words; not in the trace."""
        log: list[Step] = []
        plan = PLANS.get(request.type, OTHER)
        result = outcome(self.model, plan.operation(context or self.context, request), log=log)
        return result, in_words(log)

    def expect(self, request: Any, result: Any = ...) -> Any:
        """Perform it, its requests in the trace.

        :param result: what it is, or its class; by default no error.
        """
        got, sent = self.perform(request)
        self._note(issued(request), sent)
        if isinstance(result, type):
            self.assertIsInstance(got, result)
        elif result is not ...:
            self.assertEqual(got, result)
        else:
            self.assertNotIsInstance(got, Exception)
        return got

    def abandon(self, request: Any, steps: int) -> None:
        """Stop an operation of another client after a number of requests."""
        operation = PLANS[request.type].operation(make_context(PLACEMENT, "abandoned"), request)
        self._note(f"abandoned: {issued(request)}", in_words(abandon(self.model, operation, steps)))

    def _note(self, operation: str, sent: Sequence[str]) -> None:
        self._trace += [operation, *(f"    {each}" for each in sent)]


def issued(request: Any) -> str:
    """What a user asks for: ``Create d/x``."""
    if isinstance(request, Transaction):
        return f"[{', '.join(issued(each) for each in request.operations)}]"
    path = str(getattr(request, "path", "")).replace(MIRRORED, "d").replace(NATIVE, "native")
    return f"{type(request).__name__} {path}"


def in_words(steps: Sequence[Step], d: Directory | None = None) -> list[str]:
    """What is sent: where, kind and znode of each request: ``H Create pin``."""
    d = d or where_is(PLACEMENT, MIRRORED)
    return [f"{_ensemble(ensemble, d)} {_request(request, d)}" for ensemble, request in steps]


def _ensemble(ensemble: int, d: Directory) -> str:
    return {d.mirror.ensemble: "M", d.home.ensemble: "H"}.get(ensemble, str(ensemble))


def _request(request: Any, d: Directory) -> str:
    if request == CATCH_UP:
        return "catch up"
    if isinstance(request, Transaction):
        return f"[{', '.join(_request(each, d) for each in request.operations)}]"
    names = {d.home.path: "home", d.mirror.path: "mirror", d.pin: "pin", d.proof: "proof", d.fence: "fence"}
    path = getattr(request, "path", "")
    if path.startswith(d.pin + "/"):
        name = "mark"
    elif path.startswith(DONE + "/"):
        name = "done"
    else:
        name = names.get(path) or path.removeprefix(d.mirror.path + "/").replace(MIRRORED, "d")
    return f"{type(request).__name__} {name}"


def read(path: Path) -> dict[str, list[str]]:
    """The trace of each test."""
    text = path.read_text() if path.exists() else ""
    sections = [section.splitlines() for section in text.split("# ")[1:]]
    return {name: [line for line in lines if line] for name, *lines in sections}


def write(path: Path, traces: dict[str, list[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    sections = (f"# {name}\n" + "".join(f"{line}\n" for line in traces[name]) for name in sorted(traces))
    path.write_text("\n".join(sections))
