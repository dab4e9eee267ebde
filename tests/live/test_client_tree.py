"""The tree over three ensembles behaves like one ZooKeeper's: mapping, stats, deletes, transactions."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.security import READ_ACL_UNSAFE, make_acl

from parkazoo import ParKazooClient
from parkazoo.protocol.placement import escape
from tests.live.world import DEADLINE_S, LiveTest, Seen

TIMES = ("czxid", "mzxid", "pzxid", "ctime", "mtime")


class TreeTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)

    def native_and_not(self) -> list[str]:
        return [self.directory(self.root, is_native) for is_native in (True, False)]

    def types(self, results: list[Any]) -> list[Any]:
        return [type(each) if isinstance(each, Exception) else each for each in results]


class TestMapping(TreeTest):
    def test_stable(self) -> None:
        """Every client finds every znode where the first one put it: on the ensemble that the map says."""
        for number in range(30):
            self.client.create(f"{self.root}/{number}/x", b"%d" % number, makepath=True)
        other = self.parkazoo()
        plain = [self.kazoo(index) for index in range(self.ensembles)]
        used = set()
        for number in range(30):
            path = f"{self.root}/{number}/x"
            self.assertEqual(other.get(path)[0], b"%d" % number)
            place = self.home(path)
            used.add(place.ensemble)
            for index, each in enumerate(plain):
                self.assertEqual(each.exists(place.path) is not None, index == place.ensemble)
        self.assertEqual(used, set(range(self.ensembles)))

    def test_ensembles_are_members_of_the_map(self) -> None:
        for number in range(100):
            self.assertIn(self.placement.of(f"/{number}/x"), range(self.ensembles))
        self.client.join()
        self.assertEqual(sorted(self.client.members), [*self.client.cluster_map.names])

    def test_trailing_slash(self) -> None:
        for path in self.native_and_not():
            self.client.create(path, b"data")
            self.client.create(f"{path}/child/", b"child")
            self.assertEqual(self.client.get(path + "/"), self.client.get(path))
            self.assertEqual(self.client.get_children(path + "/"), ["child"])
            self.assertEqual(self.client.get(f"{path}/child")[0], b"child")
            self.assertEqual(self.client.exists(f"{path}/child/"), self.client.exists(f"{path}/child"))
            self.client.delete(f"{path}/child/")
            self.client.delete(path + "/")

    def test_siblings(self) -> None:
        for path in self.native_and_not():
            self.client.create(path)
            places = {self.home(self.client.create(f"{path}/{number}")).ensemble for number in range(20)}
            self.assertEqual(places, {self.placement.of_children(path)})


class TestTree(TreeTest):
    def test_stats(self) -> None:
        """A directory's stat is what one ZooKeeper tells, whichever call gives it, whatever has happened."""
        plain = self.kazoo()
        twin = self.new_root(plain)
        for is_native, path in zip((True, False), self.native_and_not(), strict=True):
            path2 = f"{twin}/{is_native}"

            def step(name: str, *args: Any, path: str = path, path2: str = path2, **options: Any) -> None:
                for client, base in ((self.client, path), (plain, path2)):
                    getattr(client, name)(base + args[0], *args[1:], **options)
                stats = [self.all_stats(self.client, path), self.all_stats(plain, path2)]
                self.assertEqual(stats[0], stats[1], f"after {name}{args}")

            step("create", "", b"data")
            step("set", "", b"newer")
            step("create", "/a", b"")
            step("create", "/b", b"", ephemeral=True)
            step("create", "/s", b"", sequence=True)
            step("set", "", b"newest")
            step("create", "/a/deep/er", b"", makepath=True)
            step("delete", "/a", recursive=True)
            step("delete", "/b")
            step("set_acls", "", self.client.get_acls(self.root)[0])
            step("delete", "/s0000000002")
            step("set", "", b"")
            step("create", "/s", b"", sequence=True)
            step("delete", "/s0000000003")
            step("delete", "")
            step("create", "", b"again")
            step("create", "/s", b"", sequence=True)
            self.assertEqual(self.client.get_children(path), ["s0000000000"])

    def all_stats(self, client: Any, path: str) -> Any:
        """The stat by each call, without what two ensembles cannot have in common; they must all agree."""
        stat = client.exists(path)
        if stat is not None:
            names, listed = client.get_children(path, include_data=True)
            self.assertEqual({stat, client.get(path)[1], listed, client.get_acls(path)[1]}, {stat})
            self.assertEqual(len(names), stat.numChildren)
            self.assertEqual(sorted(names), sorted(client.get_children(path)))
        return stat and stat._replace(**dict.fromkeys(TIMES, 0))

    def test_times(self) -> None:
        """What a child changes in its parent, and what it does not."""
        for path in self.native_and_not():
            self.client.create(path)
            first = self.client.exists(path)
            self.assertEqual(first.pzxid, first.czxid)
            self.client.create(f"{path}/a")
            second = self.client.exists(path)
            self.assertEqual((second.czxid, second.mzxid, second.mtime), (first.czxid, first.mzxid, first.mtime))
            self.client.create(f"{path}/b")
            self.assertGreater(self.client.exists(path).pzxid, second.pzxid)

    def test_exceptions(self) -> None:
        for path in self.native_and_not():
            client = self.client
            with self.subTest(path):
                for call in (client.get, client.get_children, client.get_acls, client.delete):
                    self.assertRaises(NoNodeError, call, path)
                self.assertRaises(NoNodeError, client.set, path, b"")
                self.assertRaises(NoNodeError, client.set_acls, path, client.get_acls(self.root)[0])
                self.assertRaises(NoNodeError, client.create, f"{path}/child")
                self.assertRaises(NoNodeError, client.create, f"{path}/child/deep")
                self.assertIsNone(client.exists(path))
                self.assertIsNone(client.exists(f"{path}/child"))
                client.create(path)
                self.assertRaises(NodeExistsError, client.create, path)
                self.assertRaises(NodeExistsError, client.create, path, makepath=True)
                client.create(f"{path}/child")
                self.assertRaises(NotEmptyError, client.delete, path)
                self.assertRaises(BadVersionError, client.delete, path, 7)
                self.assertRaises(BadVersionError, client.set, path, b"", 7)
                self.assertRaises(BadVersionError, client.set_acls, path, client.get_acls(path)[0], 7)
                self.assertRaises(NodeExistsError, client.create, f"{path}/child")
                client.delete(f"{path}/child")
                self.assertRaises(BadVersionError, client.delete, path, 7)
                self.assertIsNotNone(client.exists(path))
                client.set(path, b"", 0)
                client.delete(path, 1)
                self.assertIsNone(client.exists(path))

    def test_ephemerals_refuse_children(self) -> None:
        for path in self.native_and_not():
            self.client.create(path, ephemeral=True)
            for options in ({}, {"makepath": True}, {"sequence": True}, {"include_data": True}):
                self.assertRaises(NoChildrenForEphemeralsError, self.client.create, f"{path}/x", **options)
            self.assertEqual(self.client.get_children(path), [])
            transaction = self.client.transaction()
            transaction.create(f"{path}/x")
            self.assertEqual(self.types(transaction.commit()), [NoChildrenForEphemeralsError])
            self.client.delete(path)

    def test_sequence_numbers(self) -> None:
        """They go up over deletes and other creates, as long as the directory lives, for all clients."""
        other = self.parkazoo()
        for path in self.native_and_not():
            self.client.create(path)
            self.assertEqual(self.client.create(f"{path}/n-", sequence=True), f"{path}/n-0000000000")
            self.assertEqual(other.create(f"{path}/n-", sequence=True), f"{path}/n-0000000001")
            self.client.create(f"{path}/plain")
            for name in self.client.get_children(path):
                other.delete(f"{path}/{name}")
            self.assertEqual(other.create(f"{path}/", sequence=True, ephemeral=True), f"{path}/0000000003")
            made = self.client.create(f"{path}/m", b"x", sequence=True, include_data=True)
            self.assertEqual(made[0], f"{path}/m0000000004")
            self.assertEqual(made[1].dataLength, 1)

    def test_makepath_and_ensure_path(self) -> None:
        client = self.client
        deep = f"{self.root}/1/2/3/4/5/6/7/8"
        self.assertEqual(client.create(deep, b"deep", makepath=True), deep)
        self.assertEqual(client.get(deep)[0], b"deep")
        self.assertTrue(client.ensure_path(deep))
        self.assertTrue(client.ensure_path(f"{deep}/9/10"))
        self.assertEqual(client.create(f"{self.root}/x/y/s", sequence=True, makepath=True)[-11:], "s0000000000")
        path, stat = client.create(f"{self.root}/p/q/r", b"12", makepath=True, include_data=True)
        self.assertEqual((path, stat.dataLength), (f"{self.root}/p/q/r", 2))

    def test_recursive_delete(self) -> None:
        plain = [self.kazoo(index) for index in range(self.ensembles)]
        top = f"{self.root}/top"
        for names in itertools.product("abc", repeat=3):
            self.client.ensure_path("/".join((top, *names)))
        self.client.delete(top, recursive=True)
        self.assertIsNone(self.client.exists(top))
        self.assertEqual(self.client.get_children(self.root), [])
        self.client.delete(self.root)
        for each in plain:  # nothing is left anywhere
            self.assertEqual([n for n in each.get_children("/parkazoo/mirrors") if self.root[1:] in n], [])
            self.assertEqual(each.get_children("/parkazoo/done"), [])
            self.assertNotIn(self.root[1:], each.get_children("/"))
        self.client.create(self.root)

    def test_root(self) -> None:
        client = self.client
        names, stat = client.get_children("/", include_data=True)
        self.assertEqual(sorted(names), sorted(client.get_children("/")))
        self.assertIn("zookeeper", names)
        self.assertIn(self.root[1:], names)
        self.assertNotIn("parkazoo", names)
        self.assertEqual(stat.numChildren, len(names))
        self.assertEqual(client.exists("/").numChildren, len(names))
        self.assertEqual(client.get("/")[1].numChildren, len(names))
        home = self.kazoo(self.placement.of_children("/"))
        self.assertIsNotNone(home.exists(self.root))
        self.assertRaises(KazooException, client.delete, "/")

    def test_zookeeper(self) -> None:
        """What ZooKeeper says of itself comes from the bootstrap ensemble."""
        bootstrap = self.kazoo(0)
        for path in ("/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            self.assertEqual(self.client.get(path), bootstrap.get(path))
            self.assertEqual(self.client.get_children(path), bootstrap.get_children(path))
        self.assertEqual(self.client.exists("/zookeeper"), bootstrap.exists("/zookeeper"))

    def test_chroot(self) -> None:
        for base in self.native_and_not():
            self.client.create(base)
            client = self.parkazoo(base)
            self.assertEqual(client.create("/a/b", b"x", makepath=True), "/a/b")
            self.assertEqual(self.client.get(f"{base}/a/b")[0], b"x")
            self.assertEqual(client.get_children("/"), ["a"])
            self.assertEqual(client.get_children("/a"), ["b"])
            self.assertEqual(client.create("/a/s", sequence=True), "/a/s0000000001")
            self.assertEqual(client.create("/a/c/t", sequence=True, makepath=True), "/a/c/t0000000000")
            self.assertEqual(client.create("/first", include_data=True)[0], "/first")
            self.assertEqual(client.create("/first/child"), "/first/child")
            transaction = client.transaction()
            transaction.create("/a/c/u")
            transaction.create("/a/c/v", sequence=True)
            transaction.check("/a/c/t0000000000", 0)
            self.assertEqual(transaction.commit(), ["/a/c/u", "/a/c/v0000000002", True])
            transaction = client.transaction()
            transaction.create("/fresh/child")
            self.client.create(f"{base}/fresh")
            self.assertEqual(transaction.commit(), ["/fresh/child"])
            self.assertEqual(client.exists("/").numChildren, len(client.get_children("/")))
            client.delete("/a", recursive=True)
            self.assertIsNone(client.exists("/a"))

    def test_include_data(self) -> None:
        """A create tells the stat, and the create after that finds what it needs."""
        for path in self.native_and_not():
            made, stat = self.client.create(path, b"abc", include_data=True)
            self.assertEqual((made, stat), (path, self.client.exists(path)))
            child, stat = self.client.create(f"{path}/first", b"abcd", include_data=True)
            self.assertEqual((child, stat), (f"{path}/first", self.client.exists(child)))

    def test_names_that_are_hard_to_escape(self) -> None:
        for name in ("%2F", "%", "%25", "a%2Fb", "..", "parkazoo", "mirrors", "ü", "日本", " ", "\u2028"):
            if name == "..":
                continue
            path = f"{self.root}/{name}/{name}/{name}"
            self.client.create(path, name.encode(), makepath=True)
            self.assertEqual(self.client.get(path)[0], name.encode())
            self.assertEqual(self.client.get_children(path.rpartition("/")[0]), [name])
        self.assertEqual(len(self.client.get_children(self.root)), 10)
        self.client.delete(self.root, recursive=True)
        self.client.create(self.root)

    def test_a_directory_that_comes_and_goes(self) -> None:
        """Two clients make, fill, empty and delete one directory; nothing is ever left behind."""
        clients = [self.client, self.parkazoo()]
        path = self.directory(self.root, is_native=False)
        outcomes: set[Any] = set()
        finished = Seen()

        def work(client: Any, name: str) -> None:
            try:
                for _ in range(60):
                    for call in (
                        lambda: client.create(path),
                        lambda: client.create(f"{path}/{name}"),
                        lambda: client.get_children(path),
                        lambda: client.delete(f"{path}/{name}"),
                        lambda: client.delete(path),
                    ):
                        outcomes.add(self.raises_as(call))
            finally:
                finished(name)

        for number, client in enumerate(clients):
            client.handler.spawn(work, client, str(number))
        finished.wait(len(clients))
        self.assertLessEqual(outcomes, {None, NoNodeError, NodeExistsError, NotEmptyError})
        self.client.ensure_path(path)
        self.client.delete(path, recursive=True)
        for index in range(self.ensembles):
            plain = self.kazoo(index)
            self.assertNotIn(escape(path), plain.get_children("/parkazoo/mirrors"))
            self.assertEqual(plain.get_children("/parkazoo/done"), [])


class TestWholeTrees(TreeTest):
    """Calls for whole trees, which send many requests at a time."""

    def make(self, *paths: str) -> None:
        for result in [self.client.create_async(f"{self.root}/{path}", makepath=True) for path in paths]:
            result.get(timeout=DEADLINE_S)

    def test_recursive_delete(self) -> None:
        self.make(*(f"t/{a}/{b}/{c}" for a in range(4) for b in range(8) for c in range(8)), "t/leaf", "other/x")
        for number in range(300):  # more than are on their way at a time
            self.client.create_async(f"{self.root}/t/wide-{number}")
        self.assertIsNone(self.client.delete(f"{self.root}/t", recursive=True))
        self.assertIsNone(self.client.exists(f"{self.root}/t"))
        self.assertEqual(self.client.get_children(self.root), ["other"])
        self.assertEqual(self.client.get_children(f"{self.root}/other"), ["x"])
        self.assertIs(self.client.delete(f"{self.root}/t", recursive=True), True)  # as kazoo's

    def test_recursive_delete_among_others(self) -> None:
        """Others delete in the same tree: what is gone is no error, and in the end all of it is."""
        self.make(*(f"t/{a}/{b}" for a in range(10) for b in range(10)))
        others = [self.client.delete_async(f"{self.root}/t/{number}/{number}") for number in range(10)]
        runs = [self.client.handler.spawn(self.client.delete, f"{self.root}/t", -1, True) for _ in range(3)]
        for each in (*others, *runs):
            each.get(timeout=DEADLINE_S) if hasattr(each, "get") else each.join(DEADLINE_S)
        self.client.delete(f"{self.root}/t", recursive=True)
        self.assertEqual(self.client.get_children(self.root), [])

    def test_recursive_delete_refused(self) -> None:
        """A client that may not delete a znode gets the error, and all above it stays."""
        self.make("t/a/b/kept", "t/z")
        self.client.set_acls(f"{self.root}/t/a/b", READ_ACL_UNSAFE)
        self.assertRaises(NoAuthError, self.client.delete, f"{self.root}/t", recursive=True)
        self.assertIsNotNone(self.client.exists(f"{self.root}/t/a/b/kept"))

    def test_ensure_path(self) -> None:
        path = f"{self.root}/a/b/c/d/e/f"
        acl = [make_acl("world", "anyone", read=True, create=True, delete=True, admin=True)]
        self.assertEqual(self.client.ensure_path(path, acl), path)  # as kazoo's
        self.assertIs(self.client.ensure_path(path, acl), True)
        while path != self.root:
            self.assertEqual(self.client.get_acls(path)[0], acl)
            path = path.rpartition("/")[0]
        self.assertNotEqual(self.client.get_acls(path)[0], acl)  # it was there
        self.assertTrue(self.client.ensure_path(f"{self.root}/a/x/"))
        self.assertEqual(sorted(self.client.get_children(f"{self.root}/a")), ["b", "x"])

    def test_ensure_path_of_a_chroot(self) -> None:
        client = self.parkazoo(f"{self.root}/chroot", start=False)
        with self.assertWarnsRegex(UserWarning, "No chroot path exists"):
            client.start(DEADLINE_S)
        for _ in range(2):
            client.ensure_path("/")
        self.assertEqual(self.client.get_children(self.root), ["chroot"])
        client.ensure_path("/a/b")
        self.assertEqual(self.client.get_children(f"{self.root}/chroot/a"), ["b"])

    def test_a_chroot_of_which_two_levels_are_missing(self) -> None:
        ways: dict[str, Callable[[ParKazooClient], Any]] = {
            "ensure_path": lambda zk: zk.ensure_path("/"),
            "ensure_path below": lambda zk: zk.ensure_path("/a/b"),
            "makepath": lambda zk: zk.create("/a", b"1", makepath=True),
            "makepath of the chroot": lambda zk: zk.create("/", b"1", makepath=True),
            "makepath, a sequence": lambda zk: zk.create("/a/", makepath=True, sequence=True),
            "once": lambda zk: zk.once(zk.create, "/a", makepath=True),
            "once of the chroot": lambda zk: zk.once(zk.create, "/", makepath=True),
            "Barrier": lambda zk: zk.Barrier("/a").create(),
            "Counter": lambda zk: zk.Counter("/a").__add__(1),
            "DistributedDict": lambda zk: zk.DistributedDict("/a").update(key=1),
            "Election": lambda zk: zk.Election("/a").run(lambda: None),
            "Lock": lambda zk: self.assertTrue(zk.Lock("/a").acquire(timeout=DEADLINE_S)),
            "LockingQueue": lambda zk: zk.LockingQueue("/a").put(b"1"),
            "NonBlockingLease": lambda zk: zk.NonBlockingLease("/a", timedelta(hours=1)),
            "Party": lambda zk: zk.Party("/a").join(),
            "Queue": lambda zk: zk.Queue("/a").put(b"1"),
            "Semaphore": lambda zk: self.assertTrue(zk.Semaphore("/a").acquire(timeout=DEADLINE_S)),
            "Spread": lambda zk: zk.Spread("/a", 2).create("x"),
        }
        for number, (name, use) in enumerate(ways.items()):
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # it says that there is no chroot
                client = self.parkazoo(f"{self.root}/n{number}/one/two")
                use(client)
                self.assertIsNotNone(self.client.exists(f"{self.root}/n{number}/one/two"))
                client.stop()

    def test_makepath_of_a_path_that_ends_in_a_slash(self) -> None:
        """kazoo's makes it empty, and raises NodeExistsError."""
        made = [self.client.create(f"{self.root}/a/b/", b"1", makepath=True)]
        made.append(self.client.once(self.client.create, f"{self.root}/c/b/", b"1", makepath=True))
        self.assertEqual(made, [f"{self.root}/a/b", f"{self.root}/c/b"])
        self.assertEqual([self.client.get(path)[0] for path in made], [b"1", b"1"])

    def test_what_is_above_a_chroot_is_refused(self) -> None:
        """The error is that of the znode above it."""
        self.client.create(f"{self.root}/closed", acl=READ_ACL_UNSAFE)
        with self.assertWarnsRegex(UserWarning, "No chroot path exists"):
            client = self.parkazoo(f"{self.root}/closed/one/two")
        self.assertRaises(NoAuthError, client.ensure_path, "/a")
        self.assertRaises(NoAuthError, client.create, "/a/b", makepath=True)

    def test_what_is_above_a_chroot_cannot_be_read(self) -> None:
        """As with kazoo, which does not look above it."""
        acl = [make_acl("world", "anyone", read=False, write=True, create=True, delete=True, admin=True)]
        self.client.create(f"{self.root}/unread", acl=acl)
        with self.assertWarnsRegex(UserWarning, "No chroot path exists"):
            client = self.parkazoo(f"{self.root}/unread/one")
        client.create("/a/b", makepath=True)
        self.assertIsNotNone(self.client.exists(f"{self.root}/unread/one/a/b"))

    def test_ensure_path_refused(self) -> None:
        """It raises the first error."""
        self.client.create(f"{self.root}/closed", acl=READ_ACL_UNSAFE)
        self.assertRaises(NoAuthError, self.client.ensure_path, f"{self.root}/closed/a/b/c")
        self.client.create(f"{self.root}/brief", ephemeral=True)
        self.assertRaises(NoChildrenForEphemeralsError, self.client.ensure_path, f"{self.root}/brief/a/b")

    def test_ensure_path_together(self) -> None:
        """Many at once, of the same path."""
        path = f"{self.root}/p/q/r/s"
        other = self.parkazoo()
        results = [client.ensure_path_async(path) for client in (self.client, other) for _ in range(10)]
        for result in results:
            self.assertIn(result.get(timeout=DEADLINE_S), (True, path))
