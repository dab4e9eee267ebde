"""A map of format 1, which places by the modulo, on ensembles of an earlier version; and one with weights."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.admin import change_hosts, init_map, read_map
from parkazoo.admin.contents import DRAFT
from parkazoo.fsck import check
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import MAP, MIRRORS, ROOT, Placement, modulo
from tests.live.map_case import MapCase, check_but_strangers, other_spelling, run_command, wipe

PATHS = [f"/{number}" for number in range(12)]


class TestFormat1(MapCase):
    """An earlier version began to make the map."""

    def setUp(self) -> None:
        super().setUp()
        self.placement = Placement(3, choose=modulo(3))
        begun = ClusterMap("by an earlier version", self.all, tuple(self.all), "a", format=1)
        self.plain[0].create(ROOT)
        self.plain[0].create(DRAFT, begun.to_json())
        self.made = init_map(self.a, self.all)
        self.assertEqual(self.made, begun)
        with self.client() as client:
            for path in PATHS:
                client.create(f"{path}/child", path.encode(), makepath=True)

    @contextlib.contextmanager
    def client(self) -> Iterator[ParKazooClient]:
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            yield client
            client.stop()

    def assert_whole(self) -> None:
        """Every client finds every znode, where the modulo has it; nothing is to be mended."""
        self.assertEqual(check_but_strangers(self.a), [])
        with self.client() as client:
            for path in PATHS:
                self.assertEqual(client.get(f"{path}/child")[0], path.encode())
                place = self.placement.home(f"{path}/child")
                self.assertEqual(self.plain[place.ensemble].get(place.path)[0], path.encode())
        found = {kind.name for kind, tally in check(self.a, grace_s=0.1).tallies.items() if tally.found}
        self.assertLessEqual(found, {"missing-structure"})  # most of the fences

    def test_at_work(self) -> None:
        mock.patch.stopall()
        self.assertEqual(init_map(self.a, self.all), self.made)  # with all the fences, which deletes need
        with self.client() as client:
            client.delete(PATHS[0], recursive=True)
            client.create(f"{PATHS[0]}/child", PATHS[0].encode(), makepath=True)
        self.assert_whole()
        self.assertIn("map 1, format 1, hash sha256", run_command("map", "show", "--hosts", self.a)[1])
        self.assertIn("modulo 3", run_command("where", PATHS[0], "--hosts", self.a)[1])

    def test_it_keeps_its_format(self) -> None:
        changed = change_hosts(self.a, {"b": other_spelling(self.b)})
        self.assertEqual(changed, dataclasses.replace(self.made, epoch=2, ensembles=changed.ensembles))
        for client in self.plain:
            self.assertEqual(client.get(MAP)[0], changed.to_json())
        self.assertEqual(json.loads(changed.to_json())["format"], 1)
        self.assert_whole()

    def test_a_copy_is_the_primary_again(self) -> None:
        self.plain[0].delete(MAP)
        self.assertEqual(init_map(self.a, self.all, replace=["a"]), self.made)
        self.assert_whole()

    def test_all_maps_are_lost(self) -> None:
        """The znodes say by which format they were placed."""
        for client in self.plain:
            client.delete(MAP)
        self.assertEqual(init_map(self.a, self.all, replace=["a"]), self.made)
        self.assert_whole()

    def test_the_bootstrap_ensemble_is_lost_with_all_maps(self) -> None:
        for client in self.plain[1:]:
            client.delete(MAP)
        wipe(self.plain[0])
        self.assertEqual(init_map(self.a, self.all, replace=["a"]), self.made)
        self.assertEqual(check_but_strangers(self.a), [])
        with self.client() as client:
            left = {path for path in PATHS if client.exists(f"{path}/child")}
        self.assertEqual(left, {path for path in PATHS if self.placement.of_children(path) != 0})
        self.assertNotIn(left, (set(), set(PATHS)))

    def test_copies_of_two_formats(self) -> None:
        """No command writes such a thing."""
        other = dataclasses.replace(self.made, format=2)
        self.plain[1].set(MAP, other.to_json())
        self.assertRegex(check_but_strangers(self.a)[0].problem, "its copy of the map is wrong: it is map 1 too")
        with self.refused("ensemble b .* is wrong: it is map 1 too, and says something else"):
            init_map(self.a, self.all)
        self.plain[1].set(MAP, dataclasses.replace(other, epoch=2).to_json())
        self.assertRegex(check_but_strangers(self.a)[0].problem, "its map is not the newest of its cluster")
        with self.refused("is behind its copy on ensemble b .*: it is map 2, newer than 1"):
            init_map(self.a, self.all)
        self.assertEqual(read_map(self.a), self.made)


class TestWeights(MapCase):
    def test_none_and_more(self) -> None:
        """No command gives weights yet; a map that has them is shown, worked by and kept."""
        made = dataclasses.replace(init_map(self.a, self.all), weights={"b": 0, "c": 3})
        self.publish(made)
        out = run_command("map", "show", "--hosts", self.a)[1]
        for pattern in (
            r"a .*znodes, the map ",
            r"b .*znodes, weight 0 ",
            r"c .*znodes, weight 3 ",
            "format 2, hash rend",
        ):
            self.assertRegex(out, pattern)
        self.assertIn("b  none: its weight is 0", run_command("where", "/app", "--hosts", self.a)[1])
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            for path in PATHS:
                client.create(f"{path}/child", makepath=True)
            client.stop()
        self.assertEqual(set(self.plain[1].get_children("/")), {"parkazoo", "zookeeper"})
        mirrors = [bool(client.get_children(MIRRORS)) for client in self.plain]
        self.assertEqual(mirrors, [True, False, False])  # the children of / are on c, and so are most of theirs
        self.assertEqual(check_but_strangers(self.a), [])
        changed = change_hosts(self.a, {"b": other_spelling(self.b)})
        self.assertEqual((changed.weights, changed.epoch), (made.weights, 2))
        self.plain[0].delete(MAP)
        self.assertEqual(init_map(self.a, changed.ensembles, replace=["a"]), changed)
