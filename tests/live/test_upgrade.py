"""Clients of the previous release and of this one on one cluster: programs go from one to the other, and back."""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
import unittest
from contextlib import ExitStack
from pathlib import Path

from bench import ROOT
from parkazoo.protocol.cluster_map import FORMAT, ClusterMap
from tests.faults.crew import Crew
from tests.faults.load import Load
from tests.faults.run import finish, judge, prepare
from tests.faults.worker import load_named
from tests.live.world import LiveTest, seed

PREVIOUS = "b8f1a86ba7c7f5894ab29f0f74dffaf52ade0dc8"  # of main; 0.1.0, 2026-11-28
ARCHIVED = ("parkazoo", "tests/__init__.py", "tests/faults")  # what a worker imports
LOADS = ("lock", "queue", "counter")
PROCESSES = 2  # of each load: one of each is replaced, then the other
SESSION_TIMEOUT_S = 10.0
WHERE = "import parkazoo; print(parkazoo.__file__)"
READ = """
import sys
from parkazoo.protocol.cluster_map import ClusterMap
try:
    ClusterMap.from_json(sys.stdin.buffer.read())
except Exception as error:
    print(type(error).__name__, error)
"""


def git(*arguments: str) -> bytes:
    """What git says of this checkout, whoever owns it."""
    command = ["git", "-c", f"safe.directory={ROOT}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout


class TestUpgrade(LiveTest):
    form = "grown"
    folder: Path
    previous: Path

    @classmethod
    def setUpClass(cls) -> None:
        if not (ROOT / ".git").exists():
            raise unittest.SkipTest("this is no clone, but files alone: the previous release is not here")
        if git("rev-parse", "--is-shallow-repository").strip() == b"true":
            raise unittest.SkipTest("this clone is shallow, without the previous release: git fetch --unshallow")
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-upgrade-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.previous = cls.folder / "previous"
        cls.previous.mkdir()
        archive = git("archive", PREVIOUS, *ARCHIVED)
        subprocess.run(["tar", "--extract", "--directory", cls.previous], input=archive, check=True)

    def run_previous(self, program: str, given: bytes = b"") -> str:
        """What a program prints that runs with the previous release."""
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, cwd=self.previous, input=given, capture_output=True, check=True
        ).stdout.decode()

    def test_it_is_the_previous_one(self) -> None:
        self.assertEqual(Path(self.run_previous(WHERE).strip()).parents[1], self.previous)

    def test_there_and_back(self) -> None:
        """No lock is held by two, no item is lost or given twice, and each add counts once."""
        loads = [self.load(name) for name in LOADS]
        client = self.parkazoo()
        self.addCleanup(client.delete, "/faults", recursive=True)
        prepare(self.cluster.hosts, loads)
        with ExitStack() as stack:
            crew = Crew(loads, self.folder, self.cluster.hosts, SESSION_TIMEOUT_S, seed(), is_counted=True)
            for member in crew.members:
                member.checkout = self.previous
            stack.enter_context(crew)
            halves = crew.members[::PROCESSES], crew.members[1::PROCESSES]
            crew.wait_progress("of the previous release")
            for checkout in (ROOT, self.previous):
                for half in halves:
                    crew.replace(half, checkout)
                    crew.wait_progress(f"after {len(half)} have gone to {checkout.name}")
            crew.end()
            self.assertEqual({member.life for member in crew.members}, {2})
            finish(self.cluster.hosts, crew, loads, self.folder)
        for load in loads:
            judged = judge(load, crew, [], SESSION_TIMEOUT_S, is_timed=False, has_moves=False)
            self.assertEqual(judged.problems, [], load.about)
            self.assertEqual({*map(judged.figures.get, ("cut short", "gets cut short"))} - {None, 0}, set())

    def load(self, name: str) -> Load:
        load = copy.copy(load_named(name))
        load.processes = PROCESSES
        return load

    def test_a_map_of_a_later_format(self) -> None:
        """The previous release refuses it, and says what to do."""
        document = ClusterMap("c", {"a": "h:1"}, ("a",), "a").to_json()
        later = document.replace(b'"format": %d' % FORMAT, b'"format": %d' % (FORMAT + 1))
        self.assertEqual(self.run_previous(READ, document), "")
        self.assertRegex(
            self.run_previous(READ, later),
            f"^ClusterMapError it has format {FORMAT + 1}, which .* does not know, .*: upgrade ParKazoo$",
        )


if __name__ == "__main__":
    unittest.main()
