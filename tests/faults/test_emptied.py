"""The scenario of tests/faults/emptied.py, with small ensembles."""

from __future__ import annotations

import unittest

from parkazoo.local import LocalCluster
from tests.faults import emptied
from tests.live.world import seed


class TestEmptied(unittest.TestCase):
    def test_nothing_passes_over_it(self) -> None:
        with LocalCluster(ensembles=3, servers=1) as cluster:
            judged = emptied.run(cluster, {each.name: each.hosts for each in cluster.ensembles}, seed())
        self.assertEqual(judged.problems, [])
        self.assertGreater(judged.figures["directories that lost their children"], 0)
