"""docs/guide/from-one-to-three.md, done as it is written, but for the names of servers and folders."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient

from parkazoo import ParKazooClient
from parkazoo.local import LocalClusterError, status, stop_detached
from tests.entered import entered
from tests.live.world import wait_until
from tests.recipes.program import ROOT, run

PAGE = (ROOT / "docs" / "guide" / "from-one-to-three.md").read_text()
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SERVERS = {"old1:2181": "zk-old", "b1:2181": "zk-b", "c1:2181": "zk-c", "d1:2181": "zk-d"}  # and their folders
MORE_JOBS = 10


class TestOneToThree(unittest.TestCase):
    def setUp(self) -> None:
        (_, start), *self.blocks = BLOCK.findall(PAGE)
        parent = Path(entered(self, tempfile.TemporaryDirectory()))
        folders = {name: parent / folder for name, folder in SERVERS.items()}
        for folder in folders.values():
            self.addCleanup(self.end, folder)
        self.do(start.replace("--data ", f"--data {parent}/"))
        self.hosts = {name: status(folder)[0].address for name, folder in folders.items()}
        self.looker = KazooClient(self.hosts["old1:2181"])
        self.looker.start(60)
        self.addCleanup(self.looker.close)
        self.addCleanup(self.looker.stop)

    @staticmethod
    def end(folder: Path) -> None:
        with suppress(LocalClusterError):  # it was not started
            stop_detached(folder)

    def test_page(self) -> None:
        blocks = [(kind, self.local(text)) for kind, text in self.blocks]
        (_, kazoo_s), init, (_, ours), *others = blocks
        self.assertEqual([kind for kind, _ in (init, *others)], ["console"] * (len(others) + 1))
        with self.program(kazoo_s) as program:
            self.wait_for_jobs()
            self.do(init[1])
            self.wait_for_jobs()
            self.assertIsNone(program.poll())
        with self.program(ours) as program:
            self.wait_for_jobs()
            for number, (_, text) in enumerate(others):
                if number == 1:  # the tests' own client does not register
                    self.looker.stop()
                self.do(text)
            self.assertIsNone(program.poll())
            self.see_jobs()

    def local(self, text: str) -> str:
        for name, hosts in self.hosts.items():
            text = text.replace(name, hosts)
        return text

    @contextmanager
    def program(self, source: str) -> Iterator[subprocess.Popen[bytes]]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "jobs.py")
            path.write_text(source)
            with subprocess.Popen([sys.executable, path], cwd=ROOT) as process:
                try:
                    yield process
                finally:
                    process.kill()

    def wait_for_jobs(self) -> None:
        """More of them are done than by now."""
        before = self.looker.exists("/jobs")
        wanted = (before.cversion if before else 0) + MORE_JOBS
        wait_until(lambda: (stat := self.looker.exists("/jobs")) and stat.cversion >= wanted, "more jobs")

    def do(self, text: str) -> None:
        """Each command, and the lines that the page shows of its output; any number may be another one."""
        for command, *lines in (each.splitlines() for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]):
            program, *arguments = command.split()
            self.assertEqual(program, "parkazoo")
            ended = run("-m", "parkazoo", *arguments)
            self.assertEqual(ended.status, 0, ended)
            shown = iter(ended.out.splitlines())
            for line in lines:
                pattern = re.sub(r"\d[\d.,]*", r"[\\d.,]+", re.escape(line).replace("\\.", "."))
                pattern = re.sub(r"(\\ )+", r"\\s+", pattern)
                self.assertTrue(any(re.fullmatch(pattern, each.rstrip()) for each in shown), (line, ended.out))

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
