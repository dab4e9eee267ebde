"""Calls that kazoo does not have, on real ensembles, by both clients."""

from __future__ import annotations

import unittest
import uuid

from kazoo.security import Id

from tests.aio import aio_case
from tests.aio.aio_case import needs_aio
from tests.live.world import LiveTest, shared_cluster


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

    def test_count(self) -> None:
        before = self.client.count_all_children(self.root)
        self.on_each(self.client)
        below = sum(1 for _ in self.client.get_children(self.root))
        self.assertEqual((before, self.client.count_all_children(self.root)), (0, below + self.ensembles))


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
            await zk.delete(root, recursive=True)
