"""What a client reads of many watched znodes when a lost connection is back, on real servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.states import KazooState

from parkazoo.kazoo_private import CONNECTION_DROP
from parkazoo.local.servers import LocalServer
from tests.live.world import DEADLINE_S, LiveTest, wait_until

MANY = 1000  # their paths need more than one request
CHANGED = 20
READS = ("get", "exists", "get_children")


class TestRewatching(LiveTest):
    """The client's session goes on: its functions are called for all that has changed, and for nothing else."""

    ensembles, servers = 1, 3

    def setUp(self) -> None:
        super().setUp()
        self.other = self.kazoo()
        self.root = self.new_root(self.other)
        self.client: Any = self.parkazoo(counters=True, timeout=30.0)
        self.states: list[str] = []
        self.client.add_listener(self.states.append)
        self.paths = [f"{self.root}/{number:0100}" for number in range(MANY)]
        for issued in [self.other.create_async(path, b"0") for path in self.paths]:
            issued.get(timeout=DEADLINE_S)
        self.missing = [f"{path}-missing" for path in self.paths[:CHANGED]]
        self.values: dict[str, list[Any]] = {}
        self.names: dict[str, list[Any]] = {}
        for path in self.paths + self.missing:
            self.client.DataWatch(path, self.teller(self.values, path))
        for path in self.paths[-2 * CHANGED :]:
            self.client.ChildrenWatch(path, self.teller(self.names, path))
        self.assertEqual((len(self.values), len(self.names)), (MANY + CHANGED, 2 * CHANGED))

    def teller(self, told: dict[str, list[Any]], path: str) -> Callable[..., None]:
        def tell(found: Any, stat: Any = None) -> None:
            told.setdefault(path, []).append(found)

        return tell

    def reads(self) -> int:
        requests = self.client.counters().requests
        return sum(count for (_, operation, _), count in requests.items() if operation in READS)

    def change(self) -> None:
        """Some of each kind."""
        for path in self.paths[:CHANGED]:
            self.once(self.other.set, path, b"1", 0)
        for path in self.paths[CHANGED : 2 * CHANGED]:
            self.once(self.other.delete, path)
        for path in self.missing[::2]:
            self.once(self.other.create, path, b"2")
        for path in self.paths[-CHANGED:]:
            self.once(self.other.create, f"{path}/x")

    def once(self, call: Callable[..., Any], *arguments: Any) -> None:
        """The other client may lose its connection, too."""
        with suppress(BadVersionError, NodeExistsError, NoNodeError):
            self.other.retry(call, *arguments)

    def check(self, lose: Callable[[], None]) -> None:
        self.values.clear()
        self.names.clear()
        self.states.clear()
        reads = self.reads()
        lose()
        self.change()
        values = {path: [b"1"] for path in self.paths[:CHANGED]}
        values |= {path: [None] for path in self.paths[CHANGED : 2 * CHANGED]}
        values |= {path: [b"2"] for path in self.missing[::2]}
        names = {path: [["x"]] for path in self.paths[-CHANGED:]}
        wait_until(lambda: (self.values, self.names) == (values, names), "all that has changed is told")
        wait_until(lambda: self.states[-1:] == [KazooState.CONNECTED], "it is back")
        self.assertNotIn(KazooState.LOST, self.states)
        self.client.get(self.root)
        self.assertEqual((self.values, self.names), (values, names))
        self.assertLess(self.reads() - reads, 10 * CHANGED)
        for path in self.paths:
            if path not in values:
                self.other.set_async(path, b"3")
        wait_until(
            lambda: sum(told[-1] == b"3" for told in self.values.values()) == MANY - 2 * CHANGED, "the rest"
        )

    def test_a_dropped_connection(self) -> None:
        self.check(lambda: self.member(self.client, 0)._call(CONNECTION_DROP, None))

    def test_a_killed_server(self) -> None:
        """The session goes on at another one."""
        killed = self.server()
        self.addCleanup(killed.wait_serving)
        self.addCleanup(killed.start)
        self.check(killed.kill)
        self.assertIsNot(self.server(), killed)

    def server(self) -> LocalServer:
        port = self.member(self.client, 0)._connection._socket.getpeername()[1]
        return next(each for each in self.cluster.ensembles[0].servers if each.port == port)
