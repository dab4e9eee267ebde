"""What /zookeeper/config says, when clients believe it, and where they go then."""

from __future__ import annotations

import random
import unittest

from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.protocol.server_list import NEVER, Server, ServerList, Servers, follow, parse_config, spread

CLIENTS = 10_000
A, B, C, D, E, F = SERVERS = parse_hosts("a:1,b:1,c:1,d:1,e:1,f:1")
# As ZooKeeper 3.9.5 writes it.
WRITTEN = b"""\
server.1=127.0.0.1:30448:26841:participant;127.0.0.1:26621
server.2=[0:0:0:0:0:0:0:1]:23849:25972:participant;0.0.0.0:21297
server.4=127.0.0.1:25179:27012:observer;[0:0:0:0:0:0:0:1]:29140
server.5=127.0.0.1:21074:26069:observer;[0:0:0:0:0:0:0:0]:22529
server.6=Localhost:26392:27618:observer;0.0.0.0:21805
version=10000000b"""


def config(*servers: str, version: str = "1") -> bytes:
    lines = [f"server.{number}={each}" for number, each in enumerate(servers, 1)]
    return "\n".join([*lines, f"version={version}"]).encode()


class TestParse(unittest.TestCase):
    def test_written_by_a_server(self) -> None:
        found = parse_config(WRITTEN)
        assert found is not None
        self.assertEqual(found.version, 0x10000000B)
        hosts = parse_hosts("127.0.0.1:26621,[::1]:21297,[::1]:29140,127.0.0.1:22529,localhost:21805")
        self.assertEqual(found.servers, hosts)

    def test_forms(self) -> None:
        """Each that the documentation of ZooKeeper has."""
        for server, expected in (
            ("125.23.63.23:1234:1235;1236", "125.23.63.23:1236"),
            ("125.23.63.23:1234:1235:participant;1236", "125.23.63.23:1236"),
            ("125.23.63.23:1234:1235:observer;1236", "125.23.63.23:1236"),
            ("125.23.63.23:1234:1235;125.23.63.24:1236", "125.23.63.24:1236"),
            ("h-1.example:1:2:participant;H-2.example:3", "h-2.example:3"),
            ("net1:2888:3888|net2:2889:3889;2188", "net1:2188"),
            ("net1:2888:3888|[::2]:2889:3889:observer;[::3]:2188", "[::3]:2188"),
        ):
            with self.subTest(server=server):
                self.assertEqual(parse_config(config(server)), ServerList(1, parse_hosts(expected)))

    def test_with_other_lines(self) -> None:
        """Of a hierarchical quorum, say, and as people write them."""
        data = b" server.3 = a:1:2 ; 1\r\n\ngroup.1=3\nweight.3=1\nnothing\nversion = ff\n"
        self.assertIsNone(parse_config(data))
        data = data.replace(b" ; ", b";")
        self.assertEqual(parse_config(data), ServerList(255, (A,)))

    def test_nothing_that_helps(self) -> None:
        """None, and no exception: there is none, it is damaged, or a server's port for clients is not there."""
        good = "a:1:2:participant;1"
        self.assertIsNotNone(parse_config(config(good)))
        for data in (
            None,
            b"",
            b"\xff\xfe",
            b"version=1",
            config(good).replace(b"version", b"revision"),
            *(config(good, version=each) for each in ("", "-1", "0x1", "g", "1" * 17, "1 2", "\u0661")),
            *(
                config(good, each)
                for each in (
                    "",
                    ";",
                    "b:1:2:participant",  # its port is in its zoo.cfg
                    "b:1;1",
                    "b:1:2:leader;1",
                    "0.0.0.0:1:2;1",  # its own name for itself
                    "[::]:1:2;0.0.0.0:1",
                    "b:1:2;0",
                    "b:1:2;65536",
                    "b:1:2;" + "9" * 5000,
                    "b:1:2;c:1,d:2",
                    "b:1:2;1,e:1",
                    "b,c:1:2;1",
                    "b:1:2;1;2",
                    ":1:2;1",
                    "[::1:1:2;1",
                    "[nowhere]:1:2;1",
                    "0.0.0.0:1:2;[nowhere]:1",
                    "b..c:1:2;1",
                    "b:1:2;\u0661",
                    "a:3:4;1",  # twice the same
                )
            ),
        ):
            with self.subTest(data=data):
                self.assertIsNone(parse_config(data))


class TestFollow(unittest.TestCase):
    def test_by_the_same_names(self) -> None:
        """One is enough, and needed only once."""
        first = follow(ServerList(NEVER, (A, B, C)), ServerList(0, (C, D)))
        self.assertEqual(first, ServerList(0, (C, D)))
        self.assertEqual(follow(first, ServerList(1, (E, F))), ServerList(1, (E, F)))

    def test_by_other_names(self) -> None:
        """The port counts too."""
        current = ServerList(NEVER, (A, B))
        for servers in ((C, D), (("a", 2), ("b", 2)), (("a.example", 1),)):
            self.assertIs(follow(current, ServerList(5, servers)), current)

    def test_newer_ones_only(self) -> None:
        current = ServerList(5, (A, B))
        for version in (0, 4, 5):
            self.assertIs(follow(current, ServerList(version, (A, C))), current)

    def test_none(self) -> None:
        for version in (NEVER, 5):
            current = ServerList(version, (A, B))
            self.assertIs(follow(current, None), current)


class TestServers(unittest.TestCase):
    def test_of_the_map(self) -> None:
        servers = Servers()
        self.assertEqual(servers.hosts("a", "a:1,b:1"), "a:1,b:1")
        self.assertEqual(servers.hosts("a", "c:1"), "c:1")
        self.assertFalse(servers.take("a", None))

    def test_the_ensemble_names_its_own(self) -> None:
        servers = Servers()
        servers.hosts("a", "a:1,b:1")
        servers.hosts("b", "a:2,b:2")
        self.assertTrue(servers.take("a", ServerList(2, (B, C))))
        self.assertEqual(servers.hosts("a", "a:1,b:1"), "b:1,c:1")
        self.assertEqual(servers.hosts("b", "a:2,b:2"), "a:2,b:2")
        self.assertFalse(servers.take("a", ServerList(1, (A, B))))
        self.assertTrue(servers.take("a", ServerList(3, (D,))))

    def test_those_of_the_map_are_kept(self) -> None:
        """The ensemble may name servers that this client cannot reach."""
        servers = Servers()
        servers.hosts("a", "a:1,b:1,c:1")
        self.assertEqual(servers.spare("a"), [])
        servers.take("a", ServerList(1, (B, D)))
        self.assertEqual(servers.spare("a"), [A, C])
        servers.hosts("a", "b:1,d:1")
        self.assertEqual(servers.spare("a"), [])

    def test_in_another_order(self) -> None:
        """The servers are the same."""
        servers = Servers()
        servers.hosts("a", "a:1,b:1")
        self.assertFalse(servers.take("a", ServerList(1, (B, A))))
        self.assertEqual(servers.hosts("a", "a:1,b:1"), "a:1,b:1")
        self.assertTrue(servers.take("a", ServerList(2, (C, D))))

    def test_the_map_changes(self) -> None:
        """It is compared anew with what the ensemble has said, even if that was of no use before."""
        servers = Servers()
        servers.hosts("a", "a:1")
        self.assertFalse(servers.take("a", ServerList(1, (B, C))))
        self.assertEqual(servers.hosts("a", "b:1"), "b:1,c:1")
        self.assertEqual(servers.hosts("a", "d:1"), "d:1")


CHANGES = (
    ((A, B, C), (A, B, C, D)),
    ((A, B, C), (A, B, C, D, E)),
    ((A, B, C, D, E), (A, B, C)),
    ((A, B, C), (B, C)),
    ((A, B, C), (B, C, D)),
    ((A, B, C), (D, E, F)),
    ((A, B, C), (A, D, E, F)),
    ((A, B, C, D), (D, E, F)),
    ((A, B, C, D), (C, D, E)),
    ((A,), (A, B, C)),
    ((A,), (B,)),
    ((A, B, C), (C, B, A)),
)


class TestSpread(unittest.TestCase):
    def test_evenly_and_few_move(self) -> None:
        for old, new in CHANGES:
            with self.subTest(old=old, new=new):
                clients = dict.fromkeys(new, 0.0)
                moved = 0.0
                for server in old:
                    chances = spread(server, old, new)
                    self.assertAlmostEqual(sum(chances.values()), 1)
                    self.assertGreaterEqual(min(chances.values()), 0)
                    for each, chance in chances.items():
                        clients[each] += chance / len(old)
                        moved += chance / len(old) if each != server else 0
                for each in new:
                    self.assertAlmostEqual(clients[each], 1 / len(new))
                stay = len({*old} & {*new}) * min(1 / len(old), 1 / len(new))
                self.assertAlmostEqual(moved, 1 - stay)

    def test_none_moves_in_vain(self) -> None:
        """Nothing is left to rounding: a client whose server stays, and has no more than its share, stays."""
        for count in range(1, 100):
            old = [("h", port) for port in range(count)]
            self.assertEqual(spread(old[0], old, old)[old[0]], 1)
            self.assertEqual(spread(old[0], [*old, ("g", 1)], old)[old[0]], 1)
            self.assertEqual(spread(old[0], [*old, ("g", 1)], [*old, ("i", 1)])[old[0]], 1)

    def test_an_unknown_server(self) -> None:
        """The client has not heard of the list that has it."""
        self.assertEqual(spread(D, (A, B), (A, D)), {A: 0, D: 1})
        self.assertEqual(spread(D, (A, B), (A, B)), {A: 0.5, B: 0.5})
        self.assertEqual(spread(D, (A, B), (A, C)), {A: 0, C: 1})

    def test_all_servers_are_replaced(self) -> None:
        """One after the other, under 10,000 clients: they stay spread evenly, and a quarter of them moves."""
        chance = random.Random(1)
        servers: tuple[Server, ...] = (A, B, C)
        at = [servers[number % 3] for number in range(CLIENTS)]
        for joins, leaves in ((D, A), (E, B), (F, C)):
            joined = (*servers, joins)
            for after in (joined, tuple(each for each in joined if each != leaves)):
                chances = {each: spread(each, servers, after) for each in servers}
                went = [chance.choices([*chances[each]], [*chances[each].values()])[0] for each in at]
                moved = sum(one != other for one, other in zip(at, went, strict=True))
                self.assertAlmostEqual(moved / CLIENTS, 1 / 4, delta=0.02)
                at, servers = went, after
                for each in servers:
                    self.assertAlmostEqual(at.count(each) / CLIENTS, 1 / len(servers), delta=0.02)
        self.assertEqual({*servers}, {D, E, F})
