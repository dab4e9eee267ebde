"""docs/guide/from-one-to-three.md."""

from __future__ import annotations

from typing import ClassVar

from kazoo.client import KazooClient

from parkazoo import ParKazooClient
from tests.live.world import wait_until
from tests.recipes.page_case import PageCase

MORE_JOBS = 10


class TestOneToThree(PageCase):
    page = "guide/from-one-to-three.md"
    servers: ClassVar = {"old1:2181": "zk-old", "b1:2181": "zk-b", "c1:2181": "zk-c", "d1:2181": "zk-d"}

    def setUp(self) -> None:
        super().setUp()
        self.looker = KazooClient(self.hosts["old1:2181"])
        self.looker.start(60)
        self.addCleanup(self.looker.close)
        self.addCleanup(self.looker.stop)

    def test_page(self) -> None:
        (_, kazoo_s), init, (_, ours), *others = self.blocks
        self.assertEqual([kind for kind, _ in (init, *others)], ["console"] * (len(others) + 1))
        with self.program(kazoo_s):
            self.wait_for_jobs()
            self.do(init[1])
            self.wait_for_jobs()
        with self.program(ours):
            self.wait_for_jobs()
            for number, (_, text) in enumerate(others):
                if number == 1:  # the tests' own client does not register
                    self.looker.stop()
                self.do(text)
            self.see_jobs()

    def wait_for_jobs(self) -> None:
        """More of them are done than by now."""
        before = self.looker.exists("/jobs")
        wanted = (before.cversion if before else 0) + MORE_JOBS
        wait_until(lambda: (stat := self.looker.exists("/jobs")) and stat.cversion >= wanted, "more jobs")

    def see_jobs(self) -> None:
        """They are on all ensembles, and each is done, but for the last of each program, which was killed."""
        client = ParKazooClient(self.hosts["b1:2181"])
        client.start(60)
        try:
            states = [f"/jobs/{job}/state" for job in client.get_children("/jobs")]
            done = [path for path in states if client.exists(path) and client.get(path)[0] == b"done"]
            self.assertLessEqual(len(states) - len(done), 2)
            self.assertGreaterEqual(len(client.members), 3)
        finally:
            client.stop()
            client.close()
