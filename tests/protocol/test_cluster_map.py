"""The cluster map as JSON: whatever is stored there, a client reads a valid map or raises ClusterMapError."""

from __future__ import annotations

import gc
import json
import random
import unittest
import weakref

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import FORMAT, ClusterMap, format_hosts, no_map_error, parse_hosts
from parkazoo.protocol.wrong_ensemble import wrong_ensemble_error
from tests.protocol.map_documents import GOOD, OTHER_VALUES, ReadCase, encoded, weighted


class ReadTest(ReadCase):
    def test_good(self) -> None:
        found = ClusterMap.from_json(encoded())
        self.assertEqual(found.placement, ("a", "b"))
        self.assertEqual(found.ensembles, GOOD["ensembles"])
        self.assertEqual((found.cluster, found.bootstrap, found.epoch), ("5d3c", "a", 1))
        self.assertEqual(found.identity("b"), {"cluster": "5d3c", "name": "b"})
        self.assertEqual(found.shares, (1, 1))

    def test_round_trip(self) -> None:
        many = {f"e{i}": f"h{i}:1" for i in range(500)}
        for data in (
            encoded(),
            encoded(epoch=10**30),
            encoded(cluster='cluster "ü" \U0001f600 \\ \u0000'),
            encoded(placement=["b", "a"]),
            encoded(placement=["b"]),
            encoded(ensembles={"a": "[::1]:2181,[fe80::1]:2182", "b": "bücher.example:2181"}),
            encoded(ensembles=many | GOOD["ensembles"], placement=["a", "b", *many]),
            weighted(a=100, b=0),
        ):
            found = ClusterMap.from_json(data)
            self.assertEqual(ClusterMap.from_json(found.to_json()), found)
            self.assertEqual(json.loads(found.to_json()), json.loads(data))

    def test_equal_placements_are_one(self) -> None:
        """Clients of one process share what is remembered of 65,536 paths; it goes with the last of them."""
        of_one, of_another = (ClusterMap.from_json(encoded(cluster=name)).make_placement() for name in "ab")
        self.assertIs(of_one, of_another)
        swapped = ClusterMap.from_json(encoded(bootstrap="b")).make_placement()
        self.assertIsNot(swapped, of_one)
        self.assertIsNot(ClusterMap.from_json(weighted(a=1, b=2)).make_placement(), of_one)
        self.assertEqual((swapped.bootstrap, of_one.bootstrap), (1, 0))
        seen = weakref.ref(of_one)
        del of_one, of_another
        gc.collect()
        self.assertIsNone(seen())

    def test_equal_bytes_are_one_map(self) -> None:
        """So many clients of a process parse one."""
        self.assertIs(ClusterMap.from_json(encoded()), ClusterMap.from_json(bytes(bytearray(encoded()))))

    def test_not_json(self) -> None:
        for data in (None, b"", b" ", b"{", b"nonsense", b"{'format': 1}", b"\xff\xfe", b"\x00" * 100, b"{}{}"):
            self.assert_refused(data, "not JSON")

    def test_other_encodings(self) -> None:
        self.assert_refused(json.dumps(GOOD).encode("utf-16"))
        self.assert_refused(json.dumps(GOOD).encode("utf-8-sig"))

    def test_cut_off(self) -> None:
        data = encoded()
        for length in range(len(data)):
            self.assert_refused(data[:length])

    def test_not_an_object(self) -> None:
        for data in (b"1", b"null", b'"x"', b"[]", b"[1]", b"NaN"):
            self.assert_refused(data, "not a JSON object")

    def test_deep(self) -> None:
        for depth in (50, 200, 900, 1200, 100_000):
            for data in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
                self.assert_refused(data)
                for key in GOOD:
                    self.assert_refused(encoded(**{key: 0}).replace(b'"%s": 0' % key.encode(), b'"x": ' + data))
                    self.assert_refused(encoded(**{key: "HERE"}).replace(b'"HERE"', data), "damaged|hash|string")

    def test_a_key_is_missing(self) -> None:
        for key in GOOD:
            self.assert_refused(json.dumps({k: v for k, v in GOOD.items() if k != key}).encode(), key)

    def test_an_unknown_key(self) -> None:
        self.assert_refused(encoded(rules=[]), "unknown.*rules")

    def test_a_key_appears_twice(self) -> None:
        self.assert_refused(encoded().replace(b'"epoch": 1', b'"epoch": 1, "epoch": 2'), "epoch.*twice")
        self.assert_refused(encoded().replace(b'"b": "h3', b'"a": "h4:1", "b": "h3'), "'a' appears twice")

    def test_other_types(self) -> None:
        for key in GOOD:
            for value in OTHER_VALUES:
                if (key, value) == ("cluster", "x"):
                    continue  # any text names a cluster
                with self.subTest(key=key, value=value):
                    self.assert_refused(encoded(**{key: value}))

    def test_newer_format(self) -> None:
        # Whatever else a newer format holds, the advice is to upgrade.
        self.assert_refused(encoded(format=FORMAT + 1), "format 3.*upgrade")
        self.assert_refused(json.dumps({"format": 99, "anything": []}).encode(), "format 99.*upgrade")

    def test_other_formats(self) -> None:
        """There is nothing to upgrade to."""
        for number in (1, 0, -1):
            self.assert_refused(
                encoded(format=number), f"^it has format {number}, which this .* not know, only 2$"
            )
            self.assert_refused(json.dumps({"format": number}).encode(), f"^it has format {number}, ")
        self.assert_refused(encoded(hash="sha256"), "hash 'sha256'; this ParKazoo knows rendezvous-sha256")

    def test_huge_numbers(self) -> None:
        self.assert_refused(encoded(format=10**30), "upgrade")
        self.assert_refused(encoded(epoch="HERE").replace(b'"HERE"', b"9" * 100_000), "damaged")
        self.assert_refused(encoded(epoch="HERE").replace(b'"HERE"', b"1e999"), "epoch")
        self.assert_refused(encoded(epoch="HERE").replace(b'"HERE"', b"-" + b"9" * 100), "epoch")
        self.assert_refused(encoded(ensembles={"a": f"h:{'9' * 5000}", "b": "h3:1"}))

    def test_other_hash(self) -> None:
        self.assert_refused(encoded(hash="md5"), "md5.*sha256")

    def test_a_server_in_two_ensembles(self) -> None:
        self.assert_refused(
            encoded(ensembles={"a": "h1:1,h2:1", "b": "h2:1"}), "h2:1 would be in ensemble a and in b"
        )
        self.assert_refused(encoded(ensembles={"a": "h1:1", "b": "H1:01"}), "in ensemble a and in b")
        self.assert_refused(encoded(ensembles={"a": "[::1]:1", "b": "[0:0::0:1]:1"}), "in ensemble a and in b")
        self.assert_refused(encoded(ensembles={"a": "h1:1,h1:1", "b": "h2:1"}), "names a server twice")

    def test_one_host_with_two_ports_is_two_servers(self) -> None:
        ClusterMap.from_json(encoded(ensembles={"a": "h1:1", "b": "h1:2"}))

    def test_names(self) -> None:
        for name in ("", " ", "a b", "ü", "-a", ".a", "a/b", "a,b", "a=b", "a\n", "a" * 64, "\ud800"):
            with self.subTest(name=name):
                self.assert_refused(encoded(ensembles={**GOOD["ensembles"], name: "h9:1"}), "no name")
        for name in ("a", "A-1", "eu.west_1", "7", "a" * 63):
            ClusterMap.from_json(encoded(ensembles={name: "h1:1"}, placement=[name], bootstrap=name))

    def test_placement(self) -> None:
        self.assert_refused(encoded(placement=[]), "names no ensemble")
        self.assert_refused(encoded(placement=["a", "b", "a"]), "twice")
        self.assert_refused(encoded(placement=["a", "b", "c"]), "no hosts are given for ensemble c")
        self.assert_refused(encoded(placement=["a"]), "ensemble b is not in the placement")
        self.assert_refused(encoded(bootstrap="z"), "no hosts are given for ensemble z")
        self.assert_refused(encoded(ensembles={}), "no hosts")

    def test_bootstrap_apart(self) -> None:
        found = ClusterMap.from_json(encoded(placement=["b"]))
        self.assertEqual(found.names, ("b", "a"))

    def test_hosts(self) -> None:
        for hosts in (
            *(
                ",",
                "h",
                "h:",
                ":1",
                "h:0",
                "h:65536",
                "h:-1",
                "h:x",
                "h:1/app",
                "h:1,",
                ",h:1",
                "h:1;g:2",
            ),
            *("h 1:1", "h:1 g:2", "::1:2181", "[::1]", "[]:1", "[12]:1", "[::::]:1", "[h]:1", "http://h:1", "h:٣"),
            *("a..b:1", "x" * 64 + ".org:1", "\x00:1", "\ud800:1", "h\n:1", "user@h:1", "h:1:2"),
        ):
            with self.subTest(hosts=hosts):
                self.assert_refused(encoded(ensembles={"a": hosts, "b": "h3:1"}), "not host:port")

    def test_damaged_bytes(self) -> None:
        # A flipped bit may leave a valid map, with another host say; what must not happen is any other error.
        rng = random.Random(3)
        data = encoded()
        for _ in range(5000):
            damaged = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                ClusterMap.from_json(bytes(damaged))
            except ClusterMapError:
                continue


class HostsTest(unittest.TestCase):
    def test_round_trip(self) -> None:
        for hosts in (
            "h1:1",
            "h1:2181,h2:2182",
            "[::1]:2181,127.0.0.1:2181",
            "bücher.example:1",
            "zk_1.local:65535",
        ):
            self.assertEqual(format_hosts(parse_hosts(hosts)), hosts)

    def test_spellings(self) -> None:
        self.assertEqual(parse_hosts(" H1:2181 , [0:0::1]:02181 "), (("h1", 2181), ("::1", 2181)))

    def test_none(self) -> None:
        for hosts in ("", " "):
            with self.assertRaisesRegex(ClusterMapError, "names no server"):
                parse_hosts(hosts)

    def test_not_a_string(self) -> None:
        for hosts in (None, 1, b"h:1", ["h:1"], ("h", 1)):
            with self.assertRaisesRegex(ClusterMapError, "must be a string"):
                parse_hosts(hosts)  # type: ignore[arg-type] - that is the point


class WithHostsTest(unittest.TestCase):
    MAP = ClusterMap("5d3c", {"a": "h1:1,h2:1", "b": "h3:1", "c": "h4:1"}, ("b", "a"), "c", 3)

    def test_changed(self) -> None:
        changed = self.MAP.with_hosts({"b": "H5:1, h6:1", "c": "h4:1"})
        ensembles = {"a": "h1:1,h2:1", "b": "h5:1,h6:1", "c": "h4:1"}
        self.assertEqual(changed, ClusterMap("5d3c", ensembles, ("b", "a"), "c", 4))
        self.assertEqual(list(changed.ensembles), ["a", "b", "c"])
        self.assertIs(changed.make_placement(), self.MAP.make_placement())

    def test_the_same_servers(self) -> None:
        self.assertIs(self.MAP.with_hosts({"a": "h2:1,h1:1"}), self.MAP)
        self.assertIs(self.MAP.with_hosts({}), self.MAP)

    def test_exchanged(self) -> None:
        self.assertEqual(self.MAP.with_hosts({"b": "h4:1", "c": "h3:1"}).ensembles["b"], "h4:1")

    def test_refused(self) -> None:
        for hosts, pattern in (("h1:1", "in ensemble a and in b"), ("h", "not host:port"), ("", "no server")):
            with self.subTest(hosts), self.assertRaisesRegex(ClusterMapError, pattern):
                self.MAP.with_hosts({"b": hosts})


class NoMapTest(unittest.TestCase):
    """The error for an operator who names servers without a map."""

    def test_servers_of_no_cluster(self) -> None:
        self.assertEqual(
            str(no_map_error("h:1", None)),
            "no cluster map at /parkazoo/map on h:1: either none has been made, or this was the bootstrap "
            "ensemble of a cluster that still exists on its other ensembles, and it has lost its data. "
            "`parkazoo map init` with all ensembles finds out: it makes a first map, or refuses and names what "
            "is lost",
        )

    def test_servers_of_another_ensemble(self) -> None:
        self.assertEqual(
            str(no_map_error("h:1", b'{"cluster": "5d3c", "name": "b"}')),
            "no cluster map at /parkazoo/map on h:1: these servers are ensemble b of cluster 5d3c: "
            "give servers of its other ensembles too. If none has the map, it is lost: `parkazoo map init` "
            "with all ensembles names what is lost with it",
        )
        for record in (b"", b"{", b"1", b"{}", b"[" * 100_000, b"\xff"):
            self.assertIn("these servers are marked with something unknown", str(no_map_error("h:1", record)))


class WrongEnsembleTest(unittest.TestCase):
    """What a client says when an address leads to other servers than the map means."""

    MAP = ClusterMap(cluster="5d3c", bootstrap="a", ensembles={"a": "h:1", "b": "h:2"}, placement=("a", "b"))

    def test_the_right_one(self) -> None:
        self.assertIsNone(wrong_ensemble_error(self.MAP, "b", b'{"name": "b", "cluster": "5d3c"}'))

    def test_others(self) -> None:
        for record in (b"", b"\xff", b"{}", b"[" * 100_000, b'{"cluster": "5d3c", "name": "a"}'):
            with self.subTest(record[:40]):
                words = str(wrong_ensemble_error(self.MAP, "b", record))
                self.assertIn("the servers h:2 are not ensemble b of this cluster", words)
                self.assertIn("{'cluster': '5d3c', 'name': 'b'}. See `parkazoo map check`", words)

    def test_none(self) -> None:
        self.assertIn("they have lost their data", str(wrong_ensemble_error(self.MAP, "b", None)))
