"""The administration of the cluster map against real ensembles: making it, repeating that, checking, showing."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock
from unittest.mock import ANY

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_digest_acl

import parkazoo
from parkazoo import ParKazooClient
from parkazoo.admin import Loss, check_map, init_map, read_map
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.contents import DRAFT
from parkazoo.cli import main
from parkazoo.cli.cluster_map import split_hosts
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, no_map_error
from parkazoo.protocol.placement import DONE, ENSEMBLE, FENCES, MAP, MIRRORS, ROOT, Place, Placement
from tests.kazoo_suite.certificates import make_certificates

CONF = Path(__file__).parents[2] / "conf"
FEW_FENCES = 8
UNREACHABLE_TIMEOUT_S = 3.0
COMMAND_TIMEOUT_S = 120.0
IDENTITY = ("digest", "admin:secret-of-admin")


class Crash(BaseException):
    """The process that makes the map ends here."""


_cluster = LocalCluster(ensembles=3, servers=1, make_map=False)
_plain: list[KazooClient] = []


def setUpModule() -> None:
    unittest.addModuleCleanup(_cluster.stop)
    _cluster.start()
    for ensemble in _cluster.ensembles:
        client = KazooClient(ensemble.hosts, auth_data=[IDENTITY])
        unittest.addModuleCleanup(client.close)
        unittest.addModuleCleanup(client.stop)
        client.start(30)
        _plain.append(client)


class Ensembles(unittest.TestCase):
    """Three ensembles of one server, empty before each test; only as many fences as a test needs."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.plain = _plain
        cls.a, cls.b, cls.c = (each.hosts for each in _cluster.ensembles)
        cls.all = {"a": cls.a, "b": cls.b, "c": cls.c}

    def setUp(self) -> None:
        for client in self.plain:
            wipe(client)
        fences = mock.patch("parkazoo.admin.contents.FENCE_COUNT", FEW_FENCES)
        fences.start()
        self.addCleanup(fences.stop)

    @contextlib.contextmanager
    def refused(self, pattern: str) -> Iterator[None]:
        """The block raises a ClusterMapError and writes nothing."""
        before = [dump(client) for client in self.plain]
        with self.assertRaisesRegex(ClusterMapError, pattern):
            yield
        self.assertEqual([dump(client) for client in self.plain], before)


def wipe(client: KazooClient) -> None:
    with contextlib.suppress(NoNodeError):
        fences = client.get_children(FENCES)
        for start in range(0, len(fences), 256):
            transaction = client.transaction()
            for name in fences[start : start + 256]:
                transaction.delete(f"{FENCES}/{name}")
            transaction.commit()
    for name in client.get_children("/"):
        if name != "zookeeper":
            client.delete(f"/{name}", recursive=True)


def dump(client: KazooClient, path: str = "/") -> dict[str, tuple[bytes, int, int]]:
    """Every znode with data, id of creation and of change."""
    data, stat = client.get(path)
    found = {path: (data, stat.czxid, stat.mzxid)}
    for name in client.get_children(path):
        child = path.rstrip("/") + "/" + name
        if child != "/zookeeper":
            found |= dump(client, child)
    return found


def run_command(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of ``parkazoo``, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["parkazoo", *arguments]),
        mock.patch.dict(os.environ, {"COLUMNS": "200", **environment}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code
    assert isinstance(status, int)
    return status, out.getvalue(), err.getvalue()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def other_spelling(hosts: str) -> str:
    """The same server under another host name."""
    return hosts.replace("127.0.0.1", "localhost")


class InitTest(Ensembles):
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
            expected = {"ensemble", "mirrors", "fences", "done"} | ({"map"} if name == "a" else set())
            self.assertEqual(set(client.get_children(ROOT)), expected)
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
        self.assertEqual(set(self.plain[2].get_children(ROOT)), {"ensemble", "map"})
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
        self.assertEqual(set(client.get_children(ROOT)), {"ensemble", "map"})
        self.assertEqual(check_map(self.a), [])

    def test_repeated(self) -> None:
        made = init_map(self.a, self.all)
        before = [dump(client) for client in self.plain]
        self.assertEqual(init_map(self.a, self.all), made)
        self.assertEqual(init_map(other_spelling(self.a).replace("localhost", "127.0.0.1"), dict(self.all)), made)
        self.assertEqual([dump(client) for client in self.plain], before)

    def test_repeated_with_znodes_of_users(self) -> None:
        made = init_map(self.a, self.all)
        home = Placement(3).home("/app")
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
            rf"no cluster map at {MAP} on ensemble c \({self.c}\), but ensemble b is of cluster {made.cluster}\. "
            r"If c was not its bootstrap ensemble, give that one as --bootstrap\. If it was, "
        ):  # though the name fits
            init_map(self.c, {"c": self.c, "b": self.b})

    def test_the_bootstrap_ensemble_is_another(self) -> None:
        init_map(self.a, {"a": self.a, "b": self.b})
        with self.refused(
            "^ensemble a .* is the bootstrap ensemble of this cluster: give its hosts as --bootstrap$"
        ):
            init_map(self.b, {"a": self.a, "b": self.b})
        wipe(self.plain[1])
        init_map(self.c, {"b": self.b})  # of another cluster
        with self.refused("^ensemble a .* carries another cluster map"):
            init_map(self.b, {"a": self.a, "b": self.b})

    def test_members_of_a_cluster_with_its_bootstrap_apart(self) -> None:
        init_map(self.c, {"a": self.a, "b": self.b})
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
        with self.refused("ensemble x .* is ensemble b of cluster .* delete /parkazoo there$"):
            init_map(self.c, {"c": self.c, "x": self.b})

    def test_damaged_or_newer_map(self) -> None:
        init_map(self.a, self.all)
        self.plain[0].set(MAP, b"{")
        with self.refused(f"cannot use the cluster map at {MAP} on {self.a}: it is damaged"):
            init_map(self.a, self.all)
        self.plain[0].set(MAP, b'{"format": 2}')
        with self.refused("format 2.*upgrade"):
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
        with self.refused(rf"cannot be reached within 3 s:\n  ensemble b: {closed_port}: Connection refused$"):
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
        right = placement.home("/app").ensemble
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
        home = Placement(2).home("/many-0").ensemble
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


class CrashTest(Ensembles):
    def crash_after(self, writes: int, **options: Any) -> bool:
        """Make the map and crash after so many writes; whether it came to that."""
        left = itertools.count(writes, -1)
        make, commit = AdminClient.make, AdminClient.commit

        def make_and_crash(client: Any, *arguments: Any) -> bool:
            if next(left) == 0:
                raise Crash
            return make(client, *arguments)

        def commit_and_crash(client: Any, *arguments: Any) -> bool:
            if next(left) == 0:
                raise Crash
            return commit(client, *arguments)

        with (
            mock.patch.object(AdminClient, "make", make_and_crash),
            mock.patch.object(AdminClient, "commit", commit_and_crash),
            mock.patch("parkazoo.admin.make.CREATES_AT_ONCE", FEW_FENCES // 2),
        ):
            try:
                init_map(self.a, self.all, **options)
            except Crash:
                return True
        return False

    def test_repeat_after_a_crash_at_each_step(self) -> None:
        clusters = set()
        for writes in itertools.count():
            for client in self.plain:
                wipe(client)
            if not self.crash_after(writes):
                break
            with self.assertRaisesRegex(ClusterMapError, "no cluster map at"):
                read_map(self.a)
            begun = None
            if self.plain[0].exists(DRAFT):
                begun = ClusterMap.from_json(self.plain[0].get(DRAFT)[0])
            with self.subTest(writes=writes):
                made = init_map(self.a, self.all)
                self.assertEqual(made.cluster, begun.cluster if begun else made.cluster)
                self.assertEqual(read_map(self.a), made)
                self.assertEqual(check_map(self.a), [])
                self.assertIsNone(self.plain[0].exists(DRAFT))
                clusters.add(made.cluster)
        # ROOT and the draft; ROOT, three, two of fences and the record on each of three; the map
        self.assertEqual(writes, 2 + 3 * 7 + 1)
        self.assertEqual(len(clusters), writes)

    def test_crash_and_other_arguments(self) -> None:
        self.assertTrue(self.crash_after(12))
        with self.refused(
            f"with other arguments was begun and not finished at {DRAFT}.*placement is a, b, c, not a, b"
        ):
            init_map(self.a, {"a": self.a, "b": self.b})
        with self.refused(
            f"a map was begun and not finished at {DRAFT} on ensemble a .*: .* its hosts as --bootstrap$"
        ):
            init_map(self.b, self.all)

    def test_crash_and_the_other_form(self) -> None:
        self.assertTrue(self.crash_after(12))
        with self.refused("is open to all: leave out --closed$"):
            init_map(self.a, self.all, auth=[IDENTITY], closed=True)

    def test_two_at_once(self) -> None:
        for _ in range(5):
            for client in self.plain:
                wipe(client)
            results = self.at_once({"ensembles": self.all}, {"ensembles": self.all}, {"ensembles": self.all})
            maps = [result for result in results if isinstance(result, ClusterMap)]
            self.assertEqual(len(maps), 3, results)
            self.assertEqual([each for each in maps if each != maps[0]], [])
            self.assertEqual(read_map(self.a), maps[0])
            self.assertEqual(check_map(self.a), [])

    def test_two_different_ones_at_once(self) -> None:
        for _ in range(5):
            for client in self.plain:
                wipe(client)
            results = self.at_once({"ensembles": self.all}, {"ensembles": {"a": self.a, "c": self.c, "b": self.b}})
            maps = [result for result in results if isinstance(result, ClusterMap)]
            errors = [result for result in results if isinstance(result, ClusterMapError)]
            self.assertEqual((len(maps), len(errors)), (1, 1), results)
            self.assertIn("its placement is", str(errors[0]))
            self.assertEqual(read_map(self.a), maps[0])
            self.assertEqual(check_map(self.a), [])

    def test_replace_after_a_crash_at_each_step(self) -> None:
        """The map, its bootstrap ensemble and another one: with the same arguments it is finished."""
        init_map(self.a, self.all)
        made = read_map(self.a)
        for name, client in (("b", self.plain[1]), ("a", self.plain[0])):
            for writes in itertools.count():
                wipe(client)
                has_crashed = self.crash_after(writes, replace=[name])
                with self.subTest(name=name, writes=writes):
                    self.assertEqual(init_map(self.a, self.all, replace=[name]), made)
                    self.assertEqual(init_map(self.a, self.all), made)
                    self.assertEqual(check_map(self.a), [])
                if not has_crashed:
                    break
            self.assertGreater(writes, 5)

    def test_two_replace_at_once(self) -> None:
        made = init_map(self.a, self.all)
        for names in (["b"], ["a"], ["c", "a"]):
            for name in names:
                wipe(self.plain["abc".index(name)])
            results = self.at_once(*[{"ensembles": self.all, "replace": names}] * 3)
            self.assertEqual(results, [made] * 3)
            self.assertEqual(read_map(self.a), made)
            self.assertEqual(check_map(self.a), [])

    def at_once(self, *calls: dict[str, Any]) -> list[Any]:
        barrier = threading.Barrier(len(calls))
        results: list[Any] = [None] * len(calls)

        def run(index: int) -> None:
            barrier.wait()
            try:
                results[index] = init_map(self.a, **calls[index])
            except Exception as error:
                results[index] = error

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(COMMAND_TIMEOUT_S)
        return results


class LostTest(Ensembles):
    """An ensemble that was part of a cluster has been emptied: as new machines behind its old name."""

    def setUp(self) -> None:
        super().setUp()
        self.made = init_map(self.a, self.all)
        self.placement = Placement(3)
        paths = [f"/{number}" for number in range(12)]
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            for path in paths:
                client.create(f"{path}/child", makepath=True)
            client.stop()
        self.mirrored = sorted(path for path in paths if not self.placement.is_native(path))
        self.told: list[Loss] = []

    def replace(self, *names: str) -> ClusterMap:
        return init_map(self.a, self.all, replace=names, tell=self.told.append)

    def loss(self, name: str) -> Loss:
        index = "abc".index(name)
        childless = [path for path in self.mirrored if self.placement.of_children(path) == index]
        homeless = [path for path in self.mirrored if self.placement.of(path) == index]
        self.assertTrue(childless or homeless)
        return Loss((name,), tuple(childless), tuple(homeless), 0)

    def lose(self, name: str) -> Loss:
        wipe(self.plain["abc".index(name)])
        return self.loss(name)

    def test_refused_until_it_is_given_up(self) -> None:
        loss = self.lose("b")
        paths = ", ".join(loss.childless)
        count = len(loss.childless)
        with self.refused(
            rf"^the data of this cluster on ensemble b \({self.b}\) is lost: the children of {count} "
            rf"director(y|ies) \({paths}\).* Bring back .* --replace b$"
        ):
            init_map(self.a, self.all)
        with self.refused("--replace b$"):
            self.replace("c")
        with self.refused("no ensemble of the map is called 'x': there are a, b, c"):
            self.replace("x", "b")
        self.assertEqual(self.told, [])
        self.assertEqual(self.replace("b"), self.made)
        self.assertEqual(self.told, [loss])
        self.assertEqual(check_map(self.a), [])
        self.assertEqual(self.replace("b"), self.made)  # again: there is nothing to give up
        self.assertEqual(self.told, [loss])

    def test_top_level(self) -> None:
        """The ensemble of / is lost: so are the directories in it, whose children others have."""
        name = "abc"[self.placement.of_children("/")]
        loss = self.lose(name)
        self.assertEqual(loss.homeless, tuple(self.mirrored))
        self.assertEqual(self.replace(name), self.made)
        self.assertEqual(self.told, [loss])

    def test_bootstrap(self) -> None:
        """It has lost the map: made again, from the same arguments, it is the same cluster."""
        loss = self.lose("a")
        for replaced in ((), ("b",)):
            with self.refused(
                rf"^no cluster map at {MAP} on ensemble a .*, but ensemble b, c are of cluster "
                rf"{self.made.cluster}\. If a was not its bootstrap ensemble, give that one as --bootstrap\. "
                rf"If it was, the data of this cluster on ensemble a \({self.a}\) is lost: "
                rf"{re.escape(str(loss))}\. Bring back the old servers or a backup, or give up what was there "
                "with --replace a$"
            ):
                self.replace(*replaced)
        for names in ("acb", "bac", "ab"):
            for replaced in ((), ("a",)):
                with self.refused("out of reach.*in their old order$"):
                    init_map(
                        self.a,
                        {name: self.all[name] for name in names},
                        replace=replaced,
                        tell=self.told.append,
                    )
        self.assertEqual(self.told, [])
        with self.refused("no ensemble of the map"):
            init_map(self.a, self.all, replace=["bootstrap"])
        self.assertEqual(self.replace("a"), self.made)
        self.assertEqual(self.told, [loss])
        self.assertEqual(read_map(self.a), self.made)

    def test_bootstrap_and_a_mark(self) -> None:
        """Of an ensemble with mirrors the mark is lost too: no message says to delete the mirrors."""
        self.lose("a")
        self.plain[1].delete(ENSEMBLE)
        for replaced in ((), ("a", "b")):
            with self.refused(
                f"ensemble b .* has znodes below {MIRRORS}, but no {ENSEMBLE}: .* make that znode again"
            ):
                self.replace(*replaced)

    def test_only_the_map(self) -> None:
        self.plain[0].delete(MAP)
        with self.refused("no cluster map .* ensemble a, b, c are .* is lost: nothing that the other"):
            init_map(self.a, self.all)
        with self.refused("these servers are ensemble a .*If they are those, the map is lost"):
            read_map(self.a)
        self.assertEqual(self.replace("a"), self.made)
        self.assertEqual(self.told, [Loss(("a",), (), (), 0)])

    def test_only_the_identity(self) -> None:
        self.plain[1].delete(ENSEMBLE)
        with self.refused("ensemble b .* is lost: nothing that the other ensembles know of.*--replace b$"):
            init_map(self.a, self.all)
        self.assertEqual(self.replace("b"), self.made)

    def test_only_the_mirrors(self) -> None:
        self.plain[1].delete(MIRRORS, recursive=True)
        with self.refused("ensemble b .* is lost: the children of .*--replace b$"):
            init_map(self.a, self.all)
        with self.refused(f"has lost {MIRRORS} but not {FENCES}: .* delete {FENCES}"):
            self.replace("b")
        self.plain[1].delete(FENCES, recursive=True)
        self.assertEqual(self.replace("b"), self.made)
        self.assertEqual([loss.childless for loss in self.told], [self.loss("b").childless])

    def test_two(self) -> None:
        self.lose("b")
        self.lose("c")
        with self.refused("ensemble b .* and ensemble c .*--replace b --replace c$"):
            init_map(self.a, self.all)
        with self.refused("--replace c$"):
            self.replace("b")
        self.assertEqual(self.replace("c", "b"), self.made)
        self.assertEqual([loss.ensembles for loss in self.told], [("b", "c")])

    def test_what_may_not_be_read(self) -> None:
        home = self.placement.home("/secret")
        self.plain[home.ensemble].create(home.path, acl=CREATOR_ALL_ACL)
        lost = next(name for name in "bc" if "abc".index(name) != home.ensemble)
        self.lose(lost)
        self.replace(lost)
        self.assertEqual([loss.hidden for loss in self.told], [1])
        self.assertIn("1 znodes could not be looked at", str(self.told[0]))

    def test_never_finished(self) -> None:
        """A draft, and marks without a map: that is a crash of the first time, and nothing is lost."""
        for client in self.plain:
            wipe(client)
        self.plain[0].create(DRAFT, self.made.to_json(), makepath=True)
        self.assertEqual(init_map(self.a, self.all), self.made)

    def test_command(self) -> None:
        loss = self.lose("b")
        init = ("map", "init", "--bootstrap", self.a, *(f"--ensemble={n}={h}" for n, h in self.all.items()))
        status, out, err = run_command(*init)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(
            err, f"^error: the data .* on ensemble b .* is lost: .*{loss.childless[0]}.*--replace b\n$"
        )
        status, out, err = run_command(*init, "--replace", "b")
        self.assertEqual((status, err), (0, ""))
        self.assertIn(f"lost with b: {loss}\n", out)
        status, out, err = run_command(*init, "--replace", "b")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("--replace b: no loss was found there, so nothing was given up\n", out)
        self.assertNotIn("lost with", out)
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 0)

    def test_commands_with_the_bootstrap_ensemble_emptied(self) -> None:
        """They cannot know what was there; they say that something may have been, and how to learn it."""
        loss = self.lose("a")
        for command in (("map", "check"), ("map", "show"), ("where", "/x"), ("fsck",), ("fsck", "--repair")):
            with self.subTest(command):
                status, out, err = run_command(*command, "--hosts", self.a)
                self.assertEqual((status, out, err), (1, "", f"error: {no_map_error(self.a, None)}\n"))
                self.assertRegex(err, "none has been made, or .* lost its data. `parkazoo map init` .* finds out")
        init = ("map", "init", "--bootstrap", self.a, *(f"--ensemble={n}={h}" for n, h in self.all.items()))
        status, out, err = run_command(*init)
        self.assertEqual((status, out), (1, ""))
        self.assertIn(str(loss), err)
        self.assertNotIn("delete", err)


class ClosedTest(Ensembles):
    def test_closed(self) -> None:
        made = init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        stranger = KazooClient(self.a)
        self.addCleanup(stranger.close)
        self.addCleanup(stranger.stop)
        stranger.start(30)
        for path in (ROOT, MAP, ENSEMBLE, MIRRORS, FENCES, f"{FENCES}/0", DONE):
            with self.subTest(path):
                acl = self.plain[0].get_acls(path)[0]
                self.assertEqual(acl, [make_digest_acl("admin", "secret-of-admin", all=True)])
                for call in (stranger.get, stranger.get_children, stranger.get_acls):
                    self.assertRaises(NoAuthError, call, path)
                self.assertRaises(NoAuthError, stranger.set, path, b"")
                self.assertRaises(NoAuthError, stranger.create, path + "/x")
        stranger.create("/app")  # the users' part of the tree is as open as before
        stranger.delete("/app")
        self.assertEqual(read_map(self.a, auth=[IDENTITY]), made)
        self.assertEqual(check_map(self.a, auth=[IDENTITY]), [])
        self.assertEqual(init_map(self.a, self.all, auth=[IDENTITY], closed=True), made)

    def test_without_the_identity(self) -> None:
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        for auth in ([], [("digest", "admin:wrong-one")]):
            with self.refused(f"no right to use {MAP} on {self.a}: give the identity"):
                read_map(self.a, auth=auth)
            with self.refused(f"no right to use {ROOT} on ensemble b"):
                init_map(self.a, self.all, auth=auth)
            with self.refused(f"no right to use {MAP}"):
                check_map(self.a, auth=auth)

    def test_secrets_are_not_told(self) -> None:
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        with self.assertRaises(ClusterMapError) as caught:
            read_map(self.a, auth=[("digest", "other:hush")])
        self.assertNotIn("hush", str(caught.exception))

    def test_closed_without_an_identity(self) -> None:
        with self.refused("needs an identity"):
            init_map(self.a, self.all, closed=True)

    def test_the_other_form_is_there(self) -> None:
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        with self.refused("is closed: give --closed, and the identity that it needs in --auth$"):
            init_map(self.a, self.all, auth=[IDENTITY])
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.all)
        with self.refused("is open to all: leave out --closed$"):
            init_map(self.a, self.all, auth=[IDENTITY], closed=True)


class ReadTest(Ensembles):
    def test_no_map(self) -> None:
        with self.refused(f"^{re.escape(str(no_map_error(self.a, None)))}$"):
            read_map(self.a)

    def test_not_the_bootstrap_ensemble(self) -> None:
        made = init_map(self.a, self.all)
        with self.refused(
            f"no cluster map.*on {self.b}: these servers are ensemble b of cluster {made.cluster}: give"
        ):
            read_map(self.b)

    def test_no_server_there(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        with self.refused(f"no ZooKeeper answers within 3 s: {closed_port}: Connection refused"):
            read_map(closed_port, timeout_s=UNREACHABLE_TIMEOUT_S)

    def test_unusable(self) -> None:
        self.plain[0].create(MAP, b"", makepath=True)
        for data, pattern in ((b"", "damaged"), (b"[]", "damaged"), (b'{"format": 7}', "format 7.*upgrade")):
            self.plain[0].set(MAP, data)
            with self.refused(f"cannot use the cluster map at {MAP} on {self.a}: it .*{pattern}"):
                read_map(self.a)

    def test_nothing_is_left_running(self) -> None:
        init_map(self.a, self.all)
        before = threading.active_count()
        read_map(self.a)
        check_map(self.a)
        self.assertEqual(threading.active_count(), before)


class CheckTest(Ensembles):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all)
        self.assertEqual(check_map(self.a), [])

    def assert_found(self, *expected: tuple[str, str], hosts: str = "") -> None:
        """Exactly these findings: ensemble and pattern of the problem."""
        before = [dump(client) for client in self.plain]
        findings = check_map(hosts or self.a, timeout_s=UNREACHABLE_TIMEOUT_S)
        self.assertEqual([finding.ensemble for finding in findings], [name for name, _ in expected], findings)
        for finding, (_, pattern) in zip(findings, expected, strict=True):
            self.assertRegex(finding.problem, pattern)
            self.assertTrue(finding.remedy)
        self.assertEqual([dump(client) for client in self.plain], before)

    def change_map(self, **ensembles: str) -> None:
        changed = ClusterMap(
            self.map.cluster, {**self.map.ensembles, **ensembles}, self.map.placement, self.map.bootstrap
        )
        self.plain[0].set(MAP, changed.to_json())

    def test_record_missing(self) -> None:
        self.plain[1].delete(ENSEMBLE)
        self.assert_found(("b", f"{ENSEMBLE} is missing"))

    def test_record_of_another_ensemble(self) -> None:
        self.plain[1].set(ENSEMBLE, json.dumps({"cluster": "other", "name": "x"}).encode())
        self.assert_found(("b", f"server {self.b} is ensemble x of cluster other"))

    def test_record_damaged(self) -> None:
        for data in (b"", b"{", b"[]", b'"x"', b'{"name": "b"}', b"[" * 100_000):
            self.plain[1].set(ENSEMBLE, data)
            self.assert_found(("b", f"server {self.b} is marked with something unknown"))

    def test_structure_missing(self) -> None:
        self.plain[1].delete(f"{FENCES}/3")
        self.assert_found(("b", f"^missing: {FENCES}/3$"))
        for number in range(FEW_FENCES):
            if number != 3:
                self.plain[1].delete(f"{FENCES}/{number}")
        self.plain[2].delete(DONE)
        self.plain[2].delete(MIRRORS)
        self.assert_found(("b", f"{FENCES}/4 and 3 more"), ("c", f"^{MIRRORS} is missing: it has lost its data"))

    def test_all_missing(self) -> None:
        wipe(self.plain[2])
        self.assert_found(("c", f"^{ENSEMBLE} and {MIRRORS} are missing: it has lost its data"))
        (finding,) = check_map(self.a)
        self.assertIn("--replace c", finding.remedy)

    def test_emptied_with_a_server_down(self) -> None:
        """That server may have the last copy, and would lose it if it were started beside the emptied ones."""
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=f"{self.b},{closed_port}")
        wipe(self.plain[1])
        emptied, down = check_map(self.a)
        self.assertIn("lost its data", emptied.problem)
        self.assertIn(closed_port, down.problem)
        self.assertRegex(down.remedy, "^do not start it beside the emptied ones")

    def test_second_map(self) -> None:
        self.plain[2].create(MAP, self.map.to_json())
        self.assert_found(("c", f"it carries a map too, at {MAP}"))
        # Its hosts are not those the map names as bootstrap, whatever the copy says.
        self.plain[2].set(
            MAP, ClusterMap("other", {"a": self.a, "b": self.b, "c": self.c}, tuple("abc"), "a").to_json()
        )
        problems = {finding.problem for finding in check_map(self.c)}
        self.assertIn("its map is not the one that was read", problems)

    def test_open_and_closed(self) -> None:
        self.plain[1].set_acls(ROOT, CREATOR_ALL_ACL)
        (finding,) = check_map(self.a, auth=[IDENTITY])
        self.assertEqual(
            (finding.ensemble, finding.problem), ("a, c", f"{ROOT} is open there and closed elsewhere")
        )

    def test_ensemble_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=closed_port)
        self.assert_found(("b", f"cannot be reached: {closed_port}: Connection refused"))

    def test_server_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=f"{self.b},{closed_port}")
        self.assert_found(("b", f"server {closed_port}: Connection refused"))
        status, out, _ = run_command("map", "check", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertRegex(out, f"warnings.*\n(.*\n)*.*b .*server {closed_port}")
        self.plain[2].delete(DONE)  # beside a warning, what is wrong is wrong
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 1)

    def test_hosts_of_two_ensembles(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=f"{self.b},{closed_port}")
        self.assert_found(
            ("b", f"^{closed_port} is among the hosts that were given$"),
            ("b", f"server {closed_port}: Connection refused"),
            hosts=f"{self.a},{closed_port}",
        )

    def test_server_of_another_ensemble(self) -> None:
        self.change_map(b=f"{self.b},{other_spelling(self.c)}")
        self.assert_found(("b", f"server {other_spelling(self.c)} is ensemble c of cluster {self.map.cluster}"))

    def test_ensembles_exchanged(self) -> None:
        self.change_map(b=self.c, c=self.b)
        self.assert_found(("b", "is ensemble c of"), ("c", "is ensemble b of"))

    def test_new_address(self) -> None:
        """As docs/operations/fsck.md says: the map gets the new address; check and clients then verify it."""
        zk, moved = self.plain[0], other_spelling(self.b)
        data, stat = zk.get(MAP)
        with self.refused(f"another cluster map .*ensemble b is {self.b}, not {moved}.*docs/operations/fsck.md"):
            init_map(self.a, {**self.all, "b": moved})
        zk.set(MAP, data.replace(self.b.encode(), moved.encode()), stat.version)
        self.assertEqual(check_map(self.a), [])
        self.assertEqual(init_map(self.a, {**self.all, "b": moved}), read_map(self.a))
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            self.assertEqual(client.cluster_map.ensembles, {**self.all, "b": moved})
            for number in range(12):
                client.create(f"/{number}/child", makepath=True)
            client.stop()
        zk.set(MAP, data.replace(self.b.encode(), other_spelling(self.c).encode()))  # a mistake
        self.assert_found(("b", f"server {other_spelling(self.c)} is ensemble c of"))
        with (
            contextlib.closing(ParKazooClient(self.a)) as client,
            self.assertRaisesRegex(ClusterMapError, "not ensemble b"),
        ):
            client.start(30)


class TlsTest(unittest.TestCase):
    """Connections by TLS, and an identity that is the client's certificate."""

    def test_tls(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates = make_certificates()
        files = {"ca": certificates.ca, "server": certificates.server}
        files |= {"cert": certificates.client_certificate, "key": certificates.client_key}
        for name, data in files.items():
            (folder / f"{name}.pem").write_bytes(data)
        zoo_cfg = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "client.portUnification": "true",
            "ssl.keyStore.location": str(folder / "server.pem"),
            "ssl.trustStore.location": str(folder / "ca.pem"),
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        }
        options = {"use_ssl": True, "ca": str(folder / "ca.pem")}
        options |= {"certfile": str(folder / "cert.pem"), "keyfile": str(folder / "key.pem")}
        cluster = stack.enter_context(LocalCluster(ensembles=2, servers=1, make_map=False, zoo_cfg=zoo_cfg))
        hosts = {each.name: each.hosts for each in cluster.ensembles}
        made = init_map(cluster.hosts, hosts, closed=True, **options)
        self.assertEqual(init_map(cluster.hosts, hosts, closed=True, **options), made)
        self.assertEqual(check_map(cluster.hosts, **options), [])
        with self.assertRaisesRegex(ClusterMapError, "no right to use"):
            read_map(cluster.hosts)
        arguments = [f"--{name}={folder}/{name}.pem" for name in ("ca", "cert", "key")]
        status, out, err = run_command("map", "show", "--hosts", cluster.hosts, *arguments)
        self.assertEqual((status, err), (0, ""))
        self.assertIn(made.cluster, out)


class ThreeServersTest(unittest.TestCase):
    """Ensembles of three servers: each one is asked, because a wrong one hides among the others."""

    def test_three_servers(self) -> None:
        with LocalCluster(ensembles=2, servers=3, make_map=False) as cluster:
            a, b = cluster.ensembles
            (a1, a2, a3), (b1, b2, b3) = (each.hosts.split(",") for each in cluster.ensembles)
            for ensembles, pattern in (
                (
                    {"a": f"{a1},{a2},{b3}", "b": f"{b1},{b2}"},
                    "is not in one ensemble with the other servers of a",
                ),
                ({"a": f"{a1},{a2},{b3}", "b": f"{b1},{b2},{a3}"}, "is not in one ensemble with|are one ensemble"),
                ({"a": a1, "b": a2}, "a and b are one ensemble"),
                ({"a": f"{a1},{a2}", "b": f"{b1},{b2}", "c": b3}, "b and c are one ensemble"),
            ):
                with self.subTest(ensembles), self.assertRaisesRegex(ClusterMapError, pattern):
                    init_map(a1, ensembles)
            for ensemble in (a, b):
                with contextlib.closing(KazooClient(ensemble.hosts)) as client:
                    client.start(30)
                    self.assertEqual(client.get_children("/"), ["zookeeper"])
                    client.stop()
            made = init_map(f"{a3},{a1}", {"a": a.hosts, "b": b.hosts})
            self.assertEqual((made.bootstrap, read_map(a2)), ("a", made))
            self.assertEqual(check_map(a.hosts), [])

            follower = a.followers()[0]
            follower.freeze()
            findings = check_map(a.hosts, timeout_s=UNREACHABLE_TIMEOUT_S)
            self.assertEqual([(each.ensemble, each.problem) for each in findings], [("a", ANY)])
            self.assertRegex(findings[0].problem, f"{follower.address}: (serves no requests|timed out)")
            self.assertTrue(findings[0].is_warning)
            self.assertEqual(init_map(a.hosts, {"a": a.hosts, "b": b.hosts}), made)
            follower.thaw()

            for server in b.servers[:2]:
                server.kill()
            found = check_map(a.hosts, timeout_s=UNREACHABLE_TIMEOUT_S)
            self.assertEqual(
                [each.ensemble for each in found if "cannot be reached" in each.problem], ["b"], found
            )
            self.assertFalse(any(each.is_warning for each in found), found)
            self.assertRegex(
                found[0].problem, f"{b1}: Connection refused, .*{b3}: answers, but not as .*no quorum"
            )


class HostsTest(unittest.TestCase):
    """The command line takes hosts as kazoo does; what names no servers is refused."""

    def test_as_kazoo_takes_them(self) -> None:
        for hosts in ("h", "h:1", "h1,h2:1, h3 ", "h/", "h1,h2/app", "h:1/a/b/", "[::1],[::2]:7/app"):
            with self.subTest(hosts):
                client = KazooClient(hosts)
                self.assertEqual(split_hosts(hosts), (format_hosts(client.hosts), client.chroot))

    def test_refused(self) -> None:
        for hosts in ("", "/app", "h,,", "h:", "h:x", "h:0", "::1", "h;g", "user@h", "h,h:2181", "h/a/../b"):
            with self.subTest(hosts), self.assertRaises(ClusterMapError):
                split_hosts(hosts)
        for hosts in ("", "/app"):
            with self.assertRaisesRegex(ClusterMapError, f"^'{hosts}' names no server: give one"):
                split_hosts(hosts)


class CommandTest(Ensembles):
    def run_process(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """The same in a process of its own, as a user has it."""
        process = subprocess.run(
            [sys.executable, "-m", "parkazoo", *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
            env={**os.environ, "COLUMNS": "200", **environment},
        )
        self.assertNotIn("Traceback", process.stderr)
        return process.returncode, process.stdout, process.stderr

    def ensembles(self) -> list[str]:
        return [f"--ensemble={name}={hosts}" for name, hosts in self.all.items()]

    def test_init_show_check_where(self) -> None:
        init = ("map", "init", "--bootstrap", self.a, *self.ensembles())
        status, out, err = self.run_process(*init)
        self.assertEqual((status, err), (0, ""))
        cluster_map = read_map(self.a)
        for text in (cluster_map.cluster, *self.all.values(), f'ParKazooClient("{self.a}")'):
            self.assertIn(text, out)
        self.assertEqual(self.run_process(*init)[:2], (0, out))

        status, out, _ = self.run_process("map", "show", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertIn(cluster_map.cluster, out)
        self.assertRegex(out, rf"a\s.*{self.a}.*znodes, the map")
        self.assertRegex(out, rf"b\s.*{self.b}.*znodes\s")
        self.assertEqual(self.run_process("map", "show", PARKAZOO_HOSTS=self.a)[:2], (0, out))

        status, out, _ = self.run_process("map", "check", "--hosts", self.a)
        self.assertEqual((status, out), (0, "the map and the ensembles agree\n"))
        self.plain[1].delete(f"{FENCES}/17")
        status, out, _ = self.run_process("map", "check", "--hosts", self.a)
        self.assertEqual(status, 1)
        self.assertRegex(out, f"b .*missing: {FENCES}/17.*map init")

    def test_where(self) -> None:
        init_map(self.a, self.all)
        placement = Placement(3)
        names = (f"/d{i}[bold]" for i in itertools.count())
        native, mirrored = [next(p for p in names if placement.is_native(p) is kind) for kind in (True, False)]
        d = placement.directory(mirrored)
        for path, places in (
            (native, (placement.home(native),)),
            (mirrored, (d.home, d.mirror, Place(d.home.ensemble, d.pin), Place(d.mirror.ensemble, d.fence))),
        ):
            status, out, _ = run_command("where", path + "/", "--hosts", self.a)
            self.assertEqual(status, 0)
            self.assertIn("native" if path == native else "mirrored", out)
            for place in places:
                self.assertRegex(out, rf"{'abc'[place.ensemble]}\W+{re.escape(place.path)}\s")
            self.assertEqual("fence" in out, path == mirrored)
        relative = run_command("where", mirrored[1:], "--hosts", self.a)
        self.assertEqual(relative[1], out)

    def test_chroot(self) -> None:
        """--hosts and --bootstrap are what the program gives its client, chroot included."""
        hosts = f" {self.a} /app/"
        status, out, err = run_command("map", "init", "--bootstrap", hosts, *self.ensembles())
        self.assertEqual((status, err), (0, ""))
        self.assertIn(f'ParKazooClient("{self.a}/app")', out)
        for command in ("show", "check"):
            self.assertEqual(
                run_command("map", command, "--hosts", hosts), run_command("map", command, "--hosts", self.a)
            )
        self.assertIn(read_map(self.a).cluster, run_command("fsck", "--json", "--hosts", hosts)[1])
        for path, full in (("/jobs/7", "/app/jobs/7"), ("jobs/7/", "/app/jobs/7"), ("/", "/app")):
            self.assertEqual(
                run_command("where", path, "--hosts", hosts), run_command("where", full, "--hosts", self.a)
            )
        status, _, err = run_command("where", "/x", "--hosts", f"{self.a}/parkazoo")
        self.assertEqual(status, 1)
        self.assertIn("reserved", err)

    def test_where_of_bad_paths(self) -> None:
        init_map(self.a, self.all)
        for path in ("/parkazoo", "/parkazoo/map", "/a/.parkazoo", "/a/../b", "."):
            status, out, err = run_command("where", path, "--hosts", self.a)
            self.assertEqual((status, out), (1, ""))
            self.assertRegex(err, "^error: .*(reserved|is no path)")
        self.assertEqual(run_command("where", "/", "--hosts", self.a)[0], 0)

    def test_examples(self) -> None:
        """Each file of conf/ makes a map, with these ensembles' addresses in place of its own."""
        files = sorted(CONF.glob("*-ensemble*.json"))
        self.assertEqual([file.name for file in files], ["one-ensemble.json", "three-ensembles.json"])
        for file in files:
            for client in self.plain:
                wipe(client)
            plan = json.loads(file.read_text())
            ClusterMap("x", plan["ensembles"], tuple(plan["ensembles"]), "a")
            self.assertEqual(plan["bootstrap"], plan["ensembles"]["a"])
            addresses = iter(self.all.values())
            text = file.read_text()
            for hosts in plan["ensembles"].values():
                text = text.replace(f'"{hosts}"', f'"{next(addresses)}"')
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder, file.name)
                copy.write_text(text)
                status, _, err = run_command("map", "init", "--file", str(copy))
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(read_map(self.a).placement, tuple(plan["ensembles"]))

    def test_bad_files(self) -> None:
        for text, pattern in (
            ("", "is not JSON"),
            ("\xff", "is not JSON"),
            ("[]", "must be an object"),
            ('{"bootstrap": "h:1"}', "must be an object with the keys"),
            ('{"bootstrap": 1, "ensembles": {}}', '"bootstrap" must be a string'),
            ('{"bootstrap": "h:1", "ensembles": []}', '"ensembles" must be an object'),
            ('{"bootstrap": "h:1", "ensembles": {"a": 1}}', '"ensembles" must be an object'),
            ('{"bootstrap": "h:1", "ensembles": {"a": "h:1", "a": "h:2"}}', "'a' appears twice"),
            ('{"bootstrap": "h:", "ensembles": {"a": "h:1"}}', "not host:port"),
            ('{"bootstrap": "h", "ensembles": {"a": "h:1/app"}}', "not host:port"),
        ):
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "plan.json")
                file.write_text(text, encoding="latin-1")
                status, out, err = run_command("map", "init", "--file", str(file))
                self.assertEqual((status, out), (1, ""))
                self.assertRegex(err, f"^error: .*{pattern}")

    def test_errors(self) -> None:
        status, out, err = run_command("map", "show", "--hosts", self.a)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err, f"error: {no_map_error(self.a, None)}\n")
        for hosts in ("/app", " "):
            status, out, err = run_command("map", "show", "--hosts", hosts)
            self.assertEqual((status, out), (1, ""))
            self.assertRegex(err, "^error: .* names no server: give")
        closed_port = f"127.0.0.1:{free_port()}"
        status, out, err = run_command("map", "check", "--hosts", closed_port, "--timeout", "1")
        self.assertEqual(
            (status, out, err),
            (1, "", f"error: no ZooKeeper answers within 1 s: {closed_port}: Connection refused\n"),
        )

    def test_version(self) -> None:
        self.assertEqual(self.run_process("--version"), (0, f"parkazoo {parkazoo.__version__}\n", ""))

    def test_usage(self) -> None:
        for arguments in (
            ("map", "show"),
            ("map", "init"),
            ("map", "init", "--bootstrap", self.a),
            ("map", "init", "--bootstrap", self.a, "--ensemble", "nonsense"),
            ("map", "init", "--bootstrap", self.a, "--ensemble", "a=h:1", "--ensemble", "a=h:2"),
            ("map", "init", "--file", "no-such-file.json"),
            ("map", "init", "--file", str(CONF / "one-ensemble.json"), "--bootstrap", self.a),
            ("map", "show", "--hosts", self.a, "--timeout", "0"),
            ("map", "show", "--hosts", self.a, "--timeout", "inf"),
            ("map", "show", "--hosts", self.a, "--timeout", "nan"),
            ("map", "show", "--hosts", self.a, "--ca", "no-such-file.pem"),
            ("map", "show", "--hosts", self.a, "--cert", __file__),
            ("where", "--hosts", self.a),
        ):
            with self.subTest(arguments):
                status, out, err = run_command(*arguments, PARKAZOO_HOSTS="")
                self.assertEqual((status, out), (2, ""), err)
                self.assertIn("Error", err)

    def test_closed(self) -> None:
        status, _, err = run_command("map", "init", "--bootstrap", self.a, "--ensemble", f"a={self.a}", "--closed")
        self.assertEqual(status, 1)
        self.assertIn("--auth", err)
        auth = ":".join(IDENTITY)
        said = []
        for arguments in (
            ("map", "init", "--bootstrap", self.a, "--ensemble", f"a={self.a}", "--closed", "--auth", auth),
            ("map", "show", "--hosts", self.a, "--auth", auth),
            ("map", "check", "--hosts", self.a, "--auth", auth),
            ("where", "/x", "--hosts", self.a, "--auth", auth),
        ):
            status, out, err = run_command(*arguments)
            self.assertEqual((status, err), (0, ""))
            said.append(out)
        self.assertEqual(run_command("map", "show", "--hosts", self.a, PARKAZOO_AUTH=auth)[0], 0)
        status, out, err = run_command("map", "show", "--hosts", self.a)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("no right to use", err)
        for bad in ("secret-without-scheme", "digest:", ":secret-of-admin"):
            status, out, err = run_command("map", "show", "--hosts", self.a, "--auth", bad)
            self.assertEqual((status, out), (2, ""))
            said.append(err)
        self.assertNotIn("secret", "".join(said))
