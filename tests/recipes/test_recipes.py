"""Each program of recipes/, run as a user runs it."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

from parkazoo import ParKazooClient
from parkazoo.local import role_of
from tests.live.world import shared_cluster
from tests.recipes.program import ROOT, run

RECIPES = ROOT / "recipes"
SERVICE = "service.py"  # it ends when it is told to: see test_service.py
PROGRAMS = sorted(path for path in RECIPES.glob("*.py") if not path.name.startswith("_"))
OF_ASYNCIO = [path for path in PROGRAMS if path.name.startswith("asyncio_")]
OF_BOTH = """
    Lock Semaphore Barrier DoubleBarrier Counter Election Party Queue LockingQueue SetPartitioner
    once deferred Spread DistributedDict
"""


class RecipesTest(unittest.TestCase):
    """`test_NAME` for each program is added below."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = shared_cluster()
        cls.client = ParKazooClient(cls.cluster.hosts)
        cls.client.start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.stop()
        cls.client.close()

    def written(self) -> list[int]:
        """How much each ensemble has been given to write; each session that begins or ends is a write."""
        return [role_of(ensemble.servers[0].address).zxid for ensemble in self.cluster.ensembles]

    def check(self, program: Path) -> None:
        if program in OF_ASYNCIO and sys.version_info < (3, 11):
            self.skipTest("parkazoo.aio needs Python 3.11")
        znodes, before = self.client.get_children("/"), self.written()
        ended = run("-W", "error", str(program.relative_to(ROOT)), self.cluster.hosts)
        self.assertEqual((ended.status, ended.err), (0, ""))
        self.assertTrue(ended.out.strip(), "it says nothing")
        self.assertGreater(sum(self.written()), sum(before), "it has not used the ensembles")
        self.assertEqual(self.client.get_children("/"), znodes, "it has left znodes")

    def test_there_is_a_program_for_each_recipe(self) -> None:
        of_threads = [path for path in PROGRAMS if path not in OF_ASYNCIO]
        self.check_uses(of_threads, f"{OF_BOTH} DataWatch ChildrenWatch")
        self.check_uses(OF_ASYNCIO, f"{OF_BOTH} ReadLock WriteLock NonBlockingLease TreeCache states")

    def check_uses(self, programs: list[Path], recipes: str) -> None:
        text = "".join(path.read_text() for path in programs)
        for recipe in recipes.split():
            self.assertIn(f".{recipe}(", text)

    def test_the_table_names_each_program(self) -> None:
        table = (RECIPES / "README.md").read_text()
        for program in PROGRAMS:
            self.assertIn(f"| [{program.name}]({program.name}) |", table)

    def test_no_program_stands_in_the_way_of_the_standard_library(self) -> None:
        for program in PROGRAMS:
            self.assertNotIn(program.stem, sys.stdlib_module_names, "rename it, see recipes/README.md")

    def test_hosts_from_the_environment(self) -> None:
        self.assertEqual(run("recipes/barrier.py", PARKAZOO_HOSTS=self.cluster.hosts).status, 0)

    def test_no_hosts(self) -> None:
        ended = run("recipes/barrier.py", PARKAZOO_HOSTS="")
        self.assertEqual(ended.status, 1)
        self.assertRegex(ended.err, r"\Ausage: python recipes/barrier.py HOST:PORT.*\n\Z")

    def test_a_promise_that_is_not_kept_ends_with_status_1_and_leaves_no_znodes(self) -> None:
        broken = """
import sys; sys.path.insert(0, "recipes")
from _clients import clients, expect
with clients(1) as (anna,):
    anna.create("/a")
    expect(anna.exists("/a") is None, "nothing is there")
"""
        znodes = self.client.get_children("/")
        ended = run("-c", broken, self.cluster.hosts)
        self.assertEqual((ended.status, ended.err), (1, "not kept: nothing is there\n"))
        self.assertEqual(self.client.get_children("/"), znodes)


for path in PROGRAMS:
    if path.name != SERVICE:
        setattr(RecipesTest, f"test_{path.stem}", lambda self, path=path: self.check(path))
