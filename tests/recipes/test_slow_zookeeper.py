"""docs/guide/slow-zookeeper.md."""

from __future__ import annotations

from typing import ClassVar

from kazoo.client import KazooClient

from parkazoo import ParKazooClient
from tests.live.world import wait_until
from tests.recipes.page_case import PageCase

SHOPS = 20  # that are at work
MORE = 3  # orders of each


def made_in(client: KazooClient, path: str) -> int:
    """How many orders there have been; each has come and gone."""
    stat = client.exists(path)
    return int(stat.cversion) // 2 if stat is not None else 0


class TestSlowZookeeper(PageCase):
    page = "guide/slow-zookeeper.md"
    servers: ClassVar = {"old1:2181": "zk-old", "b1:2181": "zk-b", "c1:2181": "zk-c"}

    def test_page(self) -> None:
        (_, kazoo_s), advise, init, (_, two_lines), *others = self.blocks
        imported, _, made = two_lines.splitlines()
        ours = "\n".join(
            imported if "import KazooClient" in line else made if " = KazooClient(" in line else line
            for line in kazoo_s.splitlines()
        )
        self.assertEqual([kind for kind, _ in (advise, init, *others)], ["console"] * (len(others) + 2))
        with self.program(kazoo_s):
            self.wait_for_orders(KazooClient)
            self.do(advise[1])
        self.do(init[1])
        with self.program(ours):
            self.wait_for_orders(ParKazooClient)
            for _, text in others:
                self.do(text)
            self.wait_for_orders(ParKazooClient)

    def wait_for_orders(self, kind: type[KazooClient]) -> None:
        """Each shop has more of them than by now, wherever its queue is."""
        client = kind(self.hosts["old1:2181"])
        client.start(60)
        try:
            queues = [f"/shops/{shop}/queue" for shop in range(SHOPS)]
            wait_until(lambda: all(map(client.exists, queues)), "the queues")
            begun = {path: made_in(client, path) for path in queues}
            for path, before in begun.items():
                wait_until(lambda path=path, before=before: made_in(client, path) >= before + MORE, path)
        finally:
            client.stop()
            client.close()
