"""A copy of a cluster gets the newest of its maps, also if the command was interrupted."""

from __future__ import annotations

import unittest
from dataclasses import replace

from parkazoo.admin.new_identity import _plan, find_copied
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap

MAP = ClusterMap("test", {name: f"127.0.0.1:{port}" for name, port in (("a", 1), ("b", 2))}, ("a", "b"), "a")
COPY = {"a": "127.0.0.1:11", "b": "127.0.0.1:12"}


class TestServers(unittest.TestCase):
    def test_one_is_down(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "^not all servers of the copy answer .*: 127.0.0.1:1: "):
            find_copied("127.0.0.1:1", timeout_s=0.2)


class TestPlan(unittest.TestCase):
    def test_the_ensemble_that_is_done_had_the_newest_map(self) -> None:
        """The folders were copied one after the other, and the map changed meanwhile."""
        newer = replace(MAP, epoch=2, weights={"b": 2})
        _, own = _plan(COPY, {"a": MAP, "b": newer})
        self.assertEqual((own.epoch, own.weights), (2, {"b": 2}))
        original, again = _plan(COPY, {"a": MAP, "b": own})
        self.assertEqual((original, again), (MAP, own))
        self.assertEqual(_plan(COPY, {"a": own, "b": own}), (own, own))
