"""kazoo's recipes that watch: ChildrenWatch, DataWatch, TreeCache."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.recipe.cache import TreeCache
from kazoo.security import make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.recipe.watchers import ChildrenWatch, DataWatch
from tests.live.test_client_watches import WatchTest
from tests.live.world import Seen, wait_until


class Twice:
    """A watcher's function that wants two calls."""

    calls = 0

    def __call__(self, *found: Any) -> bool:
        self.calls += 1
        return self.calls < 2


class Holding(ParKazooClient):
    """Keeps back the requests that are made while there is something to keep them in."""

    held: Seen | None = None

    def _call(self, request: Any, async_object: Any) -> Any:
        if self.held is None:
            return super()._call(request, async_object)
        return self.held((request, async_object))


class TestRecipes(WatchTest):
    def test_children_watch(self) -> None:
        for kind, path in self.directories():
            with self.subTest(kind):
                seen = Seen()
                self.client.ChildrenWatch(path, seen)
                seen.wait()
                for name in ("a", "b"):
                    self.other.create(f"{path}/{name}")
                    wait_until(lambda n=name, s=seen: n in s[-1], f"{name} seen")
                self.other.delete(f"{path}/a")
                wait_until(lambda s=seen: "a" not in s[-1], "a gone")

    def collect(self, seen: list[Any]) -> Callable[[Any, Any], None]:
        return lambda data, stat: seen.append(data)

    def test_data_watch(self) -> None:
        for is_native in (True, False):
            path = self.directory(self.root, is_native)
            seen: list[Any] = []
            self.client.DataWatch(path, self.collect(seen))
            wait_until(lambda s=seen: s == [None], "nothing there")
            self.other.create(path, b"1")
            wait_until(lambda s=seen: s[-1] == b"1", "created")
            self.other.create(f"{path}/child")
            self.other.set(path, b"2")
            wait_until(lambda s=seen: s[-1] == b"2", "set")
            self.other.delete(path, recursive=True)
            wait_until(lambda s=seen: s[-1] is None, "deleted")
            self.assertEqual(seen, [None, b"1", b"2", None])

    def test_those_that_have_ended(self) -> None:
        """They leave nothing behind: no listener, no watch, no object. Clients of other tests may be there."""
        kinds = (DataWatch, ChildrenWatch, DirectoryWatch)
        before = [each for each in gc.get_objects() if isinstance(each, kinds)]
        listeners = len(self.client.state_listeners)
        secret = self.other.create(f"{self.root}/secret", acl=[make_digest_acl("u", "p", all=True)])
        for kind, path in self.directories():
            self.client.ChildrenWatch(path, lambda names: False)
            for each in (path, f"{self.root}/missing-{kind}"):
                self.client.DataWatch(each, lambda data, stat: False)
            self.client.ChildrenWatch(f"{self.root}/missing-{kind}", Seen())
            for watcher in (self.client.DataWatch, self.client.ChildrenWatch):
                self.assertRaises(NoAuthError, watcher, secret, Seen())
            data, names = Twice(), Twice()
            self.client.DataWatch(path, data)
            self.client.ChildrenWatch(path, names)
            self.other.set(path, b"x")
            self.other.create(f"{path}/x")
            for each in (data, names):
                wait_until(lambda each=each: each.calls == 2, "it has ended")
        members = self.client.members.values()
        wait_until(lambda: not any(each._data_watchers or each._child_watchers for each in members), "no watch")
        self.assertEqual(len(self.client.state_listeners), listeners)
        known = {id(each) for each in before}

        def are_gone() -> bool:
            gc.collect()
            return not any(isinstance(each, kinds) and id(each) not in known for each in gc.get_objects())

        wait_until(are_gone, "no object is left")

    def test_stopped_while_it_reads(self) -> None:
        """What the read sets after the watcher has left is withdrawn."""
        client: Any = self.parkazoo(client_class=Holding)
        for watcher in (client.DataWatch, client.ChildrenWatch):
            with self.subTest(watcher.func.__name__):
                path = self.other.create(f"{self.root}/{watcher.func.__name__}")
                calls = Seen()
                watch = watcher(path, lambda *found, s=calls: s(found))
                client.held = Seen()
                self.other.set(path, b"x")
                self.other.create(f"{path}/x")
                requests, client.held = client.held.wait(), None
                watch._stopped = True
                for request in requests:
                    client._call(*request)
                wait_until(lambda w=watch: w._turns._turn is None, "it has been answered")
                self.assertFalse(client._data_watchers[path] or client._child_watchers[path])
                self.assertEqual(len(calls), 1)

    def test_tree_cache(self) -> None:
        """It follows a tree over all ensembles, and leaves no watch behind when it is closed."""
        cache = TreeCache(self.client, self.root)
        self.addCleanup(cache.close)
        cache.start()
        dice = random.Random(1)
        for _ in range(150):
            path = self.root + "".join("/" + dice.choice("abc") for _ in range(dice.randrange(1, 4)))
            try:
                if dice.random() < 0.6:
                    self.other.create(path, b"%d" % dice.randrange(100), makepath=True)
                elif dice.random() < 0.5:
                    self.other.set(path, b"%d" % dice.randrange(100))
                else:
                    self.other.delete(path)
            except (NoNodeError, NodeExistsError, NotEmptyError):
                pass

        def real(path: str) -> dict[str, bytes]:
            found = {path: self.other.get(path)[0]}
            for name in self.other.get_children(path):
                found |= real(f"{path}/{name}")
            return found

        def cached(path: str) -> dict[str, bytes]:
            data = cache.get_data(path)
            found = {} if data is None else {path: data.data}
            for name in cache.get_children(path) or ():
                found |= cached(f"{path}/{name}")
            return found

        expected = real(self.root)
        self.assertGreater(len(expected), 5)
        wait_until(lambda: cached(self.root) == expected, "the same tree")
        cache.close()
        self.settle(self.client)
        for path in expected:
            self.assertEqual(len(self.client._data_watchers[path]), 0)
            self.assertEqual(len(self.client._child_watchers[path]), 0)
