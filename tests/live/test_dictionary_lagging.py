"""Linearizable reads of a DistributedDict, at a server that lags."""

from __future__ import annotations

from parkazoo.local import LocalCluster
from parkazoo.structures.policies import Always, Linearizable
from tests.live.lagging_follower import LaggingFollower
from tests.live.world import LiveTest, wait_until

ZOO_CFG = {"syncLimit": "120"}  # ticks: the follower keeps its leader for a minute
SESSION_S = 60.0
CLUSTER: LocalCluster
FOLLOWER: LaggingFollower


def setUpModule() -> None:
    global CLUSTER, FOLLOWER  # noqa: PLW0603 - unittest's way of a fixture
    CLUSTER = LocalCluster(ensembles=1, servers=3, zoo_cfg=ZOO_CFG)
    CLUSTER.start()
    FOLLOWER = LaggingFollower(CLUSTER.ensembles[0])


def tearDownModule() -> None:
    FOLLOWER.stop()
    CLUSTER.stop()


class TestLagging(LiveTest):
    ensembles = 1

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = CLUSTER

    def test_it_waits_for_the_server_to_catch_up(self) -> None:
        writer = self.parkazoo(hosts=FOLLOWER.leader.address).DistributedDict("/d")
        writer["x"] = "old"
        plain, strict = (
            self.parkazoo(hosts=FOLLOWER.server.address, timeout=SESSION_S).DistributedDict("/d", policy)
            for policy in (Always(), Linearizable())
        )
        self.assertEqual(strict["x"], "old")
        reads = (
            lambda: strict["x"],
            lambda: strict.get("y"),
            lambda: len(strict),
            lambda: sorted(strict.items()),
            lambda: sorted(strict.snapshot()),
        )
        found: list[object] = []
        FOLLOWER.freeze()
        try:
            writer.update(x="new", y=1)
            for read in reads:  # each would see what is old, if it did not wait
                strict._client.handler.spawn(lambda read=read: found.append(read()))
            self.assertEqual((plain["x"], len(plain)), ("old", 1))  # the server answers
            self.assertEqual(found, [])
        finally:
            FOLLOWER.thaw()
        wait_until(lambda: len(found) == len(reads), "all are answered")
        for answer in ("new", 1, 2, [("x", "new"), ("y", 1)], ["x", "y"]):
            self.assertIn(answer, found)
