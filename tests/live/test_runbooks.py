"""The commands of pages of docs/operations/, in their order."""

from __future__ import annotations

import re
import unittest
from collections.abc import Iterator, Mapping
from unittest import mock

from bench import ROOT
from parkazoo.admin import init_map
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import FENCE_COUNT
from tests.drills.page import addressed, commands, commands_in_text
from tests.live.map_case import MapCase, run_command
from tests.live.world import DEADLINE_S

PAGES = ROOT / "docs" / "operations"
EXPORT = re.compile(r"^ {4}export (.+?)(?: {2,}.*)?$")
TIMEOUT = "--timeout"


def in_order(page: str) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """Yields each command of a page's blocks, with the variables that are exported by then."""
    exported: dict[str, str] = {}
    for line in page.splitlines(keepends=True):
        if found := EXPORT.match(line):
            exported |= dict(each.split("=", 1) for each in found[1].split())
        for command in commands(line, {}):
            yield command, dict(exported)


class InOrderTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        with mock.patch("parkazoo.admin.contents.FENCE_COUNT", FENCE_COUNT):  # fsck misses none
            init_map(self.a, self.all)

    def run_page(self, name: str) -> int:
        """Runs its commands, also those in its text, on a cluster in order. Returns how many there are."""
        page = (PAGES / name).read_text()
        found = [*commands(page, {}), *commands_in_text(page)]
        addresses = {"a1": self.a, "b1": self.b, "c1": self.c}
        for arguments in found:
            given = [
                *addressed(arguments, addresses),
                TIMEOUT,
                f"{DEADLINE_S:g}",
            ]  # of two timeouts the last counts
            with self.subTest(command=" ".join(arguments)):
                status, out, err = run_command(*given, PARKAZOO_HOSTS=",".join(self.all.values()))
                self.assertEqual((status, err), (0, ""), out)
        return len(found)

    def test_3am(self) -> None:
        client, _ = self.client()
        client.create("/jobs/7", makepath=True)
        self.assertGreater(self.run_page("3am.md"), 10)

    def test_servers(self) -> None:
        self.assertGreater(self.run_page("servers.md"), 2)


class RotationTest(unittest.TestCase):
    def test_the_commands(self) -> None:
        _, _, section = (PAGES / "security.md").read_text().partition("\n## Rotate ")
        found = [*in_order(section)]
        self.assertEqual([each[2] for each, _ in found], ["add", "remove", "remove"])
        _, _, old = found[0][1]["PARKAZOO_AUTH"].partition(":")
        with LocalCluster(ensembles=1, servers=1, make_map=False) as cluster:
            init_map(cluster.hosts, {"a": cluster.hosts}, closed=True, auth=[("digest", old)])
            for arguments, exported in found:
                status, out, err = run_command(
                    *arguments, TIMEOUT, f"{DEADLINE_S:g}", **{**exported, "PARKAZOO_HOSTS": cluster.hosts}
                )
                self.assertEqual((status, err), (0, ""), (arguments, out))
            for variable, ends in (("PARKAZOO_IDENTITY", 1), ("PARKAZOO_AUTH", 0)):  # OLD, NEW
                given = {"PARKAZOO_HOSTS": cluster.hosts, "PARKAZOO_AUTH": found[-1][1][variable]}
                self.assertEqual(run_command("map", "log", **given)[0], ends, variable)
