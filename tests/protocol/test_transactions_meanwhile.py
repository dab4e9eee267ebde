"""A transaction, where pins decide, while another thread changes what the client knows of its directories."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from parkazoo.kazoo_private import Exists, GetData, SetData, Transaction
from parkazoo.protocol.placement import PIN, Directory
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import make_context, make_grown, outcome, prepared
from tests.explore.directories import create
from tests.explore.grown import ADOPTED, D, guess
from tests.explore.model import Model
from tests.explore.scenario import Knows
from tests.explore.znodes import ANYONE, Who

E = "/e"
X, Y = f"{D}/x", f"{D}/y"


class Asked(Model):
    """Another thread does something after a request."""

    def __init__(self, model: Model, asked: Any, other: Callable[[], None]) -> None:
        self.__dict__.update(model.__dict__)
        self._asked = asked
        self._other = other

    def execute(self, ensemble: int, request: Any, who: Who = ANYONE, at: int | None = None) -> object:
        answer = super().execute(ensemble, request, who, at)
        if request == self._asked:
            self._other()
        return answer


class TestMeanwhile(unittest.TestCase):
    def setUp(self) -> None:
        """Both directories have a child each, on ensemble 1."""
        self.model = prepared(ADOPTED)
        self.context = make_grown(make_context(ADOPTED, "before"), ADOPTED, Knows(guess(1)))
        self.perform(create(D), create(E), create(X), create(f"{E}/x"))

    def perform(self, *requests: Any) -> Any:
        """Returns what the last one is answered."""
        for request in requests:
            result = outcome(self.model, PLANS[request.type].operation(self.context, request))
            self.assertNotIsInstance(result, Exception)
        return result

    def test_a_place_is_forgotten_that_was_just_found(self) -> None:
        """As by a create of the directory, which is there. It is no transaction over two ensembles."""
        wrong = Knows(lambda path: 2 if path == E else 1)
        self.context = make_grown(make_context(ADOPTED), ADOPTED, wrong)
        asked = GetData(f"{D}/{PIN}", None)
        self.model = Asked(self.model, asked, lambda: self.context.places.forget(E))
        results = self.perform(Transaction([SetData(f"{E}/x", b"1", -1), SetData(X, b"1", -1)]))
        self.assertEqual([each.version for each in results], [1, 1])

    def test_a_place_is_forgotten_while_the_multi_is_made(self) -> None:
        """A child below the home, where another thread finds out that the children are elsewhere, is lost."""
        self.context = make_grown(make_context(ADOPTED), ADOPTED, Knows(guess(1), [(D, -1)]))
        places, known = self.context.places, self.context.places.known

        def known_until_now(path: str) -> Directory:
            d = known(path)
            if path == D:
                places.drop(D)
            return d

        places.known = known_until_now
        self.assertEqual(self.perform(Transaction([create(Y)])), [Y])
        self.assertIsNotNone(self.perform(Exists(Y, None)))
