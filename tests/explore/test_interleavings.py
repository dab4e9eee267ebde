"""Two clients on one directory, or three, in every order of their requests, with a crash at every step.

In every state: no mirror without a home that has a pin, and at most one mirror in a directory's life. At the end:
all results, and what another client then sees, are those of one ZooKeeper.
"""

from __future__ import annotations

import os
import random
import unittest

from parkazoo.kazoo_private import Delete, Exists
from tests.explore.alone import issue, must, prepared
from tests.explore.chosen import ACLS, CASES, LIST, MKDIR, RMDIR_V0, SET, Case, Chosen, Rights
from tests.explore.directories import PLACEMENT, D, create
from tests.explore.explorer import Explorer
from tests.explore.families import X, Y
from tests.explore.model import Model
from tests.explore.scenario import Beginning, Promises, Scenario, Violation
from tests.where_is import where_is

SEED = 1
# The largest: how many scenarios of them are explored here, the same at each run. `make explore` explores all.
SAMPLED = {
    "promote and delete and create again": 4,
    "promote and promote": 4,
    "promotion delete and help": 6,
    "transactions": 7,
}


class TestChosen(unittest.TestCase):
    def explore(self, about: str) -> None:
        members = list(Chosen.members(about))
        dice = random.Random(int(os.environ.get("PARKAZOO_TEST_SEED", SEED)))
        for chosen in dice.sample(members, SAMPLED.get(about, len(members))):
            with self.subTest(chosen):
                explorer = Explorer(chosen.scenario(), chosen.case.bounds)
                explorer.explore()
                self.assertGreater(explorer.ends, 0)

    def test_rights_that_are_taken_away(self) -> None:
        for acls in ACLS:
            with self.subTest(acls):
                Explorer(Rights(acls).scenario()).explore()

    def test_the_gap_of_deletes_with_a_version(self) -> None:
        """It is documented; the explorer sees it."""
        gap = Case([[RMDIR_V0, create(Y)], [SET]])
        with self.assertRaisesRegex(Violation, "2 mirrors in one life"):
            Explorer(gap.scenario("", "empty")).explore()


def _test_of(about: str) -> None:
    def test(self: TestChosen) -> None:
        self.explore(about)

    setattr(TestChosen, f"test_{about.replace(' ', '_').lower()}", test)


for each in CASES:
    _test_of(each)


class TestExplorer(unittest.TestCase):
    """It must find what is wrong, or it proves nothing."""

    def test_a_result_that_no_zookeeper_gives(self) -> None:
        model = prepared(PLACEMENT, [D])
        issue(PLACEMENT, model, MKDIR)  # but not in the specification
        beginning = Beginning(PLACEMENT, model, Model(1))
        with self.assertRaisesRegex(Violation, "not linearizable"):
            Explorer(Scenario("", beginning, [[Exists(D, None)], []])).explore()

    def test_an_orphan(self) -> None:
        model = prepared(PLACEMENT, [D])
        issue(PLACEMENT, model, MKDIR, create(X))
        d = where_is(PLACEMENT, D)
        for path in (d.pin, d.home.path):
            must(model.execute(d.home.ensemble, Delete(path, -1)))
        with self.assertRaisesRegex(Violation, "orphan"):
            Explorer(Scenario("", Beginning(PLACEMENT, model, Model(1)), [[Exists(D, None)]])).explore()

    def test_what_is_observed_is_judged(self) -> None:
        model = prepared(PLACEMENT, [D])
        issue(PLACEMENT, model, MKDIR, create(X))
        beginning = Beginning(PLACEMENT, model, Model(1))
        with self.assertRaisesRegex(Violation, r"then +GetChildren"):
            Explorer(Scenario("", beginning, [[]], promises=Promises(observe=[LIST]))).explore()
