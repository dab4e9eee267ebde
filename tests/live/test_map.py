"""The cluster map made on real ensembles, made again, and refused."""

from __future__ import annotations

import itertools
import json
import re
import socket
from unittest import mock

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin import check_map, init_map, read_map
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import DONE, ENSEMBLE, FENCES, MAP, MIRRORS, ROOT, Placement
from tests.live.map_case import FEW_FENCES, UNREACHABLE_TIMEOUT_S, MapCase, dump, free_port, other_spelling, wipe
from tests.where_is import where_is


class InitTest(MapCase):
    def test_three(self) -> None:
        made = init_map(self.a, self.all)
        self.assertEqual((made.placement, made.bootstrap, made.epoch), (("a", "b", "c"), "a", 1))
        self.assertEqual(made.ensembles, self.all)
        self.assertRegex(made.cluster, "^[0-9a-f]{32}$")
        self.assertEqual(ClusterMap.from_json(self.plain[0].get(MAP)[0]), made)
        self.assertEqual(read_map(self.a), made)
        for name, client in zip("abc", self.plain, strict=True):
            self.assertEqual(json.loads(client.get(ENSEMBLE)[0]), {"cluster": made.cluster, "name": name})
            self.assertEqual(sorted(map(int, client.get_children(FENCES))), list(range(FEW_FENCES)))
            expected = {"clients", "ensemble", "mirrors", "fences", "done", "map"}
            if name == made.bootstrap:
                expected.add("history")
            self.assertEqual(set(client.get_children(ROOT)), expected)
            self.assertEqual(client.get(MAP)[0], made.to_json())
            self.assertEqual(set(client.get_children("/")), {"parkazoo", "zookeeper"})
            self.assertEqual(client.get_acls(MIRRORS)[0], OPEN_ACL_UNSAFE)
        self.assertEqual(check_map(self.a), [])

    def test_all_the_fences(self) -> None:
        mock.patch.stopall()
        init_map(self.a, self.all)
        for client in self.plain:
            self.assertEqual(sorted(map(int, client.get_children(FENCES))), list(range(1024)))

    def test_order_of_the_placement(self) -> None:
        made = init_map(self.b, {"c": self.c, "a": self.a, "b": self.b})
        self.assertEqual((made.placement, made.bootstrap), (("c", "a", "b"), "b"))
        self.assertEqual(read_map(self.b), made)

    def test_bootstrap_apart(self) -> None:
        made = init_map(self.c, {"a": self.a, "b": self.b})
        self.assertEqual(
            (made.placement, made.names, made.bootstrap), (("a", "b"), ("a", "b", "bootstrap"), "bootstrap")
        )
        self.assertEqual(set(self.plain[2].get_children(ROOT)), {"clients", "ensemble", "map", "history"})
        self.assertEqual(check_map(self.c), [])
        self.assertEqual(init_map(self.c, {"a": self.a, "b": self.b}), made)

    def test_one_is_adopted_as_it_stands(self) -> None:
        client = self.plain[0]
        client.create("/app/jobs/1", b"data", makepath=True)
        before = dump(client)
        made = init_map(self.a, {"only": self.a})
        self.assertEqual(made.names, ("only",))
        after = dump(client)
        self.assertEqual({path: after[path] for path in before}, before)
        self.assertEqual(set(client.get_children(ROOT)), {"clients", "ensemble", "map", "history"})
        self.assertEqual(check_map(self.a), [])

    def test_repeated(self) -> None:
        made = init_map(self.a, self.all)
        before = [dump(client) for client in self.plain]
        self.assertEqual(init_map(self.a, self.all), made)
        self.assertEqual(init_map(other_spelling(self.a).replace("localhost", "127.0.0.1"), dict(self.all)), made)
        self.assertEqual([dump(client) for client in self.plain], before)

    def test_repeated_with_znodes_of_users(self) -> None:
        made = init_map(self.a, self.all)
        home = where_is(Placement(3), "/app").home
        self.plain[home.ensemble].create("/app")
        self.assertEqual(init_map(self.a, self.all), made)
        self.plain[(home.ensemble + 1) % 3].create("/app")  # not a concern of a map that is made
        self.assertEqual(init_map(self.a, self.all), made)

    def test_repeat_makes_what_is_missing(self) -> None:
        made = init_map(self.a, self.all)
        for path in (f"{FENCES}/3", DONE):
            self.plain[1].delete(path)
        self.plain[0].delete(ENSEMBLE)  # the map is there
        self.plain[0].set(f"{FENCES}/5", b"")
        fence = self.plain[0].get(f"{FENCES}/5")
        self.assertEqual(init_map(self.a, self.all), made)
        self.assertEqual(self.plain[0].get(f"{FENCES}/5"), fence)
        self.assertEqual(check_map(self.a), [])

    def test_other_arguments(self) -> None:
        init_map(self.a, self.all)
        for ensembles, pattern in (
            ({"a": self.a, "b": self.b}, "its placement is a, b, c, not a, b"),
            ({"b": self.b, "a": self.a, "c": self.c}, "its placement is a, b, c, not b, a, c"),
            ({"x": self.a, "b": self.b, "c": self.c}, "its bootstrap ensemble is a, not x"),
            ({"a": self.a, "b": self.c, "c": self.b}, re.escape(f"its ensemble b is {self.b}, not {self.c}")),
            ({"a": self.a, "b": self.b, "c": other_spelling(self.c)}, "its ensemble c is"),
        ):
            with self.subTest(pattern), self.refused(f"another cluster map at {MAP} on {self.a}.*{pattern}"):
                init_map(self.a, ensembles)

    def test_ensemble_of_another_cluster(self) -> None:
        made = init_map(self.a, {"a": self.a, "b": self.b})
        with self.refused(rf"ensemble x .* is ensemble b of cluster {made.cluster}"):
            init_map(self.c, {"c": self.c, "x": self.b})
        with self.refused(
            rf"^ensemble a \({self.a}\) is the bootstrap ensemble of cluster {made.cluster}, says the map on "
            rf"ensemble b \({self.b}\): give its hosts as --bootstrap$"
        ):  # though the name fits
            init_map(self.c, {"c": self.c, "b": self.b})
        self.plain[1].delete(MAP)
        with self.refused(
            rf"no cluster map at {MAP} on ensemble c \({self.c}\), but ensemble b is of cluster {made.cluster}\. "
            r"If c was not its bootstrap ensemble, give that one as --bootstrap\. If it was, "
        ):
            init_map(self.c, {"c": self.c, "b": self.b})

    def test_the_bootstrap_ensemble_is_another(self) -> None:
        init_map(self.a, {"a": self.a, "b": self.b})
        right = "^ensemble a .* is the bootstrap ensemble of cluster .*: give its hosts as --bootstrap$"
        with self.refused(right):
            init_map(self.b, {"a": self.a, "b": self.b})
        self.plain[1].delete(MAP)
        with self.refused(right):
            init_map(self.b, {"a": self.a, "b": self.b})
        wipe(self.plain[1])
        other = init_map(self.c, {"b": self.b})
        with self.refused(
            f"^ensemble bootstrap .{self.c}. is the bootstrap ensemble of cluster {other.cluster}, "
        ):
            init_map(self.b, {"a": self.a, "b": self.b})
        self.plain[1].delete(MAP)
        with self.refused("^ensemble a .* is ensemble a of cluster "):
            init_map(self.b, {"a": self.a, "b": self.b})

    def test_members_of_a_cluster_with_its_bootstrap_apart(self) -> None:
        init_map(self.c, {"a": self.a, "b": self.b})
        with self.refused(f"^ensemble bootstrap .{self.c}. is the bootstrap ensemble of"):
            init_map(self.a, {"a": self.a, "b": self.b})
        for client in self.plain[:2]:
            client.delete(MAP)
        with self.refused("If a was not its bootstrap ensemble, give that one"):
            init_map(self.a, {"a": self.a, "b": self.b})

    def test_mirrors_are_not_given_up(self) -> None:
        """An ensemble that holds the children of another cluster's directories: no message says to delete them."""
        init_map(self.a, {"a": self.a, "b": self.b})
        self.plain[1].create(MIRRORS + "/%2Fapp")
        with self.refused(
            "ensemble x .* is ensemble b of cluster .*: leave /parkazoo there, and use other servers$"
        ):
            init_map(self.c, {"c": self.c, "x": self.b})
        self.plain[1].delete(MIRRORS + "/%2Fapp")
        with self.refused(
            "ensemble x .* is ensemble b of cluster .* delete /parkazoo there .`deleteall /parkazoo` in .*$"
        ):
            init_map(self.c, {"c": self.c, "x": self.b})

    def test_damaged_or_newer_map(self) -> None:
        init_map(self.a, self.all)
        self.plain[0].set(MAP, b"{")
        with self.refused(f"cannot use the cluster map at {MAP} on {self.a}: it is damaged"):
            init_map(self.a, self.all)
        self.plain[0].set(MAP, b'{"format": 3}')
        with self.refused("format 3.*upgrade"):
            init_map(self.a, self.all)

    def test_nonsense(self) -> None:
        for bootstrap, ensembles, pattern in (
            ("", self.all, "'' names no server: give one or more"),
            (self.a + "/chroot", self.all, "not host:port"),
            (self.a, {}, "at least one ensemble"),
            (self.a, {"a": ""}, "'' names no server: give one or more"),
            (self.a, {"a b": self.a}, "no name for an ensemble"),
            (self.a, {"a": self.a, "b": self.a}, "in ensemble a and in b"),
            (f"{self.a},{self.b}", self.all, f"shares {self.a} with ensemble a"),
            (f"{self.a},127.0.0.1:1", self.all, f"shares {self.a} with ensemble a"),
            (self.c, {"bootstrap": self.a}, "'bootstrap' is the name of the ensemble"),
        ):
            with self.subTest(pattern), self.refused(pattern):
                init_map(bootstrap, ensembles)

    def test_unreachable(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        why = rf"^an ensemble cannot be reached within {UNREACHABLE_TIMEOUT_S:g} s:\n"
        with self.refused(rf"{why}  ensemble b: {closed_port}: Connection refused$"):
            init_map(self.a, {"a": self.a, "b": closed_port}, timeout_s=UNREACHABLE_TIMEOUT_S)
        with self.refused(r"ensemble b: no-such-host\.invalid:2181: "):
            init_map(self.a, {"a": self.a, "b": "no-such-host.invalid:2181"}, timeout_s=UNREACHABLE_TIMEOUT_S)

    def test_not_a_zookeeper(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            hosts = f"127.0.0.1:{mute.getsockname()[1]}"
            with self.refused(f"ensemble b: {hosts}: answers, but not as a ZooKeeper that serves"):
                init_map(self.a, {"a": self.a, "b": hosts}, timeout_s=UNREACHABLE_TIMEOUT_S)

    def test_one_server_down_of_an_ensemble_that_is_up(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        made = init_map(self.a, {"a": f"{self.a},{closed_port}", "b": self.b})
        (finding,) = check_map(self.a)
        self.assertEqual((finding.ensemble, finding.problem), ("a", f"server {closed_port}: Connection refused"))
        self.assertTrue(finding.is_warning)
        self.assertEqual(made.bootstrap, "a")

    def test_two_names_for_one_ensemble(self) -> None:
        with self.refused("a and b are one ensemble"):
            init_map(self.a, {"a": self.a, "b": other_spelling(self.a)})
        with self.refused("a and bootstrap are one ensemble"):
            init_map(other_spelling(self.a), {"a": self.a})

    def test_two_ensembles_under_one_name(self) -> None:
        with self.refused(f"server .* is not in one ensemble with the other servers of a .{self.a},{self.b}"):
            init_map(self.a, {"a": f"{self.a},{self.b}", "c": self.c})

    def test_znodes_that_would_be_out_of_reach(self) -> None:
        placement = Placement(3)
        right = where_is(placement, "/app").home.ensemble
        wrong = (right + 1) % 3
        self.plain[wrong].create("/app")
        with self.refused(f"out of reach.*: /app on ensemble {'abc'[wrong]}"):
            init_map(self.a, self.all)
        self.plain[wrong].delete("/app")
        self.plain[right].create("/app")
        deep = next(path for path in (f"/d{i}" for i in itertools.count()) if not placement.is_native(path))
        self.plain[right].create(deep + "/child", makepath=True)
        with self.refused(f"out of reach.*: {deep}/child on ensemble {'abc'[right]}"):
            init_map(self.a, self.all)
        self.plain[right].delete(deep + "/child")
        init_map(self.a, self.all)

    def test_many_znodes_that_would_be_out_of_reach(self) -> None:
        for number in range(50):
            self.plain[2].create(f"/many-{number}/child", makepath=True)
        home = where_is(Placement(2), "/many-0").home.ensemble
        with self.refused(r"out of reach.*(/many-\d+, ){5}\.\.\. on ensemble (b|bootstrap)"):
            init_map(self.c, {"a": self.a, "b": self.b} if home else {"b": self.b, "a": self.a})

    def test_strangers_below_parkazoo(self) -> None:
        self.plain[1].create(ROOT + "/theirs", makepath=True)
        with self.refused("ensemble b .* has /parkazoo/theirs"):
            init_map(self.a, self.all)
        self.plain[1].delete(ROOT + "/theirs")
        self.plain[1].create(MIRRORS + "/%2Fapp", makepath=True)
        with self.refused(f"ensemble b .* has znodes below {MIRRORS}, but no {ENSEMBLE}: .*Use other servers; "):
            init_map(self.a, self.all)
