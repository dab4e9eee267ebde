"""ZooKeeper's reconfiguration on real servers: what they say of themselves, and what a client makes of it."""

from __future__ import annotations

import unittest

from kazoo.client import KazooClient

from parkazoo.local import LocalCluster
from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.protocol.server_list import NEVER, ServerList, follow
from tests.live.reconfigured import ZOO_CFG, Reconfigured
from tests.live.world import connected


class TestReconfiguration(unittest.TestCase):
    def test_all_servers_are_replaced(self) -> None:
        """One by one, by others on new ports, the leader too. What was written is there."""
        with LocalCluster(1, 3, make_map=False, zoo_cfg=ZOO_CFG) as cluster, Reconfigured(cluster) as changing:
            first = changing.ensemble
            with connected(KazooClient(first.hosts)) as client:
                client.create("/kept", b"1")
            used = ServerList(NEVER, parse_hosts(first.hosts))
            for server in first.servers:
                changing.join()
                changing.leave(server)
                server.stop()
                before, used = used, follow(used, changing.config())
                self.assertGreater(used.version, before.version)
                self.assertEqual({*used.servers}, {*parse_hosts(cluster.hosts)})
                self.assertEqual(len(used.servers), 3)
            self.assertFalse({*used.servers} & {*parse_hosts(first.hosts)})
            changing.ensemble.wait_quorum()
            with connected(KazooClient(cluster.hosts)) as client:
                self.assertEqual(client.get("/kept")[0], b"1")
