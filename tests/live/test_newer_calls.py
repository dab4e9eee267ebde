"""Calls that kazoo does not have, on real ensembles, by both clients."""

from __future__ import annotations

import unittest
import uuid

from kazoo.exceptions import BadArgumentsError, UnimplementedError
from kazoo.security import Id

from parkazoo.types import AddWatchMode
from tests.aio import aio_case
from tests.aio.aio_case import needs_aio
from tests.live.world import LiveTest, Seen, drop_connections, shared_cluster, wait_until


class TestNewerCalls(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)

    def test_whoami(self) -> None:
        self.assertIn(Id("ip", "127.0.0.1"), self.client.whoami())
        self.client.add_auth("digest", "user:password")
        self.assertIn(Id("digest", "user"), self.client.whoami_async().get())

    def test_ephemerals(self) -> None:
        paths = self.on_each(self.client, ephemeral=True)
        self.assertEqual(self.client.get_ephemerals(self.root), sorted(paths))
        self.assertEqual(self.client.get_ephemerals_async().get(), sorted(paths))
        self.assertEqual(self.client.get_ephemerals(paths[0]), [paths[0]])
        self.assertEqual(self.parkazoo(self.root).get_ephemerals(), [])

    def test_with_a_ttl(self) -> None:
        """Servers look once a minute whether one is to end, and no stat tells: they take it, that is all."""
        for is_native in (True, False):
            parent = self.directory(self.root, is_native)
            path = self.client.create_ttl(f"{parent}/t", b"1", ttl=60, makepath=True)
            self.assertEqual(self.client.get(path)[0], b"1")
            self.assertRegex(self.client.create_ttl(f"{parent}/s-", ttl=60, sequence=True), "/s-[0-9]{10}$")

    def test_stop_finishes_one_of_several_requests(self) -> None:
        """Alone: between two of its requests, nothing is under way."""
        for number in range(5):
            client, path = self.joined(), f"{self.root}/{number}/a/b/c/t"
            result = client.create_ttl_async(path, ttl=60, makepath=True)
            client.stop()
            self.assertEqual(result.get(timeout=0), path)

    def test_containers(self) -> None:
        path = self.client.create_container(self.directory(self.root, True))
        self.client.create(f"{path}/x")
        elsewhere = self.directory(self.root, False)
        with self.assertRaisesRegex(BadArgumentsError, "would never end: its children would be on ensemble"):
            self.client.create_container(elsewhere)
        self.assertIsNone(self.client.exists(elsewhere))

    def test_removed_watches(self) -> None:
        """The one that is left is told; then so would be the other."""
        removed, kept = Seen(), Seen()
        for path in self.on_each(self.client):
            for watch in (removed, kept):
                self.client.get(path, watch)
                self.client.get_children(path, watch)
                self.client.exists(f"{path}/missing", watch)
            for watched in (path, f"{path}/missing"):
                self.assertIs(self.client.remove_watches(watched, removed), True)
                self.assertIs(self.client.remove_watches_async(watched, removed).get(), False)
            self.client.create(f"{path}/missing")
            self.client.set(path, b"1")
        kept.wait(3 * self.ensembles)
        self.assertEqual([*removed], [])

    def test_lasting_watches(self) -> None:
        """Another watch on the same path does not end them, nor does a lost connection."""
        for is_native in (True, False):
            self.check_lasting(self.directory(self.root, is_native), 1 if is_native else 2)
        with self.assertRaisesRegex(UnimplementedError, "several ensembles"):
            self.client.add_watch(self.root, print, AddWatchMode.PERSISTENT_RECURSIVE)

    def check_lasting(self, path: str, places: int) -> None:
        told = Seen()
        self.client.add_watch(path, told)
        self.client.create(path)
        self.client.get(path, lambda event: None)
        self.client.set(path, b"1")
        self.client.create(f"{path}/x")
        self.client.set(path, b"2")
        told.wait(4)
        self.assertEqual(sorted(each.type for each in told), ["CHANGED", "CHANGED", "CHILD", "CREATED"])
        drop_connections(self.client)
        wait_until(lambda: [each.state for each in told].count("CONNECTED") == 4 + places, "the watch again")
        self.client.retry(self.client.set, path, b"3")
        wait_until(lambda: [each.type for each in told].count("CHANGED") == 3, "the event")
        self.assertIs(self.client.remove_watches(path, told), True)

    def test_count(self) -> None:
        before = self.client.count_all_children(self.root)
        self.on_each(self.client)
        below = sum(1 for _ in self.client.get_children(self.root))
        self.assertEqual((before, self.client.count_all_children(self.root)), (0, below + self.ensembles))


class TestNewerCallsGrown(LiveTest):
    form = "grown"

    def test_below_a_proof(self) -> None:
        """A multi that ends with a TTL, whose answer kazoo cannot read."""
        client = self.parkazoo()
        root = self.new_root(client)
        plain = self.kazoo(self.home(root).ensemble)
        plain.create(f"{self.home(root).path}/d/x", makepath=True)  # as before the map grew
        plain.delete(f"{self.home(root).path}/d/x")
        for name in "ab":
            self.assertEqual(client.create_ttl(f"{root}/d/{name}", ttl=60), f"{root}/d/{name}")
        self.assertEqual(sorted(client.get_children(f"{root}/d")), ["a", "b"])
        with self.assertRaisesRegex(BadArgumentsError, "the map has grown"):
            client.create_container(f"{root}/c")
        with self.assertRaisesRegex(UnimplementedError, "the map has grown"):
            client.add_watch(f"{root}/d", print)


@needs_aio
class TestNewerAioCalls(unittest.IsolatedAsyncioTestCase):
    async def test_all(self) -> None:
        root = f"/{uuid.uuid4().hex}"
        async with aio_case.ParKazooClient(shared_cluster().hosts) as zk:
            for number in range(9):
                await zk.create(f"{root}/{number}/e", ephemeral=True, makepath=True)
            self.assertEqual(await zk.get_ephemerals(root), [f"{root}/{number}/e" for number in range(9)])
            self.assertEqual(await zk.count_all_children(root), 18)
            self.assertIn(Id("ip", "127.0.0.1"), await zk.whoami())
            self.assertEqual(await zk.create_ttl(f"{root}/0/t", ttl=60), f"{root}/0/t")
            await zk.delete(root, recursive=True)
