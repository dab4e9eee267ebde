"""The Python blocks of README.md, run as they are pasted, but for the names of the servers."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

import parkazoo
from parkazoo import ParKazooClient
from tests.live.world import shared_cluster
from tests.recipes.program import ROOT, run

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)[^)]*\)")
SERVERS = "zk1:2181,zk2:2181,zk3:2181"
README = (ROOT / "README.md").read_text()


class ReadmeTest(unittest.TestCase):
    def test_blocks(self) -> None:
        first, second = BLOCK.findall(README)
        self.assertIn(f'"{SERVERS}/app"', first)
        hosts = shared_cluster().hosts
        ended = run("-c", first.replace(SERVERS, hosts))
        self.assertEqual((ended.status, ended.out), (0, ""), ended.err)
        self.assertIn("No chroot path exists", ended.err)  # as the README says
        client = ParKazooClient(hosts)
        client.start()
        try:
            self.assertEqual(client.get("/app/jobs/7")[0], b"payload")
        finally:
            client.delete("/app", recursive=True)
            client.stop()
            client.close()
        ended = run("-W", "error", "-c", second)
        self.assertEqual((ended.status, ended.err), (0, ""))
        lines = ended.out.splitlines()
        self.assertIn("starting 9 ZooKeeper servers", lines)  # it says what it waits for
        self.assertEqual(lines[-1], "b'payload'")

    def test_links(self) -> None:
        links = [link for link in LINK.findall(README) if not link.startswith("https://")]
        self.assertTrue(links)
        self.assertEqual([link for link in links if not Path(ROOT, link).exists()], [])

    def test_versions(self) -> None:
        """What pyproject.toml says of Python is what the README says was tried."""
        tried = re.search(r"Tried with\*\* Python 3\.([0-9]+) to 3\.([0-9]+) and ZooKeeper", README)
        assert tried is not None
        classified = re.findall(r"Python :: (3\.[0-9]+)", (ROOT / "pyproject.toml").read_text())
        first, last = map(int, tried.groups())
        self.assertEqual([f"3.{minor}" for minor in range(first, last + 1)], classified)
        self.assertRegex(parkazoo.__version__, r"^[0-9]+\.[0-9]+\.[0-9]+$")
