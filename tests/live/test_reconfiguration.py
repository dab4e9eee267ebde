"""ZooKeeper's reconfiguration on real servers: what they say of themselves, and what a client makes of it."""

from __future__ import annotations

import threading
import unittest
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KazooState

from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.admin import change_hosts, check_map, read_status
from parkazoo.local import LocalCluster
from parkazoo.protocol.cluster_map import format_hosts, parse_hosts
from parkazoo.protocol.placement import MAP, Placement
from parkazoo.protocol.registration import decode_registration, registration_path
from parkazoo.protocol.server_list import NEVER, ServerList, follow
from parkazoo.wire import move
from tests.live.world import DEADLINE_S, Seen, connected, wait_until
from tests.reconfigured import ZOO_CFG, Reconfigured

CHANGING = 1  # the index of the ensemble whose servers are replaced


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


class TestTheMap(unittest.TestCase):
    def test_servers_that_are_no_members(self) -> None:
        """They serve the ensemble's data without a vote: the map must not depend on them alone."""
        with LocalCluster(1, 3, zoo_cfg=ZOO_CFG) as cluster, Reconfigured(cluster) as changing:
            name, hosts = changing.ensemble.name, cluster.hosts
            outside = changing.serve()
            with self.assertRaisesRegex(ClusterMapError, f"{outside.address} are no members of ensemble {name}"):
                change_hosts(hosts, {name: outside.address})
            self.assertEqual(check_map(hosts), [])
            change_hosts(hosts, {name: f"{hosts},{outside.address}"})
            (found,) = check_map(hosts)
            self.assertEqual((found.is_warning, outside.address in found.problem), (True, True))
            followers = [each.address for each, role in changing.ensemble.roles().items() if not role.is_leader]
            change_hosts(hosts, {name: ",".join(followers)}, fewer=True)
            self.assertIn("a voting member of the ensemble", read_status(hosts).findings[0].problem)
            renamed = hosts.replace("127.0.0.1", "localhost")
            change_hosts(hosts, {name: renamed})
            self.assertEqual(check_map(renamed), [])


class Writer:
    """Writes numbers, one after the other, until it is told to stop."""

    def __init__(self, client: ParKazooClient, path: str) -> None:
        self.last = 0
        self.errors: list[Exception] = []
        self._client = client
        self._path = path
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                with suppress(ConnectionLoss):
                    self._client.set(self._path, str(self.last + 1).encode())
                    self.last += 1
        except Exception as error:
            self.errors.append(error)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_S)


class TestClients(unittest.TestCase):
    def test_all_servers_are_replaced(self) -> None:
        """Clients hold a lock, watch and write meanwhile: each leaves a server in time, with its session."""
        with (
            mock.patch.object(move, "MOST_DELAY_S", 0.1),
            LocalCluster(2, 3, zoo_cfg=ZOO_CFG) as cluster,
            Reconfigured(cluster, CHANGING) as changing,
            ExitStack() as stack,
        ):
            name = changing.ensemble.name
            placement = Placement(2)
            parent = next(
                path for path in map("/d{}".format, range(99)) if placement.of_children(path) == CHANGING
            )
            clients = [stack.enter_context(connected(ParKazooClient(cluster.hosts))) for _ in range(4)]
            holder, watching, writing, idle = clients
            holder.ensure_path(f"{parent}/z")
            lock, values = holder.Lock(f"{parent}/lock"), Seen()
            lock.acquire(timeout=DEADLINE_S)
            watching.DataWatch(f"{parent}/z", lambda data, stat: values(data))
            for client in clients:
                client.join(name, timeout=DEADLINE_S)
            writer = Writer(writing, f"{parent}/z")
            members: list[Any] = [client._session.roster.ports[CHANGING] for client in clients]  # type: ignore[union-attr]
            sessions = [each.session_id for each in members]
            states = [Seen() for _ in clients]
            for client, seen in zip(clients, states, strict=True):
                client.add_listener(seen)
            first = changing.ensemble
            for server in first.servers:
                changing.join()
                changing.leave(server)
                wait_until(
                    lambda left=server.address: left not in {str(each._connection.address) for each in members},
                    "all clients have left it",
                )
                server.stop()
            changing.ensemble.wait_quorum()
            written = writer.last
            wait_until(lambda: writer.last > written + 10, "writes go on")
            writer.stop()
            wait_until(lambda: values[-1:] == [str(writer.last).encode()], "the watch hears of the last one")
            now = {*parse_hosts(changing.ensemble.hosts)}
            wait_until(lambda: all({*each.hosts} == now for each in members), f"all know {format_hosts(now)}")
            self.assertFalse(now & {*parse_hosts(first.hosts)})
            self.assertEqual([each.session_id for each in members], sessions)
            self.assertEqual(writer.errors, [])
            self.assertEqual([KazooState.LOST in seen for seen in states], [False] * 4)
            self.assertFalse(idle.Lock(f"{parent}/lock").acquire(blocking=False))
            lock.release()

    def test_another_map(self) -> None:
        """Servers get other names there. Connected clients take it over, and say so in their registrations."""
        with mock.patch.object(move, "MOST_DELAY_S", 0.1), LocalCluster(2, 1) as cluster, ExitStack() as stack:
            client = stack.enter_context(connected(ParKazooClient(cluster.hosts)))
            client.join(timeout=DEADLINE_S)
            states = Seen()
            client.add_listener(states)
            before = client.cluster_map
            assert before is not None
            name, (port,) = (
                cluster.ensembles[1].name,
                (port for _, port in parse_hosts(cluster.ensembles[1].hosts)),
            )
            named = replace(
                before, ensembles={**before.ensembles, name: f"localhost:{port}"}, epoch=before.epoch + 1
            )
            plain = [stack.enter_context(connected(KazooClient(each.hosts))) for each in cluster.ensembles]
            for each in plain:
                each.set(MAP, named.to_json())
            members: dict[str, Any] = dict(client.members)
            wait_until(lambda: str(members[name]._connection.address) == f"localhost:{port}", "the new name")
            for each, ensemble in zip(plain, cluster.ensembles, strict=True):
                path = registration_path(members[ensemble.name].session_id)
                wait_until(
                    lambda each=each, path=path: decode_registration(each.get(path)[0])["epoch"] == named.epoch,
                    "the registration says the new epoch",
                )
            self.assertEqual((client.cluster_map, states), (named, []))
