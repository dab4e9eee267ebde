"""As test_pipeline.py, for a map that has grown: what one client issues, nothing awaited, on trees of any age."""

from __future__ import annotations

import random
import unittest
from collections import Counter
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.rendezvous import rendezvous
from tests.explore.alone import must, prepared
from tests.explore.client import Client
from tests.explore.model import Model
from tests.explore.scenario import Knows
from tests.explore.znodes import SEQUENCE
from tests.protocol.test_pipeline import ROOT, Stream, as_user, plain

OPERATIONS, SEEDS = 1500, 8


class Unnumbered(Stream):
    """Without sequence numbers: those of an adopted directory skip two when it is pinned."""

    def create(self, path: str, kind: Any = Create) -> Any:
        made = super().create(path, kind)
        return made._replace(path=path, flags=made.flags & ~SEQUENCE)


class TestGrownPipeline(unittest.TestCase):
    def test_from_birth(self) -> None:
        """Every directory was decided by the newest epoch."""
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                self.stream(seed, Stream, Placement(3), (rendezvous([1, 1, 1]),))

    def test_after_growths(self) -> None:
        """One ensemble was adopted, then came a second and a third; clients know any of the epochs."""
        guesses = rendezvous([1, 1, 0]), rendezvous([1, 2, 2]), rendezvous([0, 1, 0])
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                self.stream(seed, Unnumbered, Placement(3, 0, lambda path: 0), guesses)

    def test_after_growths_of_several(self) -> None:
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                first = Placement(3, 0, rendezvous([1, 1, 0]))
                self.stream(seed, Unnumbered, first, (rendezvous([1, 1, 2]), rendezvous([1, 0, 1])))

    def stream(self, seed: int, streams: type[Stream], first: Placement, guesses: Any) -> Counter[str]:
        dice = random.Random(seed)
        model, specification = prepared(first), Model(1)
        old = Client(first, model)
        must(old.get(Create(ROOT, b"", OPEN_ACL_UNSAFE, 0)))
        must(specification.execute(0, Create(ROOT, b"", OPEN_ACL_UNSAFE, 0)))
        stream = streams(dice, first)
        outcomes: Counter[str] = Counter()
        if len(guesses) > 1:
            outcomes += self.issue(dice, stream, old, specification)
        for guess in guesses:
            client = Client(first, model, marks=f"m{guess}", knows=Knows(guess))
            outcomes += self.issue(dice, stream, client, specification)
        return outcomes

    def issue(self, dice: random.Random, stream: Stream, client: Client, specification: Model) -> Counter[str]:
        issued = []
        haste = dice.choice((0.0, 0.5, 0.9, 1.0))
        for _ in range(OPERATIONS):
            request = stream.request()
            issued.append((request, plain(specification.execute(0, request)), client.call(request)))
            while dice.random() > haste and (choices := client.choices()):
                dice.choice(choices)()
        client.run(dice)
        self.assertFalse(client.driver.order)
        outcomes: Counter[str] = Counter()
        for number, (request, expected, result) in enumerate(issued):
            got = plain(as_user(request, result.value))
            outcomes[f"{type(request).__name__}: {got if isinstance(result.value, Exception) else 'ok'}"] += 1
            self.assertEqual(got, expected, f"operation {number}: {request}")
        return outcomes
