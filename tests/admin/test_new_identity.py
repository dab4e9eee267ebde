"""A copy of a cluster gets the newest of its maps, also if the command was interrupted."""

from __future__ import annotations

import unittest
from dataclasses import replace
from unittest import mock

from parkazoo.admin.new_identity import _doubts, _plan, find_copied
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap

MAP = ClusterMap("test", {name: f"127.0.0.1:{port}" for name, port in (("a", 1), ("b", 2))}, ("a", "b"), "a")
COPY = {"a": "127.0.0.1:11", "b": "127.0.0.1:12"}


class TestServers(unittest.TestCase):
    def test_one_is_down(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "^not all servers of the copy answer .*: 127.0.0.1:1: "):
            find_copied("127.0.0.1:1", timeout_s=0.2)


class TestDoubts(unittest.TestCase):
    def test_a_voter_that_was_not_given(self) -> None:
        """An observer, or servers that have other names for each other, are none."""
        others = "server.1=127.0.0.1:1:1:participant;11\nserver.2=127.0.0.1:2:2:{};13\nversion=1"
        inside = "server.1=zk1:1:1:participant;11\nserver.2=zk2:2:2:participant;13\nversion=1"
        for config, told in (
            (others.format("participant"), ["ensemble a has voting members that were not given, 127.0.0.1"]),
            (others.format("observer"), []),
            (inside, []),
            ("", []),
        ):
            clients = {"a": mock.Mock(**{"read.return_value": config.encode()})}
            with self.subTest(config), mock.patch("parkazoo.admin.new_identity._living", return_value=[]):
                found = [*_doubts({"a": COPY["a"]}, MAP, clients, {}, 1.0)]
                self.assertEqual([each.partition(":")[0] for each in found], told)


class TestPlan(unittest.TestCase):
    def test_the_ensemble_that_is_done_had_the_newest_map(self) -> None:
        """The folders were copied one after the other, and the map changed meanwhile."""
        newer = replace(MAP, epoch=2, weights={"b": 2})
        _, own = _plan(COPY, {"a": MAP, "b": newer})
        self.assertEqual((own.epoch, own.weights), (2, {"b": 2}))
        original, again = _plan(COPY, {"a": MAP, "b": own})
        self.assertEqual((original, again), (MAP, own))
        self.assertEqual(_plan(COPY, {"a": own, "b": own}), (own, own))
