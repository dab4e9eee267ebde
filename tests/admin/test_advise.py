"""Writes measured: each znode looked at, and ages asked for, of a ZooKeeper that the test plays."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError, NoNodeError

from parkazoo.admin import advise
from parkazoo.admin.advise import _by_events, _by_looks, _oldest_s, _rates, _try_paced, _with_ages
from parkazoo.admin.all_znodes import MOST_PER_SECOND, MOST_WITHOUT_ANSWER, Pace, look_at_all
from parkazoo.admin.clients import AdminClient, UnreadableError
from parkazoo.admin.rates import ClusterLook, ServerLook
from parkazoo.admin.write_counts import DirectoryWrites
from parkazoo.protocol.placement import split

TIMEOUT_S = 5.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def pace(self) -> Pace:
        return Pace(clock=self, sleep=self.sleep)


class Answer:
    """Comes when it is waited for; until then it is not ready."""

    def __init__(self, find: Callable[[], Any], taken: Callable[[], None]) -> None:
        self._find = find
        self._taken = taken

    def ready(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:
        return True

    def get(self, timeout: float) -> Any:
        self._taken()
        return self._find()


class FakeZooKeeper:
    """Plays kazoo's client.

    :param paths: of its znodes, which are as old as their place here. :param errors: by path: the first answers to
        it; those behind them find the znode.
    """

    is_elsewhere = False

    def __init__(self, *paths: str, errors: dict[str, list[KazooException]] | None = None) -> None:
        self.made_s = {"/": 0.0, **{path: 1.0 + at for at, path in enumerate(paths)}}
        self.errors = errors or {}
        self.asked: list[str] = []
        self.waiting = self.most_waiting = 0
        self.handler = SimpleNamespace(timeout_exception=TimeoutError)
        self.connected = True
        self.client_id = None

    def get_children_async(self, path: str, watch: None = None, include_data: bool = False) -> Answer:
        def find() -> Any:
            children = [split(each)[1] for each in self.made_s if each != "/" and split(each)[0] == path]
            return (children, self._stat(path)) if include_data else children

        return self._answer(path, find)

    def exists_async(self, path: str) -> Answer:
        return self._answer(path, lambda: self._stat(path))

    def _stat(self, path: str) -> Any:
        if path not in self.made_s:
            raise NoNodeError
        return SimpleNamespace(czxid=7, created=self.made_s[path], version=3, cversion=5)

    def _answer(self, path: str, find: Callable[[], Any]) -> Answer:
        self.asked.append(path)
        self.waiting += 1
        self.most_waiting = max(self.waiting, self.most_waiting)

        def taken() -> None:
            self.waiting -= 1
            if self.errors.get(path):
                raise self.errors[path].pop(0)

        return Answer(find, taken)

    def client(self) -> AdminClient:
        client = AdminClient("a", "127.0.0.1:1", {}, TIMEOUT_S)
        client.zk = self
        return client


class TestAllZnodes(unittest.TestCase):
    def test_one_deep_child_of_a_hundred(self) -> None:
        """Each znode is asked once, but for ZooKeeper's own, at a pace, and few before the first answers."""
        names = [f"/d/{at}" for at in range(100)]
        zookeeper, clock = FakeZooKeeper("/d", *names, "/d/77/x", "/zookeeper", "/zookeeper/quota"), Clock()
        found, hidden = look_at_all(zookeeper.client(), clock.pace())
        self.assertEqual(hidden, 0)
        self.assertEqual({*found}, {"/", "/d", *names, "/d/77/x"})
        self.assertEqual(sorted(zookeeper.asked), sorted(found))
        self.assertEqual(zookeeper.most_waiting, MOST_WITHOUT_ANSWER)
        self.assertAlmostEqual(clock.now_s, (len(found) - 1) / MOST_PER_SECOND)
        self.assertEqual((found["/d"].created_s, found["/d"].version, found["/d"].cversion), (1.0, 3, 5))
        self.assertLess(found["/"].at_s, found["/d/77/x"].at_s)

    def test_what_is_not_answered(self) -> None:
        """A lost answer is asked for again; a znode that is gone is left out, one that may not be read counted."""
        errors: dict[str, list[KazooException]] = {
            "/lost": [ConnectionLoss()],
            "/gone": [NoNodeError()],
            "/secret": [NoAuthError()],
            "/both": [ConnectionLoss(), NoNodeError()],
        }
        zookeeper = FakeZooKeeper(*errors, "/lost/x", errors=errors)
        found = look_at_all(zookeeper.client(), Clock().pace())
        self.assertEqual({*found.znodes}, {"/", "/lost", "/lost/x"})
        self.assertEqual(found.why_not_all(), "the identity may not read 1 znodes, nor what is below")

    def test_too_many(self) -> None:
        zookeeper = FakeZooKeeper(*(f"/{at}" for at in range(10)))
        with (
            mock.patch("parkazoo.admin.all_znodes.MOST_ZNODES", 9),
            self.assertRaisesRegex(UnreadableError, "^ensemble a .* has more than 9 znodes: .*--sample"),
        ):
            look_at_all(zookeeper.client(), Clock().pace())
        self.assertEqual(zookeeper.asked, ["/"])


class TestInterruption(unittest.TestCase):
    def test_no_request_passes_any_more(self) -> None:
        """Of an ensemble that is still looked at, when ^C comes."""
        begun, ended = threading.Event(), list[str]()

        def look(client: AdminClient, pace: Pace) -> None:
            if client.name == "b":
                begun.wait(60)
                raise KeyboardInterrupt
            begun.set()
            try:
                for _ in range(60 * MOST_PER_SECOND):
                    pace.wait()
            except UnreadableError:
                ended.append(client.name)
                raise

        clients = {name: AdminClient(name, "127.0.0.1:1", {}, TIMEOUT_S) for name in "ba"}
        with self.assertRaises(KeyboardInterrupt):
            _try_paced(clients, look)
        self.assertEqual(ended, ["a"])


class TestAges(unittest.TestCase):
    def test_the_hottest(self) -> None:
        """Cold directories are not asked about. One that was made meanwhile, and is gone, keeps its age."""
        zookeeper = FakeZooKeeper("/hot", "/warm", "/cold")
        rates = {"/hot": 800.0, "/made": 100.0, "/gone": 60.0, "/warm": 35.0, "/cold": 5.0}
        directories = [DirectoryWrites("a", path, path, each) for path, each in rates.items()]
        directories[1] = directories[1]._replace(made_s=9.0)
        found = _with_ages(zookeeper.client(), directories, Clock().pace())
        self.assertEqual([each.made_s for each in found], [1.0, 9.0, None, 2.0, None])
        self.assertEqual({*zookeeper.asked}, {"/hot", "/gone", "/warm"})

    def test_the_tree(self) -> None:
        """ParKazoo's own znodes and ZooKeeper's say nothing of its age."""
        zookeeper = FakeZooKeeper("/parkazoo", "/zookeeper", "/b", "/a", "/a/x")
        self.assertEqual(_oldest_s(zookeeper.client(), Clock().pace()), 3.0)
        self.assertIsNone(_oldest_s(FakeZooKeeper("/parkazoo").client(), Clock().pace()))


class TestFollowing(unittest.TestCase):
    def test_all_give_up(self) -> None:
        """Nobody waits for what cannot come."""
        clock, looker, followers = Clock(), mock.MagicMock(), mock.MagicMock()
        looker.map.names = ("a",)
        followers.sessions.return_value = {"a": "0x1"}
        followers.take.return_value = {}
        followers.troubles.return_value = {"a": "it is too old"}
        followers.are_over.side_effect = lambda: clock.now_s >= 4
        with (
            mock.patch.object(advise, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep)),
            mock.patch.object(advise, "Followers") as begun,
        ):
            begun.return_value.__enter__.return_value = followers
            counted = _by_events(looker, {}, 300.0)
        self.assertEqual((counted.seconds, counted.unseen), (4.0, {"a": "it is too old"}))


class TestLooks(unittest.TestCase):
    def test_what_may_not_be_read(self) -> None:
        """An ensemble's directories were not all seen then."""
        zookeeper = FakeZooKeeper("/secret", errors={"/secret": [NoAuthError(), NoAuthError()]})
        counted = _by_looks(mock.MagicMock(), {"a": zookeeper.client()}, 0.0)
        self.assertRegex(counted.unseen["a"], "^the identity may not read 1 znodes")


class TestQueues(unittest.TestCase):
    def test_the_shorter_counts(self) -> None:
        def look(at_s: float, *queues: int | None) -> ClusterLook:
            servers = [
                ServerLook(name, f"{name}:1", at_s, role="standalone", queue=queue)
                for name, queue in zip("abc", queues, strict=True)
            ]
            return ClusterLook(at_s, at_s, "zk", 1, servers, {}, {})

        found = _rates(look(0.0, 40, 3, None), look(5.0, 30, 50, 7))
        self.assertEqual([each.queue for each in found.ensembles], [30, 3, None])


if __name__ == "__main__":
    unittest.main()
